/* Dense layers as oneDNN primitives; products use the type of the nn (fp32 or bf16). */
#include "trainer/nn/dnnl_op.h"
#include "trainer/nn/gemm.h"
#include "trainer/nn/row_kernels.h"
#include "telegrad/tools.h"
#include <stdlib.h>

struct nn_dense16 {
    nn *nn;
    size_t batch, in, out;
    op forward, backward_weights, backward_data;
};

/* src, weights, dst: layouts of the caller's arrays. any_*: those of the operands, which the
 * primitive chooses. All NULL: nothing made yet. */
typedef struct layouts {
    layout src, weights, dst, any_src, any_weights, any_dst;
} layouts;

static tg_status describe(dnnl_data_type_t type, dnnl_dim_t batch, dnnl_dim_t in, dnnl_dim_t out,
                          layouts *l)
{
    const dnnl_dims_t src = {batch, in}, weights = {out, in}, dst = {batch, out};
    TG_TRY(op_layout(dnnl_f32, 2, src, dnnl_ab, &l->src));
    TG_TRY(op_layout(dnnl_f32, 2, weights, dnnl_ab, &l->weights));
    TG_TRY(op_layout(dnnl_f32, 2, dst, dnnl_ab, &l->dst));
    TG_TRY(op_layout(type, 2, src, dnnl_format_tag_any, &l->any_src));
    TG_TRY(op_layout(type, 2, weights, dnnl_format_tag_any, &l->any_weights));
    return op_layout(type, 2, dst, dnnl_format_tag_any, &l->any_dst);
}

static tg_status build(nn_dense16 *d, const layouts *l, dnnl_primitive_desc_t pd[3])
{
    const desc_context *x = &d->nn->context;
    const desc_dense desc = {.src = l->any_src,
                             .weights = l->any_weights,
                             .dst = l->any_dst,
                             .out_src = l->src,
                             .out_weights = l->weights,
                             .out_dst = l->dst};
    const joint forward[] = {{DNNL_ARG_SRC, l->src, NULL},
                             {DNNL_ARG_WEIGHTS, l->weights, NULL},
                             {DNNL_ARG_DST, l->dst, NULL}};
    DNNL_TRY("choosing a dense layer", desc_dense_forward(x, &desc, &pd[0]));
    TG_TRY(op_build(d->nn, pd[0], &d->forward, forward, TG_COUNT(forward)));

    const joint weights[] = {{DNNL_ARG_SRC, l->src, NULL},
                             {DNNL_ARG_DIFF_DST, l->dst, NULL},
                             {DNNL_ARG_DIFF_WEIGHTS, l->weights, NULL}};
    DNNL_TRY("choosing a dense layer", desc_dense_backward_weights(x, &desc, pd[0], &pd[1]));
    TG_TRY(op_build(d->nn, pd[1], &d->backward_weights, weights, TG_COUNT(weights)));

    const joint data[] = {{DNNL_ARG_DIFF_DST, l->dst, NULL},
                          {DNNL_ARG_WEIGHTS, l->weights, NULL},
                          {DNNL_ARG_DIFF_SRC, l->src, NULL}};
    DNNL_TRY("choosing a dense layer", desc_dense_backward_data(x, &desc, pd[0], &pd[2]));
    return op_build(d->nn, pd[2], &d->backward_data, data, TG_COUNT(data));
}

static tg_status choose(nn_dense16 *d)
{
    layouts l = {0};
    dnnl_primitive_desc_t pd[3] = {NULL, NULL, NULL};
    tg_status status =
        describe(d->nn->type, (dnnl_dim_t)d->batch, (dnnl_dim_t)d->in, (dnnl_dim_t)d->out, &l);
    if (status == TG_OK)
        status = build(d, &l, pd);
    for (int i = 0; i < 3; i++)
        op_pd_destroy(pd[i]);
    desc_layout_destroy(l.src);
    desc_layout_destroy(l.weights);
    desc_layout_destroy(l.dst);
    desc_layout_destroy(l.any_src);
    desc_layout_destroy(l.any_weights);
    desc_layout_destroy(l.any_dst);
    return status;
}

tg_status nn_dense16_create(nn *n, size_t batch, size_t in, size_t out, nn_dense16 **d_p)
{
    nn_dense16 *d;
    TG_TRY(tg_alloc(1, sizeof *d, &d));
    d->nn = n;
    d->batch = batch;
    d->in = in;
    d->out = out;
    const tg_status status = choose(d);
    if (status != TG_OK) {
        nn_dense16_destroy(d);
        return status;
    }
    *d_p = d;
    return TG_OK;
}

void nn_dense16_destroy(nn_dense16 *d)
{
    if (!d)
        return;
    op_destroy(&d->forward);
    op_destroy(&d->backward_weights);
    op_destroy(&d->backward_data);
    free(d);
}

tg_status nn_dense16_forward(nn_dense16 *d, const float *src, const float *weights,
                             const float *bias, float *dst)
{
    TG_TRY(op_run(d->nn, &d->forward, (const float *const[]){src, weights, dst}));
    const row_kernels *rows = row_kernels_of(tg_cpu_level());
    for (size_t i = 0; bias && i < d->batch; i++)
        rows->add(d->out, bias, dst + i * d->out);
    return TG_OK;
}

tg_status nn_dense16_backward_weights(nn_dense16 *d, const float *src, const float *ddst,
                                      float *dweights, float *dbias)
{
    TG_TRY(op_run(d->nn, &d->backward_weights, (const float *const[]){src, ddst, dweights}));
    if (dbias)
        sum_rows(d->batch, d->out, ddst, d->out, dbias);
    return TG_OK;
}

tg_status nn_dense16_backward_data(nn_dense16 *d, const float *ddst, const float *weights,
                                   float *dsrc)
{
    return op_run(d->nn, &d->backward_data, (const float *const[]){ddst, weights, dsrc});
}
