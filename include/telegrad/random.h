/* telegrad/random.h - counter random numbers: any number of any stream, in any order, on any
 * machine. */
#ifndef TELEGRAD_RANDOM_H
#define TELEGRAD_RANDOM_H

#include "telegrad/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a stream of random numbers is for. Numbers are never reused: they are part of what makes a
 * run reproducible. */
typedef enum tg_purpose {
    TG_PURPOSE_INIT = 1,    /* initial parameters */
    TG_PURPOSE_SHUFFLE = 2, /* order of samples */
    TG_PURPOSE_DATA = 3,    /* generated data, augmentation */
    TG_PURPOSE_CODEC = 4,   /* stochastic rounding and sampling in codecs */
    TG_PURPOSE_DROPOUT = 5,
    TG_PURPOSE_TEST = 6,
    TG_PURPOSE_FAULT = 7,
    TG_PURPOSE_BASIS = 8,   /* first guesses of low-rank methods */
    TG_PURPOSE_OWNER = 9,   /* as CODEC, where sums are encoded again */
    TG_PURPOSE_CLIENTS = 10 /* which ranks take part in a round */
} tg_purpose;

/* A key names a stream. Streams with different keys are independent. rank is 0 where all ranks must
 * draw the same numbers. */
typedef struct tg_rng_key {
    uint64_t seed;
    uint32_t purpose; /* tg_purpose */
    uint32_t rank;
    uint64_t step;
    uint32_t tensor; /* or any other index of the caller's */
} tg_rng_key;

/* Four 32-bit random words number `counter` of the stream: Philox4x32-10 (Salmon et al., "Parallel
 * random numbers: as easy as 1, 2, 3", SC 2011). The block is a pure function of its arguments, so
 * any element of any tensor can be drawn by any thread in any order.
 * The 64-bit Philox key is derived from the five fields by two Philox blocks. key NULL: zeros. */
TG_API void tg_rng_block(const tg_rng_key *key, uint64_t counter, uint32_t out[4]);

/* One double, uniform in [0, 1) with 53 bits: word pair (counter, 0). */
TG_API double tg_rng_uniform(const tg_rng_key *key, uint64_t counter);

/* One standard normal double by Box-Muller from block `counter`. */
TG_API double tg_rng_normal(const tg_rng_key *key, uint64_t counter);

/* Fisher-Yates shuffle of the numbers 0..n-1 into order (n). key NULL: 0, 1, ..., n-1. */
TG_API void tg_rng_permutation(const tg_rng_key *key, uint32_t *order, size_t n);

#ifdef __cplusplus
}
#endif
#endif
