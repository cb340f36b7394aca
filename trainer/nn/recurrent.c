/* The contribution of the inputs to all steps is one product, and so are the gradients of the
 * weights. One product per step remains: the previous state with the recurrent weights. */
#include "trainer/nn/recurrent.h"
#include "trainer/nn/dnnl_op.h"
#include "trainer/nn/gemm.h"
#include "trainer/nn/row_kernels.h"
#include "telegrad/tools.h"
#include <stdlib.h>
#include <string.h>

struct nn_lstm {
    nn_lstm_shape s;
    const row_kernels *rows;
    nn_dense16 *inputs, *states; /* bf16 products with the inputs and with the states, or NULL */
    float *bias;                 /* (4 hidden) */
    float *gates;   /* (batch, context, 4 hidden); after the backward pass: their gradients */
    float *before;  /* (batch, context, hidden): h before each step */
    float *cells;   /* (batch, context + 1, hidden): c before each step, and after the last */
    float *dh, *dc; /* (batch, hidden) */
};

tg_status nn_lstm_create(const nn_lstm_shape *shape, nn_lstm **l_p)
{
    nn_lstm *l;
    TG_TRY(tg_alloc(1, sizeof *l, &l));
    l->s = *shape;
    l->rows = row_kernels_of(tg_cpu_level());
    const size_t rows = shape->batch * shape->context, h = shape->hidden;
    if (shape->bf16) {
        tg_status status = nn_dense16_create(shape->bf16, rows, shape->in, 4 * h, &l->inputs);
        if (status == TG_OK)
            status = nn_dense16_create(shape->bf16, rows, h, 4 * h, &l->states);
        if (status != TG_OK) {
            nn_lstm_destroy(l);
            return status;
        }
    }
    *l_p = l;
    return TG_OK;
}

void nn_lstm_destroy(nn_lstm *l)
{
    if (!l)
        return;
    nn_dense16_destroy(l->inputs);
    nn_dense16_destroy(l->states);
    free(l->bias);
    free(l->gates);
    free(l->before);
    free(l->cells);
    free(l->dh);
    free(l->dc);
    free(l);
}

static tg_status allocate(nn_lstm *l)
{
    const size_t b = l->s.batch, t = l->s.context, h = l->s.hidden;
    const struct {
        float **array;
        size_t n;
    } arrays[] = {{&l->bias, 4 * h},       {&l->gates, b * t * 4 * h},
                  {&l->before, b * t * h}, {&l->cells, b * (t + 1) * h},
                  {&l->dh, b * h},         {&l->dc, b * h}};
    for (size_t i = 0; i < TG_COUNT(arrays); i++) {
        if (!*arrays[i].array)
            TG_TRY(tg_alloc(arrays[i].n, sizeof(float), arrays[i].array));
    }
    return TG_OK;
}

static tg_status forward(nn_lstm *l, const float *x, const nn_lstm_weights *w, float *h, float *c,
                         float *y)
{
    const size_t context = l->s.context, hidden = l->s.hidden, width = 4 * hidden;
    const size_t rows = l->s.batch * context;
    TG_TRY(allocate(l));
    if (l->inputs)
        TG_TRY(nn_dense16_forward(l->inputs, x, w->input, NULL, l->gates));
    else
        TG_TRY(gemm('N', 'T', rows, width, l->s.in, x, l->s.in, w->input, l->s.in, 0, l->gates,
                    width));
    for (size_t j = 0; j < width; j++)
        l->bias[j] = w->input_bias[j] + w->hidden_bias[j];
    const size_t bytes = hidden * sizeof *h;
    for (size_t b = 0; b < l->s.batch; b++) {
        memcpy(l->before + b * context * hidden, h + b * hidden, bytes);
        memcpy(l->cells + b * (context + 1) * hidden, c + b * hidden, bytes);
    }
    for (size_t t = 0; t < context; t++) {
        TG_TRY(gemm('N', 'T', l->s.batch, width, hidden, l->before + t * hidden, context * hidden,
                    w->recurrent, hidden, 1, l->gates + t * width, context * width));
        for (size_t b = 0; b < l->s.batch; b++) {
            const size_t row = b * context + t;
            float *c0 = l->cells + (row + b) * hidden, *out = y + row * hidden;
            const row_lstm r = {.bias = l->bias,
                                .c0 = c0,
                                .gates = l->gates + row * width,
                                .c = c0 + hidden,
                                .h = out};
            l->rows->lstm(hidden, &r);
            const bool last = t + 1 == context;
            memcpy(last ? h + b * hidden : l->before + (row + 1) * hidden, out, bytes);
            if (last)
                memcpy(c + b * hidden, r.c, bytes);
        }
    }
    return TG_OK;
}

