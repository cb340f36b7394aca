/* nn.h implemented with oneDNN. */
#include "trainer/nn/dnnl_op.h"
#include "telegrad/tools.h"
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

tg_status nn_create(nn **nn_p)
{
    /* oneDNN may have been built with any OpenMP runtime, or none, so ask the one that is loaded.
     * The setting only applies to the calling thread. */
    void *symbol = dlsym(RTLD_DEFAULT, "omp_set_num_threads");
    if (symbol) {
        void (*set_num_threads)(int);
        memcpy(&set_num_threads, &symbol, sizeof symbol);
        set_num_threads(1);
    }
    nn *n;
    TG_TRY(tg_alloc(1, sizeof *n, &n));
    n->type = dnnl_f32;
    desc_context *x = &n->context;
    dnnl_status_t status = dnnl_engine_create(&x->engine, dnnl_cpu, 0);
    if (status == dnnl_success)
        status = dnnl_stream_create(&n->stream, x->engine, dnnl_stream_default_flags);
    if (status == dnnl_success)
        status = dnnl_primitive_attr_create(&x->attr);
    if (status == dnnl_success)
        status = dnnl_primitive_attr_set_scratchpad_mode(x->attr, dnnl_scratchpad_mode_user);
    if (status != dnnl_success) {
        nn_destroy(n);
        return op_failed(status, "creating an engine");
    }
    *nn_p = n;
    return TG_OK;
}

void nn_destroy(nn *n)
{
    if (!n)
        return;
    if (n->stream)
        dnnl_stream_destroy(n->stream);
    if (n->context.attr)
        dnnl_primitive_attr_destroy(n->context.attr);
    if (n->context.engine)
        dnnl_engine_destroy(n->context.engine);
    free(n->scratch);
    free(n);
}

tg_status nn_use_bf16(nn *n)
{
    /* oneDNN can also compute bf16 on other CPUs, but only at a loss. */
    const unsigned has = (unsigned)dnnl_get_effective_cpu_isa(),
                   needs = (unsigned)dnnl_cpu_isa_avx512_core_bf16;
    if (strcmp(tg_cpu_level(), "avx512") != 0 || (has & needs) != needs)
        return tg_fail(TG_E_UNSUPPORTED,
                       "precision bf16: this CPU has neither avx512_bf16 nor AMX (instruction set "
                       "in use: %s): allowed: fp32",
                       tg_cpu_level());
    n->type = dnnl_bf16;
    return TG_OK;
}

double nn_bytes(const nn *n)
{
    return (double)n->scratch_bytes + n->port_bytes;
}

/* ---- convolution ----------------------------------------------------------------------------- */

struct nn_conv {
    nn *nn;
    bool bias;
    op forward, backward_weights, backward_data;
};

/* inner_*: the layouts that the primitive is asked to take. All NULL: nothing made yet. */
typedef struct conv_layouts {
    layout src, inner_src, out_src, weights, any_weights, out_weights, bias, dst, inner_dst,
        out_dst;
} conv_layouts;

static void conv_layouts_destroy(const conv_layouts *l)
{
    desc_layout_destroy(l->src);
    desc_layout_destroy(l->inner_src);
    desc_layout_destroy(l->out_src);
    desc_layout_destroy(l->weights);
    desc_layout_destroy(l->any_weights);
    desc_layout_destroy(l->out_weights);
    desc_layout_destroy(l->bias);
    desc_layout_destroy(l->dst);
    desc_layout_destroy(l->inner_dst);
    desc_layout_destroy(l->out_dst);
}

bool nn_blocks(size_t channels)
{
    return channels > NN_BLOCK && channels % NN_BLOCK == 0 && strcmp(tg_cpu_level(), "avx512") == 0;
}

/* An array next to a blocked one is blocked as well; with a single block only the name differs. */
static dnnl_format_tag_t layout_of(size_t channels, bool blocked, bool other_blocked)
{
    return blocked || (other_blocked && channels == NN_BLOCK) ? dnnl_nChw16c : dnnl_nhwc;
}

static dnnl_format_tag_t inner_layout_of(size_t channels, bool blocked, bool other_blocked)
{
    if (!blocked && !other_blocked)
        return dnnl_nhwc;
    return channels % NN_BLOCK == 0 ? dnnl_nChw16c : dnnl_format_tag_any;
}

