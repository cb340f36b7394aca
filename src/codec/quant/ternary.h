/* What 2bit and strom share: the bit planes of kernel.h (+threshold, -threshold) of a run of
 * elements, made by several cores. */
#ifndef TG_CODEC_TERNARY_H
#define TG_CODEC_TERNARY_H

#include "codec/codec_impl.h"
#include <stdatomic.h>

/* Where the planes come from. code() writes those of elements [lo, hi) of the vector (lo is a
 * multiple of 64 elements away from its run's begin). */
typedef struct tg__ternary {
    void (*code)(const struct tg__ternary *t, size_t lo, size_t hi, float threshold,
                 uint8_t *planes);
    const float *x;
    float *r;
    bool leaves;         /* r keeps what is left over: code is one of the last two */
    atomic_bool *spoilt; /* [out] some r is not finite; NULL: nobody asks */
} tg__ternary;

/* Planes of x. */
void tg__ternary_of(const tg__ternary *t, size_t lo, size_t hi, float threshold, uint8_t *planes);
/* Planes of x; r = what they decode to. */
void tg__ternary_shown(const tg__ternary *t, size_t lo, size_t hi, float threshold,
                       uint8_t *planes);
/* Planes of r, which keeps what they leave over. */
void tg__ternary_left(const tg__ternary *t, size_t lo, size_t hi, float threshold, uint8_t *planes);
/* r += x, then as above, in one pass. */
void tg__ternary_add(const tg__ternary *t, size_t lo, size_t hi, float threshold, uint8_t *planes);

/* The planes (tg__twobit_bytes(hi - lo)) of one run; returns how many elements they send. */
size_t tg__ternary_run(const tg__ternary *t, tg__pool *pool, size_t lo, size_t hi, float threshold,
                       uint8_t *planes);
#endif
