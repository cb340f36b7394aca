/* Shared by 2bit and strom: the bit planes of kernel.h (+threshold, -threshold) of a run of
 * elements, computed by several cores. */
#ifndef TG_CODEC_TERNARY_H
#define TG_CODEC_TERNARY_H

#include "codec/codec_impl.h"
#include "codec/quant/threshold_auto.h"
#include <stdatomic.h>

/* The source of the planes. code() writes those of elements [lo, hi) of the vector (lo is a
 * multiple of 64 elements from its run's begin). */
typedef struct tg__ternary {
    void (*code)(const struct tg__ternary *t, size_t lo, size_t hi, float threshold,
                 uint8_t *planes);
    const float *x, *g; /* g: the scores are x (or r) + ahead * g. NULL: x (or r) itself */
    float *r;
    float ahead;
    bool leaves;         /* r keeps the remainder: the source is tg__ternary_settle's */
    atomic_bool *spoilt; /* [out] some r is not finite; NULL: not wanted */
} tg__ternary;

/* The source for x (n), for codecs whose impl begins with tg__thresholds. decoded (n): [out] the
 * decoded planes; NULL: not wanted. */
tg__ternary tg__ternary_of(tg_codec *c, const tg_encode_context *ctx, const float *x,
                           float *decoded);

/* The source of a pass over r += g, for codecs whose impl begins with tg__thresholds. If thresholds
 * are to be estimated, which needs r first, g is added here. */
tg__ternary tg__ternary_settle(tg_codec *c, const tg_encode_context *ctx, float *r, const float *g,
                               size_t n, atomic_bool *spoilt);

/* Write the planes (tg__twobit_bytes(hi - lo)) of one run; returns the number of elements they
 * send. */
size_t tg__ternary_run(const tg__ternary *t, tg__pool *pool, size_t lo, size_t hi, float threshold,
                       uint8_t *planes);
#endif
