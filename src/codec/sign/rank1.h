/* A matrix as signs with magnitudes of rank one: a weight of the row times one of two values of the
 * column. The weight is the mean |x| of the row. The values are the best ones for these weights:
 * they minimise the sum of the squared errors of each column, which is therefore not larger than
 * that of zeros:
 *
 *     value_c = sum_r w_r x_rc / sum_r w_r^2, over the rows of its bit
 *
 * Sums are in f64, those of columns by blocks of TG__COLUMN_BLOCK rows, each from 0. Weights and
 * values are f32. Values are limited, so that no product with a weight is infinite.
 *
 * Factored magnitudes as in Shazeer and Stern 2018, arXiv:1804.04235 (Adafactor); signs with scales
 * of rank one as in Xu et al. 2024, arXiv:2402.11295 (OneBit). */
#ifndef TG_CODEC_RANK1_H
#define TG_CODEC_RANK1_H

#include "base/pool.h"
#include "kernel/kernel.h"
#include <stdatomic.h>

typedef struct tg__rank1 {
    const tg__kernels *k;
    tg__pool *pool;
    float *x;
    const float *g; /* NULL: x is not changed. Else x += g first, and x -= decoded afterwards */
    size_t rows, cols;
    void *room;          /* TG__RANK1_ROOM(rows, cols) bytes, aligned for doubles */
    uint8_t *values;     /* [out] weights (rows), plus (cols), minus (cols) */
    uint8_t *bits;       /* [out] by rows, each beginning at a byte */
    atomic_bool *spoilt; /* [out] some x is not finite; then the rest is not written */
} tg__rank1;
#define TG__RANK1_ROOM(rows, cols) \
    ((cols) * (4 * sizeof(double) + 3 * sizeof(float)) + (rows) * sizeof(float))

void tg__rank1_write(const tg__rank1 *m);

/* Whether all products of a weight and a value are finite.
 * values  (rows + n) finite: weights, which are not negative, then n others */
bool tg__rank1_finite(const uint8_t *values, size_t rows, size_t n);

#endif
