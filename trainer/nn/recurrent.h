/* A long short-term memory layer over the tokens of a context, step by step:
 *
 *     i = logistic(W_ii x + b_ii + W_hi h' + b_hi)     f, o likewise; g with tanh
 *     c = f c' + i g        h = o tanh(c)              c', h': those of the previous step
 *
 * as in PyTorch's torch.nn.LSTM, with gates in the order i, f, g, o. Gradients stop at the first
 * step of the context (truncated backpropagation through time).
 *
 * Source  Hochreiter and Schmidhuber 1997, Neural Computation 9(8); with forget gates: Gers et al.
 *         2000, Neural Computation 12(10) */
#ifndef TG_NN_RECURRENT_H
#define TG_NN_RECURRENT_H

#include "trainer/nn/nn.h"

typedef struct nn_lstm_shape {
    size_t batch, context, in, hidden; /* x (batch, context, in), y (batch, context, hidden) */
    nn *bf16; /* for products with the inputs and for gradients of the weights; NULL: plain fp32
               * products */
} nn_lstm_shape;

/* Parameters, or their gradients. */
typedef struct nn_lstm_weights {
    float *input;                    /* (4 hidden, in) */
    float *recurrent;                /* (4 hidden, hidden) */
    float *input_bias, *hidden_bias; /* (4 hidden) */
} nn_lstm_weights;

typedef struct nn_lstm nn_lstm;

/* The first forward pass allocates about 6 (batch, context, hidden) floats.
 * Errors TG_E_NOMEM; TG_E_UNSUPPORTED if oneDNN refuses the shape */
TG_NODISCARD tg_status nn_lstm_create(const nn_lstm_shape *shape, nn_lstm **l_p);
void nn_lstm_destroy(nn_lstm *l); /* NULL is fine */

/* h, c (batch, hidden): the state before the first step; set to that after the last one */
TG_NODISCARD tg_status nn_lstm_forward(nn_lstm *l, const float *x, const nn_lstm_weights *w,
                                       float *h, float *c, float *y);
/* Call it once after a forward pass. dw is overwritten. The gradients of h and c after the last
 * step are taken as 0. */
TG_NODISCARD tg_status nn_lstm_backward_weights(nn_lstm *l, const float *x,
                                                const nn_lstm_weights *w, const float *dy,
                                                const nn_lstm_weights *dw);
/* Call it after nn_lstm_backward_weights. */
TG_NODISCARD tg_status nn_lstm_backward_data(nn_lstm *l, const nn_lstm_weights *w, float *dx);

#endif
