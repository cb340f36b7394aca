/* A layer of long short-term memory over the tokens of a context, step by step:
 *
 *     i = logistic(W_ii x + b_ii + W_hi h' + b_hi)     f, o alike; g with tanh
 *     c = f c' + i g        h = o tanh(c)              c', h': of the step before
 *
 * as in PyTorch's torch.nn.LSTM, gates in the order i, f, g, o. Gradients stop at the context's
 * first step (truncated backpropagation through time).
 *
 * Source  Hochreiter and Schmidhuber 1997, Neural Computation 9(8); with forget gates: Gers et al.
 *         2000, Neural Computation 12(10) */
#ifndef TG_NN_RECURRENT_H
#define TG_NN_RECURRENT_H

#include "trainer/nn/nn.h"

typedef struct nn_lstm_shape {
    size_t batch, context, in, hidden; /* x (batch, context, in), y (batch, context, hidden) */
    nn *bf16; /* multiplies the inputs, and makes the weights' gradients; NULL: plain products in
               * fp32
               */
} nn_lstm_shape;

/* Parameters, or their gradients. */
typedef struct nn_lstm_weights {
    float *input;                    /* (4 hidden, in) */
    float *recurrent;                /* (4 hidden, hidden) */
    float *input_bias, *hidden_bias; /* (4 hidden) */
} nn_lstm_weights;

typedef struct nn_lstm nn_lstm;

/* Errors TG_E_NOMEM; TG_E_UNSUPPORTED: what oneDNN refuses */
TG_NODISCARD tg_status nn_lstm_create(const nn_lstm_shape *shape, nn_lstm **l_p);
void nn_lstm_destroy(nn_lstm *l); /* NULL is fine */

/* h, c (batch, hidden): before the first step, then after the last one */
TG_NODISCARD tg_status nn_lstm_forward(nn_lstm *l, const float *x, const nn_lstm_weights *w,
                                       float *h, float *c, float *y);
/* After a forward pass, once. dw is overwritten; h and c's gradients behind the last step are 0. */
TG_NODISCARD tg_status nn_lstm_backward_weights(nn_lstm *l, const float *x,
                                                const nn_lstm_weights *w, const float *dy,
                                                const nn_lstm_weights *dw);
/* After nn_lstm_backward_weights. */
TG_NODISCARD tg_status nn_lstm_backward_data(nn_lstm *l, const nn_lstm_weights *w, float *dx);

#endif
