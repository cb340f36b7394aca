/* Convolutions of few channels with products in bf16: 3 x 3, stride 1, padding 1. Own loops where a
 * CPU has avx512_bf16, because oneDNN's (2.6 and 3.2) reach 60 % of its speed in the gradient of
 * the weights, and with 16 channels in the other passes too (docs/decisions/0003).
 *
 *     dst[o][v][u] = sum over i, y and x: w[o][i][y][x] src[i][v + y - 1][u + x - 1]
 *     dw[o][i][y][x] = sum over samples, v and u: ddst[o][v][u] src[i][v + y - 1][u + x - 1]
 *
 * In the second one pairs of neighbouring places are multiplied, so the input is laid down channel
 * by channel, and the sum over a plane is one over a line. Samples are rounded a few at a time, so
 * that they stay in the cache. */
#ifndef TG_NN_CONV16_H
#define TG_NN_CONV16_H

#include "trainer/nn/nn.h"

typedef struct conv16 conv16;

/* Whether it computes the convolution, at a gain. */
bool conv16_has(const nn_conv_shape *shape);
/* native: the CPU has avx512_bf16; else plain loops. Errors TG_E_NOMEM */
TG_NODISCARD tg_status conv16_create(const nn_conv_shape *shape, bool native, conv16 **c_p);
void conv16_destroy(conv16 *c); /* NULL is fine */

/* As nn_conv_forward and so on. */
void conv16_forward(conv16 *c, const float *src, const float *weights, float *dst);
void conv16_backward_data(conv16 *c, const float *ddst, const float *weights, float *dsrc);
void conv16_backward_weights(conv16 *c, const float *src, const float *ddst, float *dweights);

#endif
