/* How much memory is left, so that a network that does not fit is refused before its memory is
 * touched. Linux hands out more memory than it has, and kills the process that uses it. */
#ifndef TG_TRAIN_MEMORY_H
#define TG_TRAIN_MEMORY_H

#include "telegrad/base.h"

/* Bytes that this process may still allocate: the minimum of what the system has (memory and swap
 * that are free or easily freed), the limit of its control group (version 2), and RLIMIT_AS.
 * INFINITY if none of them is known. */
double memory_available(void);

/* Check that `networks` networks of `bytes` each fit into what was available before the first of
 * them allocated. Errors TG_E_NOMEM: the message says how much one needs, for how many, and how
 * much is available */
TG_NODISCARD tg_status memory_check(double bytes, size_t networks, double available);

#endif