/* On failure, too, the caller destroys the layouts. The caller sets the algorithm in desc. */
static tg_status conv_describe(dnnl_data_type_t type, const nn_conv_shape *s, conv_layouts *l,
                               desc_conv *desc)
{
    const dnnl_dim_t b = (dnnl_dim_t)s->batch, h = (dnnl_dim_t)s->height, w = (dnnl_dim_t)s->width,
                     i = (dnnl_dim_t)s->in, o = (dnnl_dim_t)s->out, k = (dnnl_dim_t)s->kernel,
                     stride = (dnnl_dim_t)s->stride, pad = (dnnl_dim_t)s->pad;
    const dnnl_dim_t oh = (h + 2 * pad - k) / stride + 1, ow = (w + 2 * pad - k) / stride + 1;
    const dnnl_dims_t src = {b, i, h, w}, dst = {b, o, oh, ow}, weights = {o, i, k, k}, bias = {o};
    const bool sb = s->src_blocked, db = s->dst_blocked;
    const dnnl_format_tag_t inner_src = inner_layout_of(s->in, sb, db),
                            inner_dst = inner_layout_of(s->out, db, sb), any = dnnl_format_tag_any;
    TG_TRY(op_layout(dnnl_f32, 4, src, layout_of(s->in, sb, db), &l->src));
    TG_TRY(op_layout(dnnl_f32, 4, dst, layout_of(s->out, db, sb), &l->dst));
    TG_TRY(op_layout(dnnl_f32, 4, weights, dnnl_oihw, &l->weights));
    TG_TRY(op_layout(dnnl_f32, 1, bias, dnnl_a, &l->bias));
    TG_TRY(op_layout(type, 4, src, inner_src, &l->inner_src));
    TG_TRY(op_layout(type, 4, dst, inner_dst, &l->inner_dst));
    TG_TRY(op_layout(type, 4, weights, any, &l->any_weights));
    TG_TRY(op_layout(dnnl_f32, 4, src, inner_src, &l->out_src));
    TG_TRY(op_layout(dnnl_f32, 4, dst, inner_dst, &l->out_dst));
    TG_TRY(op_layout(dnnl_f32, 4, weights, any, &l->out_weights));
    *desc = (desc_conv){
        .src = l->inner_src,
        .weights = l->any_weights,
        .dst = l->inner_dst,
        .out_src = l->out_src,
        .out_weights = l->out_weights,
        .out_dst = l->out_dst,
        .bias = s->bias ? l->bias : NULL,
        .stride = {stride, stride},
        .pad = {pad, pad},
        /* exactly what the last window needs */
        .pad_end = {(oh - 1) * stride + k - h - pad, (ow - 1) * stride + k - w - pad},
    };
    return TG_OK;
}

static tg_status conv_build(nn_conv *c, const desc_conv *desc, const conv_layouts *l,
                            dnnl_primitive_desc_t pd[3])
{
    const desc_context *x = &c->nn->context;
    const joint forward[] = {{DNNL_ARG_SRC, l->src, NULL},
                             {DNNL_ARG_WEIGHTS, l->weights, NULL},
                             {DNNL_ARG_DST, l->dst, NULL},
                             {DNNL_ARG_BIAS, l->bias, NULL}};
    const size_t without = c->bias ? 0 : 1; /* skip the last joint */
    DNNL_TRY("choosing a convolution", desc_conv_forward(x, desc, &pd[0]));
    TG_TRY(op_build(c->nn, pd[0], &c->forward, forward, TG_COUNT(forward) - without));

    const joint weights[] = {{DNNL_ARG_SRC, l->src, NULL},
                             {DNNL_ARG_DIFF_DST, l->dst, NULL},
                             {DNNL_ARG_DIFF_WEIGHTS, l->weights, NULL},
                             {DNNL_ARG_DIFF_BIAS, l->bias, NULL}};
    DNNL_TRY("choosing a convolution", desc_conv_backward_weights(x, desc, pd[0], &pd[1]));
    TG_TRY(op_build(c->nn, pd[1], &c->backward_weights, weights, TG_COUNT(weights) - without));

    const joint data[] = {{DNNL_ARG_DIFF_DST, l->dst, NULL},
                          {DNNL_ARG_WEIGHTS, l->weights, NULL},
                          {DNNL_ARG_DIFF_SRC, l->src, NULL}};
    DNNL_TRY("choosing a convolution", desc_conv_backward_data(x, desc, pd[0], &pd[2]));
    return op_build(c->nn, pd[2], &c->backward_data, data, TG_COUNT(data));
}

/* Whether Winograd's minimal filtering pays: tiles of 4 x 4 outputs, each with a batch of
 * products. */
static bool winograd_pays(const nn_conv_shape *s)
{
    return s->src_blocked && s->dst_blocked && s->kernel == 3 && s->stride == 1 && s->pad == 1 &&
           s->height >= 4 && s->width >= 4;
}

