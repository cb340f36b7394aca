/* Layers that move places about: plain loops, small beside the convolutions around them. Arrays are
 * nhwc, or blocked (nn.h). */
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

/* Every second row and column of `in`, its channels in the middle of out.channels with zeros around
 * (half of them before): y (batch, out) of x (batch, in), and its gradient.
 * out  height (in.height + 1) / 2, width alike, channels >= in.channels */
void nn_shortcut_forward(size_t batch, nn_image in, nn_image out, const float *x, float *y);
void nn_shortcut_backward(size_t batch, nn_image in, nn_image out, const float *dy, float *dx);

/* nhwc of blocked, and back. */
void nn_unblock(size_t batch, nn_image in, const float *x, float *y);
void nn_block(size_t batch, nn_image out, const float *x, float *y);

#endif
