/* The random generator underlying tg_rng_block, for vectorised kernels and known-answer tests.
 *
 * tg_rng_block(key, c) = tg__philox((c_lo, c_hi, 0, 0), tg__rng_derive(key)): a loop over many
 * blocks of one stream derives the key once. */
#ifndef TG_BASE_PHILOX_H
#define TG_BASE_PHILOX_H

#include "telegrad/base.h"
#include "telegrad/random.h"

/* The constants of a round and of the key schedule. */
#define TG__PHILOX_M0 UINT32_C(0xD2511F53)
#define TG__PHILOX_M1 UINT32_C(0xCD9E8D57)
#define TG__PHILOX_W0 UINT32_C(0x9E3779B9)
#define TG__PHILOX_W1 UINT32_C(0xBB67AE85)
#define TG__PHILOX_ROUNDS 10

/* One block of Philox4x32-10. out (4) may alias counter (4).
 * Threads  any
 * Source   Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011, sec. 3.3 */
void tg__philox(const uint32_t counter[4], const uint32_t philox_key[2], uint32_t out[4]);
/* The same with fewer rounds: 7 also pass the statistical test batteries (the paper, table 2). */
void tg__philox_rounds(const uint32_t counter[4], const uint32_t philox_key[2], unsigned rounds,
                       uint32_t out[4]);

/* The Philox key (2 words) of a stream.
 * Threads  any */
void tg__rng_derive(const tg_rng_key *key, uint32_t philox_key[2]);

/* The uniform double in [0, 1) of two random words: the upper 53 bits of (hi, lo). */
static inline double tg__unit(uint32_t lo, uint32_t hi)
{
    return (double)(((uint64_t)hi << 32 | lo) >> 11) * 0x1p-53;
}

#endif