tg_status nn_lstm_forward(nn_lstm *l, const float *x, const nn_lstm_weights *w, float *h, float *c,
                          float *y)
{
    sigset_t old;
    op_hold_signals(&old);
    const tg_status status = forward(l, x, w, h, c, y);
    op_let_signals(&old);
    return status;
}

/* Replace gates by their gradients, from the last step to the first. */
static tg_status sweep(nn_lstm *l, const float *recurrent, const float *dy)
{
    const size_t batch = l->s.batch, context = l->s.context, hidden = l->s.hidden,
                 width = 4 * hidden;
    memset(l->dh, 0, batch * hidden * sizeof *l->dh);
    memset(l->dc, 0, batch * hidden * sizeof *l->dc);
    for (size_t t = context; t-- > 0;) {
        for (size_t b = 0; b < batch; b++) {
            const size_t row = b * context + t;
            const float *c0 = l->cells + (row + b) * hidden;
            const row_lstm_backward r = {.c0 = c0,
                                         .c = c0 + hidden,
                                         .dy = dy + row * hidden,
                                         .dh = l->dh + b * hidden,
                                         .gates = l->gates + row * width,
                                         .dc = l->dc + b * hidden};
            l->rows->lstm_backward(hidden, &r);
        }
        if (t > 0)
            TG_TRY(gemm('N', 'N', batch, hidden, width, l->gates + t * width, context * width,
                        recurrent, hidden, 0, l->dh, hidden));
    }
    return TG_OK;
}

/* dweights (4 hidden, in) for the weights multiplied with src (rows, in); d: NULL for fp32 */
static tg_status product(const nn_lstm *l, nn_dense16 *d, size_t in, const float *src,
                         float *dweights)
{
    const size_t width = 4 * l->s.hidden, rows = l->s.batch * l->s.context;
    if (d)
        return nn_dense16_backward_weights(d, src, l->gates, dweights, NULL);
    return gemm('T', 'N', width, in, rows, l->gates, width, src, in, 0, dweights, in);
}

static tg_status backward_weights(nn_lstm *l, const float *x, const nn_lstm_weights *w,
                                  const float *dy, const nn_lstm_weights *dw)
{
    const size_t hidden = l->s.hidden, width = 4 * hidden, rows = l->s.batch * l->s.context;
    TG_TRY(sweep(l, w->recurrent, dy));
    TG_TRY(product(l, l->inputs, l->s.in, x, dw->input));
    TG_TRY(product(l, l->states, hidden, l->before, dw->recurrent));
    sum_rows(rows, width, l->gates, width, dw->input_bias);
    memcpy(dw->hidden_bias, dw->input_bias, width * sizeof *dw->hidden_bias);
    return TG_OK;
}

tg_status nn_lstm_backward_weights(nn_lstm *l, const float *x, const nn_lstm_weights *w,
                                   const float *dy, const nn_lstm_weights *dw)
{
    sigset_t old;
    op_hold_signals(&old);
    const tg_status status = backward_weights(l, x, w, dy, dw);
    op_let_signals(&old);
    return status;
}

tg_status nn_lstm_backward_data(nn_lstm *l, const nn_lstm_weights *w, float *dx)
{
    if (l->inputs)
        return nn_dense16_backward_data(l->inputs, l->gates, w->input, dx);
    return nn_dense_backward_data(l->s.batch * l->s.context, l->s.in, 4 * l->s.hidden, l->gates,
                                  w->input, dx);
}
