/* telegrad/random.h - counter-based random numbers: any number of any stream, in any order, the
 * same on any machine.
 *
 * Threads  any; all functions are pure, except that they write their outputs */
#ifndef TELEGRAD_RANDOM_H
#define TELEGRAD_RANDOM_H

#include "telegrad/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a stream of random numbers is for. The values are never reused, because runs must stay
 * reproducible. */
typedef enum tg_purpose {
    TG_PURPOSE_INIT = 1,    /* initial parameters */
    TG_PURPOSE_SHUFFLE = 2, /* order of samples */
    TG_PURPOSE_DATA = 3,    /* generated data, augmentation */
    TG_PURPOSE_CODEC = 4,   /* stochastic rounding and sampling in codecs */
    TG_PURPOSE_DROPOUT = 5,
    TG_PURPOSE_TEST = 6,
    TG_PURPOSE_FAULT = 7,
    TG_PURPOSE_BASIS = 8,    /* initial bases of low-rank methods */
    TG_PURPOSE_OWNER = 9,    /* as CODEC, when sums are encoded again */
    TG_PURPOSE_CLIENTS = 10, /* which ranks take part in a round */
    TG_PURPOSE_HASH = 11     /* hash functions of sketches */
} tg_purpose;

/* The key of a stream. Streams with different keys are independent. Set rank to 0 if all ranks must
 * draw the same numbers. Never grows. */
typedef struct tg_rng_key {
    uint64_t seed;
    uint32_t purpose; /* tg_purpose */
    uint32_t rank;
    uint64_t step;
    uint32_t tensor; /* or any other index */
} tg_rng_key;

/* Block number `counter` of a stream: four random words of 32 bits. It is a pure function of key
 * and counter, so any thread can draw the numbers of any element, in any order.
 * The 64-bit Philox key is derived from the five fields of tg_rng_key by two Philox blocks.
 * key     NULL: the block is zeros
 * Source  Philox4x32-10: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011 */
TG_API void tg_rng_block(const tg_rng_key *key, uint64_t counter, uint32_t out[4]);

/* A double, uniform in [0, 1) with 53 bits, from the first two words of block `counter`. */
TG_API double tg_rng_uniform(const tg_rng_key *key, uint64_t counter);

/* A standard normal double, by Box-Muller, from block `counter`. */
TG_API double tg_rng_normal(const tg_rng_key *key, uint64_t counter);

/* Shuffle the numbers 0 to n-1 (Fisher-Yates).
 * key    NULL: not shuffled
 * order  [out] (n) */
TG_API void tg_rng_permutation(const tg_rng_key *key, uint32_t *order, size_t n);

#ifdef __cplusplus
}
#endif
#endif
