/* Numbers as text, the same in every locale: decimal only, no blanks, no "inf", "nan" or hex. */
#ifndef TG_BASE_NUMBER_H
#define TG_BASE_NUMBER_H

#include "telegrad/base.h"

#define TG__REAL_TEXT 32 /* bytes that tg__real_text needs */

/* Shortest text (at least 6 digits are tried) that reads back as exactly v, e.g. "0.1", "1e-05".
 * v is finite; -0 gives "0". Threads: any */
void tg__real_text(double v, char text[TG__REAL_TEXT]);

/* The whole of text as a finite number: [-]digits[.digits][e[+-]digits]. False, and *v_p untouched,
 * if it is not one, overflows, or is not zero but too small for a double. Threads: any */
bool tg__real_parse(const char *text, double *v_p);

/* The same with "%" behind it: a hundredth, rounded once, so that 0.7% is 0.007. Threads: any */
bool tg__percent_parse(const char *text, double *v_p);

/* The whole of text as [-]digits that fit 64 bits. Threads: any */
bool tg__int_parse(const char *text, int64_t *v_p);

/* x^n by multiplications alone, so that every machine gets the same bits. Threads: any */
double tg__real_power(double x, uint64_t n);

#endif
