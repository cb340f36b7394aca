/* Kernels of the codec 1bit for matrices, each with two values for each column, and perhaps a
 * weight for each row (src/codec/sign/rank1.h). */
#ifndef TG_CUDA_ONEBIT_H
#define TG_CUDA_ONEBIT_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { TG__PANEL_COLS = 32, TG__PANEL_ROWS = 256, TG__BAND_ROWS = 16 };

typedef struct tg__matrix {
    uint32_t begin, rows, cols;
    uint32_t value, bit; /* where its values and bits begin, as in tg__strip */
    uint32_t column;     /* number of its first column */
} tg__matrix;

/* TG__PANEL_COLS columns: all rows, or TG__PANEL_ROWS rows from `row` on. A band is TG__BAND_ROWS
 * rows with all columns. */
typedef struct tg__panel {
    uint32_t matrix, col, row;
} tg__panel;

/* Device memory. */
typedef struct tg__matrices {
    const tg__matrix *matrix;
    const tg__panel *panel, *tile; /* panels of all rows, and of some */
    const tg__panel *band;
    uint32_t panels, tiles, bands;
    bool weighted; /* the values of a matrix begin with the weights of its rows */
} tg__matrices;

/* What becomes of the sums of a column: its mean in t; the means of the elements below 0 and of the
 * others; the pair t + d, t - d, d the mean of |x - t|. */
typedef enum tg__column_result {
    TG__COLUMN_MEAN,
    TG__COLUMN_PAIR,
    TG__COLUMN_SPREAD
} tg__column_result;

/* If *bad is not UINT64_MAX, nothing is changed. */
typedef struct tg__column_pass {
    const uint64_t *bad;
    float *x;
    const float *g;   /* sums: NULL, or x += g first */
    float *t;         /* (columns) mean: written; pair, or NULL: all 0 */
    float *values;    /* of all matrices */
    uint8_t *bits;    /* [out] x < t; NULL: not wanted */
    bool subtract;    /* settle: x -= (x < t ? minus : plus) * weight; else x is only read */
    uint32_t *spoilt; /* [out] sums: 1 if some x is not finite; else unchanged */
} tg__column_pass;
cudaError_t tg__column_sums(const tg__matrices *m, const tg__column_pass *p, tg__column_result what,
                            cudaStream_t stream);
/* For matrices with weights. The first call forms x += g, if there is g, and writes the weights of
 * the rows. The second one, which needs them, writes the values of the columns, and bits. */
cudaError_t tg__row_weights(const tg__matrices *m, const tg__column_pass *p, cudaStream_t stream);
cudaError_t tg__column_weighed(const tg__matrices *m, const tg__column_pass *p,
                               cudaStream_t stream);
/* For matrices with and without weights. */
cudaError_t tg__column_settle(const tg__matrices *m, const tg__column_pass *p, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