static tg_status conv_try(nn_conv *c, dnnl_alg_kind_t alg, desc_conv *desc,
                          const conv_layouts *layouts)
{
    dnnl_primitive_desc_t pd[3] = {NULL, NULL, NULL};
    const size_t scratch_before = c->nn->scratch_bytes;
    const double ports_before = c->nn->port_bytes;
    desc->alg = alg;
    const tg_status status = conv_build(c, desc, layouts, pd);
    for (int i = 0; i < 3; i++)
        op_pd_destroy(pd[i]);
    if (status != TG_OK) {
        op_destroy(&c->forward);
        op_destroy(&c->backward_weights);
        op_destroy(&c->backward_data);
        c->nn->scratch_bytes = scratch_before;
        c->nn->port_bytes = ports_before;
    }
    return status;
}

static tg_status conv_choose(nn_conv *c, const nn_conv_shape *shape, conv_layouts *layouts)
{
    desc_conv desc;
    TG_TRY(conv_describe(c->nn->type, shape, layouts, &desc));
    tg_status status = TG_E_UNSUPPORTED;
    if (c->nn->type == dnnl_f32 && winograd_pays(shape))
        status = conv_try(c, dnnl_convolution_winograd, &desc, layouts);
    if (status == TG_E_UNSUPPORTED)
        status = conv_try(c, dnnl_convolution_direct, &desc, layouts);
    return status;
}

tg_status nn_conv_create(nn *n, const nn_conv_shape *shape, nn_conv **c_p)
{
    nn_conv *c;
    conv_layouts layouts = {0};
    TG_TRY(tg_alloc(1, sizeof *c, &c));
    c->nn = n;
    c->bias = shape->bias;
    const tg_status status = conv_choose(c, shape, &layouts);
    conv_layouts_destroy(&layouts);
    if (status != TG_OK) {
        nn_conv_destroy(c);
        return status;
    }
    *c_p = c;
    return TG_OK;
}

void nn_conv_destroy(nn_conv *c)
{
    if (!c)
        return;
    op_destroy(&c->forward);
    op_destroy(&c->backward_weights);
    op_destroy(&c->backward_data);
    free(c);
}

tg_status nn_conv_forward(nn_conv *c, const float *src, const float *weights, const float *bias,
                          float *dst)
{
    return op_run(c->nn, &c->forward, (const float *const[]){src, weights, dst, bias});
}

tg_status nn_conv_backward_weights(nn_conv *c, const float *src, const float *ddst, float *dweights,
                                   float *dbias)
{
    return op_run(c->nn, &c->backward_weights, (const float *const[]){src, ddst, dweights, dbias});
}

tg_status nn_conv_backward_data(nn_conv *c, const float *ddst, const float *weights, float *dsrc)
{
    return op_run(c->nn, &c->backward_data, (const float *const[]){ddst, weights, dsrc});
}

/* ---- pooling --------------------------------------------------------------------------------- */

struct nn_pool {
    nn *nn;
    op forward, backward;
};

static tg_status pool_build(nn_pool *p, const desc_pool *desc, dnnl_primitive_desc_t pd[2])
{
    const desc_context *x = &p->nn->context;
    const joint forward[] = {{DNNL_ARG_SRC, desc->src, NULL},
                             {DNNL_ARG_DST, desc->dst, NULL},
                             {DNNL_ARG_WORKSPACE, NULL, NULL}};
    DNNL_TRY("choosing a pooling", desc_pool_forward(x, desc, &pd[0]));
    TG_TRY(op_build(p->nn, pd[0], &p->forward, forward, TG_COUNT(forward)));

    const joint backward[] = {{DNNL_ARG_DIFF_DST, desc->dst, NULL},
                              {DNNL_ARG_DIFF_SRC, desc->src, NULL},
                              {DNNL_ARG_WORKSPACE, NULL, &p->forward.ports[2]}};
    DNNL_TRY("choosing a pooling", desc_pool_backward(x, desc, pd[0], &pd[1]));
    return op_build(p->nn, pd[1], &p->backward, backward, TG_COUNT(backward));
}

/* Set up the pooling; layouts: src, dst. */
static tg_status pool_choose(nn_pool *p, const dnnl_dims_t from, const dnnl_dims_t to,
                             dnnl_dim_t window, dnnl_format_tag_t tag, layout layouts[2])
{
    TG_TRY(op_layout(dnnl_f32, 4, from, tag, &layouts[0]));
    TG_TRY(op_layout(dnnl_f32, 4, to, tag, &layouts[1]));
    const desc_pool desc = {layouts[0], layouts[1], {window, window}};
    dnnl_primitive_desc_t pd[2] = {NULL, NULL};
    const tg_status status = pool_build(p, &desc, pd);
    op_pd_destroy(pd[0]);
    op_pd_destroy(pd[1]);
    return status;
}

