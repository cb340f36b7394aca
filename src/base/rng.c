/* Philox4x32-10: ten rounds of
 *   (c0, c1, c2, c3) <- (hi(M1 c2) ^ c1 ^ k0,  lo(M1 c2),  hi(M0 c0) ^ c3 ^ k1,  lo(M0 c0)),
 * with k0 += W0 and k1 += W1 between them.
 *
 * The key of a stream, from its five fields:
 *   a = philox(counter (step_lo, step_hi, purpose, rank), key (seed_lo, seed_hi))
 *   b = philox(counter (a2, a3, tensor, 1), key (a0, a1)),  stream key = (b0, b1). */
#include "base/same_math.h"
#include "base/floats.h"
#include "base/philox.h"
#include <math.h>

void tg__philox(const uint32_t counter[4], const uint32_t philox_key[2], uint32_t out[4])
{
    tg__philox_rounds(counter, philox_key, TG__PHILOX_ROUNDS, out);
}

void tg__philox_rounds(const uint32_t counter[4], const uint32_t philox_key[2], unsigned rounds,
                       uint32_t out[4])
{
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
    uint32_t k0 = philox_key[0], k1 = philox_key[1];
    for (unsigned round = 0; round < rounds; round++) {
        uint64_t p0 = (uint64_t)TG__PHILOX_M0 * c0, p1 = (uint64_t)TG__PHILOX_M1 * c2;
        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)p1;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)p0;
        k0 += TG__PHILOX_W0;
        k1 += TG__PHILOX_W1;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

void tg__rng_derive(const tg_rng_key *key, uint32_t philox_key[2])
{
    const uint32_t seed[2] = {(uint32_t)key->seed, (uint32_t)(key->seed >> 32)};
    const uint32_t first[4] = {(uint32_t)key->step, (uint32_t)(key->step >> 32), key->purpose,
                               key->rank};
    uint32_t a[4], b[4];
    tg__philox(first, seed, a);
    const uint32_t second[4] = {a[2], a[3], key->tensor, 1};
    tg__philox(second, a, b);
    philox_key[0] = b[0];
    philox_key[1] = b[1];
}

static void block(const uint32_t philox_key[2], uint64_t counter, uint32_t out[4])
{
    const uint32_t words[4] = {(uint32_t)counter, (uint32_t)(counter >> 32), 0, 0};
    tg__philox(words, philox_key, out);
}

static bool is_same(const tg_rng_key *a, const tg_rng_key *b)
{
    return a->seed == b->seed && a->purpose == b->purpose && a->rank == b->rank &&
           a->step == b->step && a->tensor == b->tensor;
}

void tg_rng_block(const tg_rng_key *key, uint64_t counter, uint32_t out[4])
{
    /* Callers draw many numbers of one stream: it is derived when it changes. */
    static _Thread_local tg_rng_key last;
    static _Thread_local uint32_t philox_key[2];
    static _Thread_local bool derived;
    if (!out)
        return;
    if (!key) {
        out[0] = out[1] = out[2] = out[3] = 0;
        return;
    }
    if (!derived || !is_same(key, &last)) {
        tg__rng_derive(key, philox_key);
        last = *key;
        derived = true;
    }
    block(philox_key, counter, out);
}

double tg_rng_uniform(const tg_rng_key *key, uint64_t counter)
{
    uint32_t w[4];
    tg_rng_block(key, counter, w);
    return tg__unit(w[0], w[1]);
}

double tg_rng_normal(const tg_rng_key *key, uint64_t counter)
{
    TG__OWN_FLOATS;
    if (!key)
        return 0;
    uint32_t w[4];
    tg_rng_block(key, counter, w);
    double u = 1.0 - tg__unit(w[0], w[1]); /* in (0, 1], so that the logarithm is finite */
    double v = tg__unit(w[2], w[3]);
    return sqrt(-2.0 * tg__log(u)) * tg__cos_turns(v);
}

/* A number in [0, bound), bound <= 2^32, from 64 random bits: floor(bits * bound / 2^64), biased by
 * less than bound / 2^64. */
static uint32_t below(uint32_t lo, uint32_t hi, uint64_t bound)
{
    return (uint32_t)((hi * bound + (lo * bound >> 32)) >> 32);
}

void tg_rng_permutation(const tg_rng_key *key, uint32_t *order, size_t n)
{
    uint32_t philox_key[2], w[4];
    if (!order)
        return;
    for (size_t i = 0; i < n; i++)
        order[i] = (uint32_t)i;
    if (!key)
        return;
    tg__rng_derive(key, philox_key);
    for (size_t i = n; i-- > 1;) {
        block(philox_key, i, w);
        uint32_t j = below(w[0], w[1], (uint64_t)i + 1);
        uint32_t moved = order[i];
        order[i] = order[j];
        order[j] = moved;
    }
}
