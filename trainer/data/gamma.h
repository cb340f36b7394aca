/* Gamma-distributed random numbers, from exactly rounded operations only (+ - * / sqrt and scaling
 * by powers of two). So they have the same bits on every machine, unlike the C library's log and
 * exp. */
#ifndef TG_TRAIN_GAMMA_H
#define TG_TRAIN_GAMMA_H

#include "telegrad/base.h"
#include "telegrad/random.h"

/* The natural logarithm of x > 0, and e^x, within 4 units in the last place or 4e-16 of libm's.
 * exact_exp is 0 below -700. */
double exact_log(double x);
double exact_exp(double x);

/* The logarithm of a number drawn from Gamma(alpha, 1), alpha > 0. (For a small alpha the number
 * itself may be too small for a double.) Uses the stream from counter 0 on.
 * Source  Marsaglia & Tsang 2000, ACM Trans. Math. Softw. 26(3); alpha < 1 by their sec. 6 */
double gamma_log(const tg_rng_key *key, double alpha);

#endif
