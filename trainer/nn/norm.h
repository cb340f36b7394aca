/* Batch normalisation of activations, optionally with what follows it in residual networks:
 *
 *     y = (x - mean) / sqrt(variance + epsilon) * gamma + beta   channel by channel,
 *     y = max(y, 0)              where relu is asked for,
 *     y = max(y + shortcut, 0)   where there is a shortcut
 *
 * One pass over memory for each direction's sums and one for its elements, whatever is fused.
 * Arrays are (batch, places, channels), or blocked (nn.h). The arrays of one call do not overlap
 * but where said; the same bits at every instruction set level.
 *
 * Source  Ioffe and Szegedy 2015, arXiv:1502.03167, alg. 1; the sums' combination over chunks: Chan
 *         et al. 1983, Am. Stat. 37(3) */
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

/* All samples. The arguments of (channels) are remembered for the backward functions below.
 * shortcut  NULL: none */
void nn_norm_forward(nn_norm *s, const float *x, const float *shortcut, const float *mean,
                     const float *variance, const float *gamma, const float *beta, float *y);

/* After nn_norm_statistics and nn_norm_forward of x with its results. dy2 (NULL: none) is added to
 * dy first.
 * y   what forward gave, with a shortcut; else not looked at
 * dz  gradient of the sum before the relu, which is the shortcut's; may be dy or dy2. NULL: not
 *     wanted */
void nn_norm_backward_weights(nn_norm *s, size_t count, const float *x, const float *y,
                              const float *dy, const float *dy2, float *dz, float *dgamma,
                              float *dbeta);

/* After nn_norm_backward_weights. dx of the samples that do not count is 0.
 * dz      what backward_weights wrote; NULL: it was not wanted, and dy is what it was given
 * dx      may be dy or dz */
void nn_norm_backward_data(nn_norm *s, size_t count, const float *x, const float *dz,
                           const float *dy, float *dx);

#endif
