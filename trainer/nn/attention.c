/* Computes head by head, in blocks of queries. Most of the masked part is then not computed, and
 * what is computed stays in the cache. */
#include "trainer/nn/attention.h"
#include "trainer/nn/dnnl_op.h"
#include "trainer/nn/gemm.h"
#include "trainer/nn/row_kernels.h"
#include "telegrad/tools.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK 32 /* queries per block */

struct nn_attention {
    nn_attention_shape s;
    const row_kernels *rows;
    float scale;
    float *weights; /* (batch, heads, context, context): the softmax results */
    float *block;   /* (BLOCK, context): gradients of the weights */
};

tg_status nn_attention_create(const nn_attention_shape *shape, nn_attention **a_p)
{
    nn_attention *a;
    TG_TRY(tg_alloc(1, sizeof *a, &a));
    a->s = *shape;
    a->rows = row_kernels_of(tg_cpu_level());
    a->scale = (float)(1 / sqrt((double)(shape->width / shape->heads)));
    *a_p = a;
    return TG_OK;
}

static tg_status allocate(nn_attention *a)
{
    const size_t context = a->s.context;
    if (!a->weights)
        TG_TRY(tg_alloc(a->s.batch * a->s.heads, context * context * sizeof(float), &a->weights));
    return a->block ? TG_OK : tg_alloc(BLOCK * context, sizeof(float), &a->block);
}

void nn_attention_destroy(nn_attention *a)
{
    if (!a)
        return;
    free(a->weights);
    free(a->block);
    free(a);
}

/* Queries [from, to) of a head, and the keys [0, to) that they may attend to. */
typedef struct part {
    size_t from, to, d;
    size_t row, out;        /* strides from token to token, in x and in y */
    const float *q, *k, *v; /* q: first query of the block; k, v: of the first token */
    float *weights;         /* (to - from) rows, with stride `context` */
} part;

static tg_status forward_part(const nn_attention *a, const part *p, float *y)
{
    const size_t n = p->to - p->from, context = a->s.context;
    TG_TRY(gemm('N', 'T', n, p->to, p->d, p->q, p->row, p->k, p->row, 0, p->weights, context));
    for (size_t i = 0; i < n; i++) {
        float *w = p->weights + i * context;
        const size_t seen = p->from + i + 1;
        a->rows->softmax(seen, a->scale, w);
        memset(w + seen, 0, (p->to - seen) * sizeof *w);
    }
    return gemm('N', 'N', n, p->d, p->to, p->weights, context, p->v, p->row, 0, y, p->out);
}

/* Adds to dk and dv. */
static tg_status backward_part(const nn_attention *a, const part *p, const float *dy, float *dq,
                               float *dk, float *dv)
{
    const size_t n = p->to - p->from, context = a->s.context;
    TG_TRY(gemm('T', 'N', p->to, p->d, n, p->weights, context, dy, p->out, 1, dv, p->row));
    TG_TRY(gemm('N', 'T', n, p->to, p->d, dy, p->out, p->v, p->row, 0, a->block, context));
    for (size_t i = 0; i < n; i++) {
        float *d = a->block + i * context;
        const size_t seen = p->from + i + 1;
        a->rows->softmax_backward(seen, a->scale, p->weights + i * context, d);
        memset(d + seen, 0, (p->to - seen) * sizeof *d);
    }
    TG_TRY(gemm('N', 'N', n, p->d, p->to, a->block, context, p->k, p->row, 0, dq, p->row));
    return gemm('T', 'N', p->to, p->d, n, a->block, context, p->q, p->row, 1, dk, p->row);
}

/* Run all parts. dy NULL: a forward pass, which writes y; otherwise a backward pass, which writes
 * dx */
static tg_status run(const nn_attention *a, const float *x, float *y, const float *dy, float *dx)
{
    const size_t context = a->s.context, width = a->s.width, row = 3 * width;
    const size_t d = width / a->s.heads;
    if (dy)
        memset(dx, 0, a->s.batch * context * row * sizeof *dx);
    for (size_t b = 0; b < a->s.batch; b++) {
        for (size_t h = 0; h < a->s.heads; h++) {
            const size_t in = b * context * row + h * d, out = b * context * width + h * d;
            float *weights = a->weights + (b * a->s.heads + h) * context * context;
            for (size_t from = 0; from < context; from += BLOCK) {
                const part p = {.from = from,
                                .to = context - from < BLOCK ? context : from + BLOCK,
                                .d = d,
                                .row = row,
                                .out = width,
                                .q = x + in + from * row,
                                .k = x + in + width,
                                .v = x + in + 2 * width,
                                .weights = weights + from * context};
                if (!dy)
                    TG_TRY(forward_part(a, &p, y + out + from * width));
                else
                    TG_TRY(backward_part(a, &p, dy + out + from * width, dx + in + from * row,
                                         dx + in + width, dx + in + 2 * width));
            }
        }
    }
    return TG_OK;
}

tg_status nn_attention_forward(nn_attention *a, const float *x, float *y)
{
    sigset_t old;
    TG_TRY(allocate(a));
    op_hold_signals(&old);
    const tg_status status = run(a, x, y, NULL, NULL);
    op_let_signals(&old);
    return status;
}

tg_status nn_attention_backward(nn_attention *a, const float *x, const float *dy, float *dx)
{
    sigset_t old;
    op_hold_signals(&old);
    const tg_status status = run(a, x, NULL, dy, dx);
    op_let_signals(&old);
    return status;
}
