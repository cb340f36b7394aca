/* Functions on numbers, in addition to telegrad/tools.h. */
#ifndef TG_BASE_NUMBER_H
#define TG_BASE_NUMBER_H

#include "telegrad/tools.h"

/* x^n by multiplications only, so that every machine gets the same bits. Threads: any */
double tg__real_power(double x, uint64_t n);

#endif
