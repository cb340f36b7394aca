/* log, exp and cosine by additions, multiplications and divisions only, so that every machine gets
 * the same bits. Those of C libraries differ in the last bit from one another; glibc's also differ
 * with the CPU, because they use fused multiply-add where there is one.
 * Accuracy  a few units in the last place
 * Threads   any */
#ifndef TG_BASE_SAME_MATH_H
#define TG_BASE_SAME_MATH_H

double tg__log(double x);       /* 0 < x, finite */
double tg__exp(double x);       /* -745 < x < 709 */
double tg__cos_turns(double x); /* cos(2 pi x), 0 <= x <= 1 */

#endif
