/* The gradient of a convolution's weights, with products in bf16: 3 x 3, stride 1, padding 1. Own
 * loops where a CPU has avx512_bf16, because oneDNN's (2.6 and 3.2) reach 60 % of its speed in this
 * pass (docs/decisions/0003).
 *
 *     dw[o][i][y][x] = sum over samples and places (v, u): ddst[o][v][u] src[i][v + y - 1][u + x -
 * 1]
 *
 * Pairs of neighbouring places are multiplied, so the input is laid down channel by channel, and
 * the sum over a whole plane is one over a line. */
#ifndef TG_NN_CONV16_H
#define TG_NN_CONV16_H

#include "train/nn/nn.h"

typedef struct conv16 conv16;

/* Whether it computes the convolution, at a gain. */
bool conv16_has(const nn_conv_shape *shape);
/* native: the CPU has avx512_bf16; else plain loops. Errors TG_E_NOMEM */
TG_NODISCARD tg_status conv16_create(const nn_conv_shape *shape, bool native, conv16 **c_p);
void conv16_destroy(conv16 *c); /* NULL is fine */

/* As nn_conv_backward_weights. */
void conv16_backward_weights(conv16 *c, const float *src, const float *ddst, float *dweights);

#endif
