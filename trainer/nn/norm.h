/* Batch normalisation of activations, optionally with the operations after it in residual networks:
 *
 *     y = (x - mean) / sqrt(variance + epsilon) * gamma + beta   for each channel,
 *     y = max(y, 0)              with relu,
 *     y = max(y + shortcut, 0)   with a shortcut
 *
 * In each direction, one pass over memory computes the sums and one the elements, whatever is
 * fused. Arrays are (batch, places, channels), or blocked (nn.h). The arrays of a call do not
 * overlap unless stated. All instruction sets give the same bits.
 *
 * Source  Ioffe and Szegedy 2015, arXiv:1502.03167, alg. 1; combining sums over chunks: Chan et al.
 *         1983, Am. Stat. 37(3) */
#ifndef TG_NN_NORM_H
#define TG_NN_NORM_H

#include "trainer/nn/nn.h"

#define NN_NORM_EPSILON 1e-5 /* as in PyTorch */

typedef struct nn_norm_shape {
    size_t batch, places, channels;
    bool blocked; /* channels is a multiple of 16 */
    bool relu;    /* implied by a shortcut */
} nn_norm_shape;

typedef struct nn_norm nn_norm;

/* Errors TG_E_NOMEM */
TG_NODISCARD tg_status nn_norm_create(const nn_norm_shape *shape, nn_norm **s_p);
void nn_norm_destroy(nn_norm *s); /* NULL is fine */

/* Mean and biased variance (channels) of the first `count` samples. */
void nn_norm_statistics(nn_norm *s, size_t count, const float *x, float *mean, float *variance);

/* Normalise all samples. Arguments of (channels) are kept for the backward functions below.
 * shortcut  NULL: none */
void nn_norm_forward(nn_norm *s, const float *x, const float *shortcut, const float *mean,
                     const float *variance, const float *gamma, const float *beta, float *y);

/* Call it after nn_norm_statistics, and nn_norm_forward of x with those results. dy2 (NULL: none)
 * is first added to dy.
 * y   the result of forward if there was a shortcut; otherwise ignored
 * dz  gradient of the sum before the relu, which is also the shortcut's; may be dy or dy2. NULL:
 *     not needed */
void nn_norm_backward_weights(nn_norm *s, size_t count, const float *x, const float *y,
                              const float *dy, const float *dy2, float *dz, float *dgamma,
                              float *dbeta);

/* Call it after nn_norm_backward_weights. dx is 0 for samples that do not count.
 * dz      as written by backward_weights; NULL: it was not needed, and dy is the dy given there
 * dx      may be dy or dz */
void nn_norm_backward_data(nn_norm *s, size_t count, const float *x, const float *dz,
                           const float *dy, float *dx);

#endif
