/* For tests: vectors of every kind that codecs and exchanges should handle, the same in every
 * run. */
#ifndef TESTS_VECTORS_H
#define TESTS_VECTORS_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>

/* xorshift64*: 32 random bits */
static inline uint32_t test_random(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return (uint32_t)(*state * UINT64_C(2685821657736338717) >> 32);
}

enum test_vector {
    TEST_GRADIENT, /* heavy-tailed, both signs */
    TEST_DYADIC,   /* small multiples of 1/64: sums are exact */
    TEST_TIES,     /* -1, 0, 1 */
    TEST_EQUAL,    /* all 0.75 */
    TEST_ZERO,
    TEST_RARE, /* nearly all 0 and -0 */
    TEST_WILD, /* subnormal to huge, finite */
    TEST_VECTORS
};

static inline void test_vector(float *x, size_t n, enum test_vector kind, uint64_t seed)
{
    uint64_t state = seed * UINT64_C(0x9e3779b97f4a7c15) + (uint64_t)kind + 1;
    for (size_t i = 0; i < n; i++) {
        uint32_t r = test_random(&state);
        float sign = r & 1 ? 1.0f : -1.0f;
        double u = ((double)(r >> 1) + 0.5) * 0x1p-31;
        switch (kind) {
        case TEST_GRADIENT:
            x[i] = sign * (float)(-0.01 * log(u) * (1 + 0.5 * u));
            break;
        case TEST_DYADIC:
            x[i] = (float)((int)(r >> 8) % 129 - 64) / 64;
            break;
        case TEST_TIES:
            x[i] = (float)((int)(r >> 8) % 3 - 1);
            break;
        case TEST_EQUAL:
            x[i] = 0.75f;
            break;
        case TEST_RARE:
            x[i] = (r >> 8) % 41 == 0 ? sign * (float)u : r & 2 ? -0.0f : 0.0f;
            break;
        case TEST_WILD:
            x[i] = sign * ldexpf((float)u, (int)(r >> 8) % 270 - 144);
            break;
        default:
            x[i] = 0;
        }
    }
}

#endif