tg_status nn_pool_create(nn *n, size_t batch, size_t height, size_t width, size_t channels,
                         size_t window, bool blocked, nn_pool **p_p)
{
    const dnnl_dim_t b = (dnnl_dim_t)batch, c = (dnnl_dim_t)channels;
    const dnnl_dims_t from = {b, c, (dnnl_dim_t)height, (dnnl_dim_t)width};
    const dnnl_dims_t to = {b, c, (dnnl_dim_t)(height / window), (dnnl_dim_t)(width / window)};
    layout layouts[2] = {NULL, NULL};
    nn_pool *p;
    TG_TRY(tg_alloc(1, sizeof *p, &p));
    p->nn = n;
    const tg_status status =
        pool_choose(p, from, to, (dnnl_dim_t)window, blocked ? dnnl_nChw16c : dnnl_nhwc, layouts);
    desc_layout_destroy(layouts[0]);
    desc_layout_destroy(layouts[1]);
    if (status != TG_OK) {
        nn_pool_destroy(p);
        return status;
    }
    *p_p = p;
    return TG_OK;
}

void nn_pool_destroy(nn_pool *p)
{
    if (!p)
        return;
    op_destroy(&p->backward);
    op_destroy(&p->forward);
    free(p);
}

tg_status nn_pool_forward(nn_pool *p, const float *src, float *dst)
{
    return op_run(p->nn, &p->forward, (const float *const[]){src, dst, NULL});
}

tg_status nn_pool_backward(nn_pool *p, const float *ddst, float *dsrc)
{
    return op_run(p->nn, &p->backward, (const float *const[]){ddst, dsrc, NULL});
}

/* ---- activations ----------------------------------------------------------------------------- */

struct nn_act {
    nn *nn;
    op forward, backward;
};

static tg_status act_build(nn_act *a, dnnl_alg_kind_t alg, const_layout l,
                           dnnl_primitive_desc_t pd[2])
{
    const desc_context *x = &a->nn->context;
    const joint forward[] = {{DNNL_ARG_SRC, l, NULL}, {DNNL_ARG_DST, l, NULL}};
    DNNL_TRY("choosing an activation", desc_act_forward(x, alg, l, &pd[0]));
    TG_TRY(op_build(a->nn, pd[0], &a->forward, forward, TG_COUNT(forward)));

    const joint backward[] = {
        {DNNL_ARG_DST, l, NULL}, {DNNL_ARG_DIFF_DST, l, NULL}, {DNNL_ARG_DIFF_SRC, l, NULL}};
    DNNL_TRY("choosing an activation", desc_act_backward(x, alg, l, pd[0], &pd[1]));
    TG_TRY(op_build(a->nn, pd[1], &a->backward, backward, TG_COUNT(backward)));
    a->backward.ports[0].output = false; /* DST is the result of forward, an input here */
    return TG_OK;
}

tg_status nn_act_create(nn *n, nn_act_kind kind, size_t count, nn_act **a_p)
{
    const dnnl_alg_kind_t alg =
        kind == NN_TANH ? dnnl_eltwise_tanh_use_dst_for_bwd : dnnl_eltwise_relu_use_dst_for_bwd;
    const dnnl_dims_t elements = {(dnnl_dim_t)count};
    layout l = NULL;
    nn_act *a;
    TG_TRY(tg_alloc(1, sizeof *a, &a));
    a->nn = n;
    dnnl_primitive_desc_t pd[2] = {NULL, NULL};
    tg_status status = op_layout(dnnl_f32, 1, elements, dnnl_a, &l);
    if (status == TG_OK)
        status = act_build(a, alg, l, pd);
    op_pd_destroy(pd[0]);
    op_pd_destroy(pd[1]);
    desc_layout_destroy(l);
    if (status != TG_OK) {
        nn_act_destroy(a);
        return status;
    }
    *a_p = a;
    return TG_OK;
}

void nn_act_destroy(nn_act *a)
{
    if (!a)
        return;
    op_destroy(&a->forward);
    op_destroy(&a->backward);
    free(a);
}

tg_status nn_act_forward(nn_act *a, const float *src, float *dst)
{
    return op_run(a->nn, &a->forward, (const float *const[]){src, dst});
}

tg_status nn_act_backward(nn_act *a, const float *dst, const float *ddst, float *dsrc)
{
    return op_run(a->nn, &a->backward, (const float *const[]){dst, ddst, dsrc});
}
