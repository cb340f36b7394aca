/* How much memory there is, so that what does not fit is refused before it is touched: Linux gives
 * out memory that it does not have, and ends the process that uses it. */
#ifndef TG_TRAIN_MEMORY_H
#define TG_TRAIN_MEMORY_H

#include "telegrad/base.h"

/* Bytes that this process may still take: the least of what the system has (memory and swap that
 * are free or easily freed), what its control group allows (version 2) and RLIMIT_AS. INFINITY
 * where nothing says so. */
double memory_available(void);

/* Errors TG_E_NOMEM: says how many of the bytes that `what` needs are missing. made: bytes of them
 * that are allocated already */
TG_NODISCARD tg_status memory_check(const char *what, double bytes, double made);

#endif
