/* Vectors for tests of coders, all finite: what a step's gradient may hold. */
#ifndef TG_TEST_CUDA_VECTORS_H
#define TG_TEST_CUDA_VECTORS_H

#include "telegrad/random.h"
#include <math.h>
#include <stddef.h>

enum { VECTOR_MIXED, VECTOR_TIES, VECTOR_NORMAL, VECTOR_ZERO, VECTOR_HUGE, VECTOR_KINDS };

static inline float vector_value(const tg_rng_key *key, int kind, size_t i)
{
    const double u = tg_rng_uniform(key, 2 * i), z = tg_rng_normal(key, 2 * i + 1);
    switch (kind) {
    case VECTOR_MIXED: /* scales, both zeros and subnormals */
        if (u < 0.1)
            return u < 0.05 ? 0.0f : -0.0f;
        return u < 0.15 ? (float)(z * 1e-41) : (float)(z * pow(10, 12 * u - 9));
    case VECTOR_TIES:
        return (u < 0.5 ? 0.25f : -0.25f) * (float)(1 + i % 3);
    case VECTOR_ZERO:
        return i % 2 == 0 ? 0.0f : -0.0f;
    case VECTOR_HUGE:
        return u < 0.01 || i == 0 ? (float)(z * 1e30) : (float)z;
    default:
        return (float)(z * 0.01);
    }
}

static inline void vector_draw(float *x, size_t n, int kind, uint64_t seed, uint64_t step)
{
    const tg_rng_key key = {.seed = seed, .purpose = TG_PURPOSE_TEST, .step = step};
    for (size_t i = 0; i < n; i++)
        x[i] = vector_value(&key, kind, i);
}

#endif
