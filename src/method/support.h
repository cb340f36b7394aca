/* A random choice of elements, the same on all ranks. */
#ifndef TG_METHOD_SUPPORT_H
#define TG_METHOD_SUPPORT_H

#include "telegrad/base.h"
#include "telegrad/random.h"

#define TG__SUPPORT_WORDS(n) (((n) + 63) / 64)

/* idx (k) = k of the numbers below n, ascending. Each choice of k is equally likely (to n / 2^64),
 * and a function of key, n and k only. k <= n <= 2^32; bits: scratch (TG__SUPPORT_WORDS(n)). The
 * arithmetic is integer only, so machines agree.
 * Cost   min(k, n - k) draws and a pass over the bits
 * Source Floyd's algorithm F2: Bentley, "Programming pearls: a sample of brilliance", CACM 30(9),
 *        1987 */
void tg__support_draw(const tg_rng_key *key, size_t n, size_t k, uint64_t *bits, uint32_t *idx);

#endif
