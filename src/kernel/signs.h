/* One element, one byte, one chunk of the 1-bit kernels: sign_ref.c and onebit_ref.c loop over
 * these, and the other variants use them for the remainder. */
#ifndef TG_KERNEL_SIGNS_H
#define TG_KERNEL_SIGNS_H

#include "kernel/element.h"
#include <math.h>

static inline bool tg__bit(const uint8_t *bits, size_t i)
{
    return bits[i / 8] >> i % 8 & 1;
}

/* Write the low ceil(n / 8) bytes of bits; n <= 64. */
static inline void tg__bits_put(uint8_t *dst, size_t n, uint64_t bits)
{
    if (n == 64) {
        tg__put64(dst, bits);
        return;
    }
    for (size_t j = 0; 8 * j < n; j++)
        dst[j] = (uint8_t)(bits >> 8 * j);
}

/* Element i of an array of f32 at any alignment. */
static inline float tg__float_at(const uint8_t *p, size_t i)
{
    return tg__f32_from(tg__get32(p + 4 * i));
}

/* The decision of `voters` voters, of whom `against` voted for minus. */
static inline float tg__verdict(size_t voters, size_t against)
{
    return 2 * against > voters ? -1.0f : 2 * against == voters ? 0.0f : 1.0f;
}

/* x += g (unless NULL) and the sums of |x| in lanes, for the elements begin .. end - 1 of a chunk.
 */
static inline void tg__abs_add(double lanes[TG__LANES], float *x, const float *g, size_t begin,
                               size_t end)
{
    for (size_t i = begin; i < end; i++) {
        if (g)
            x[i] += g[i];
        lanes[i % TG__LANES] += fabs((double)x[i]);
    }
}

/* The sum of a chunk. */
static inline double tg__lanes_sum(const double lanes[TG__LANES])
{
    double sum = 0;
    for (size_t lane = 0; lane < TG__LANES; lane++)
        sum += lanes[lane];
    return sum;
}

typedef struct tg__split_lanes {
    double below[TG__LANES], above[TG__LANES];
} tg__split_lanes;

/* Add the elements begin .. end - 1 of the chunk x. */
static inline void tg__split_add(tg__split_lanes *lanes, uint64_t *nbelow, const float *x, float t,
                                 size_t begin, size_t end)
{
    for (size_t i = begin; i < end; i++) {
        if (x[i] < t) {
            lanes->below[i % TG__LANES] += (double)x[i];
            ++*nbelow;
        } else {
            lanes->above[i % TG__LANES] += (double)x[i];
        }
    }
}

/* Add a finished chunk to the totals. */
static inline void tg__split_sum(const tg__split_lanes *lanes, tg__split *s)
{
    double below = 0, above = 0;
    for (size_t lane = 0; lane < TG__LANES; lane++) {
        below += lanes->below[lane];
        above += lanes->above[lane];
    }
    s->below += below;
    s->above += above;
}

#endif
