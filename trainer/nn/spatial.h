/* Layers that move values between places: plain loops, cheap compared with the convolutions around
 * them. Arrays are nhwc, or blocked (nn.h). */
#ifndef TG_NN_SPATIAL_H
#define TG_NN_SPATIAL_H

#include "trainer/nn/nn.h"

typedef struct nn_image {
    size_t height, width, channels;
    bool blocked;
} nn_image;

/* y (batch, channels) = mean over the places of x, and its gradient. */
void nn_avgpool_forward(size_t batch, nn_image in, const float *x, float *y);
void nn_avgpool_backward(size_t batch, nn_image in, const float *dy, float *dx);

/* Take every second row and column of `in`. Its channels are centred in out.channels, with zeros
 * around them (half of them before): y (batch, out) from x (batch, in), and its gradient.
 * out  height (in.height + 1) / 2, width likewise, channels >= in.channels */
void nn_shortcut_forward(size_t batch, nn_image in, nn_image out, const float *x, float *y);
void nn_shortcut_backward(size_t batch, nn_image in, nn_image out, const float *dy, float *dx);

/* Convert blocked to nhwc, and back. */
void nn_unblock(size_t batch, nn_image in, const float *x, float *y);
void nn_block(size_t batch, nn_image out, const float *x, float *y);

#endif
