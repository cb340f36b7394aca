/* Causal self-attention: each token attends to itself and to the tokens before it in its context.
 *
 *     y_t = sum_{s <= t} softmax_s(q_t k_s / sqrt(d)) v_s      in each head, d = width / heads
 *
 * x (batch, context, 3 width): queries, keys and values, each as heads of d channels; y (batch,
 * context, width): the heads side by side.
 *
 * Source  Vaswani et al. 2017, arXiv:1706.03762, sec. 3.2 */
#ifndef TG_NN_ATTENTION_H
#define TG_NN_ATTENTION_H

#include "telegrad/base.h"

typedef struct nn_attention_shape {
    size_t batch, context, width, heads; /* width is a multiple of heads */
} nn_attention_shape;

typedef struct nn_attention nn_attention;

/* The first forward pass allocates (batch, heads, context, context) floats.
 * Errors TG_E_NOMEM, also from the functions below */
TG_NODISCARD tg_status nn_attention_create(const nn_attention_shape *shape, nn_attention **a_p);
void nn_attention_destroy(nn_attention *a); /* NULL is fine */
/* Keeps the softmax results, batch * heads * context^2 floats, for the backward pass. */
TG_NODISCARD tg_status nn_attention_forward(nn_attention *a, const float *x, float *y);
/* Call it after a forward pass of the same x. */
TG_NODISCARD tg_status nn_attention_backward(nn_attention *a, const float *x, const float *dy,
                                             float *dx);

#endif
