/* The orthonormal discrete cosine transform (type II) of small matrices, and its inverse:
 *
 *     C[u][i] = sqrt((u == 0 ? 1 : 2) / n) cos(pi (2 i + 1) u / (2 n))
 *     y = C x C'^T,  x = C^T y C'           C (height, height), C' (width, width)
 *
 * The tables are computed in f64 without a math library and rounded to f32; products are those of
 * the kernels. So every machine gets the same bits. Sizes from 1 to 64. */
#ifndef TG_CODEC_DCT_H
#define TG_CODEC_DCT_H

#include "codec/block/block_grid.h"

/* y (height, width) = the transform of x, whose rows are `stride` apart. Elements must be below
 * 2^102. */
void tg__dct(const float *x, size_t stride, size_t height, size_t width, float *y);
/* x (height, width) = the inverse transform of y, of which only the n elements at these places, row
 * by row, are not 0. Places ascend. */
void tg__dct_back(const uint16_t *place, const float *val, size_t n, size_t height, size_t width,
                  float *x);

#endif
