/* dnnl_desc.h for oneDNN 2: an operation is described first, then an implementation is chosen. */
#include "trainer/nn/dnnl_desc.h"
#include <stdlib.h>

dnnl_status_t desc_layout(int ndims, const dnnl_dims_t dims, dnnl_data_type_t type,
                          dnnl_format_tag_t tag, layout *l_p)
{
    layout l = malloc(sizeof *l);
    if (!l)
        return dnnl_out_of_memory;
    const dnnl_status_t status = dnnl_memory_desc_init_by_tag(l, ndims, dims, type, tag);
    if (status != dnnl_success) {
        free(l);
        return status;
    }
    *l_p = l;
    return dnnl_success;
}

void desc_layout_destroy(layout l)
{
    free(l);
}

/* described: the result of describing `op` */
static dnnl_status_t choose(const desc_context *x, dnnl_status_t described, const void *op,
                            const_dnnl_primitive_desc_t hint, dnnl_primitive_desc_t *pd_p)
{
    return described != dnnl_success
               ? described
               : dnnl_primitive_desc_create(pd_p, op, x->attr, x->engine, hint);
}

dnnl_status_t desc_conv_forward(const desc_context *x, const desc_conv *c,
                                dnnl_primitive_desc_t *pd_p)
{
    dnnl_convolution_desc_t op;
    return choose(x,
                  dnnl_convolution_forward_desc_init(&op, dnnl_forward_training, c->alg, c->src,
                                                     c->weights, c->bias, c->out_dst, c->stride,
                                                     c->pad, c->pad_end),
                  &op, NULL, pd_p);
}

dnnl_status_t desc_conv_backward_weights(const desc_context *x, const desc_conv *c,
                                         const_dnnl_primitive_desc_t hint,
                                         dnnl_primitive_desc_t *pd_p)
{
    dnnl_convolution_desc_t op;
    return choose(x,
                  dnnl_convolution_backward_weights_desc_init(&op, c->alg, c->src, c->out_weights,
                                                              c->bias, c->dst, c->stride, c->pad,
                                                              c->pad_end),
                  &op, hint, pd_p);
}

dnnl_status_t desc_conv_backward_data(const desc_context *x, const desc_conv *c,
                                      const_dnnl_primitive_desc_t hint, dnnl_primitive_desc_t *pd_p)
{
    dnnl_convolution_desc_t op;
    return choose(x,
                  dnnl_convolution_backward_data_desc_init(&op, c->alg, c->out_src, c->weights,
                                                           c->dst, c->stride, c->pad, c->pad_end),
                  &op, hint, pd_p);
}

dnnl_status_t desc_dense_forward(const desc_context *x, const desc_dense *d,
                                 dnnl_primitive_desc_t *pd_p)
{
    dnnl_inner_product_desc_t op;
    return choose(x,
                  dnnl_inner_product_forward_desc_init(&op, dnnl_forward_training, d->src,
                                                       d->weights, NULL, d->out_dst),
                  &op, NULL, pd_p);
}

dnnl_status_t desc_dense_backward_weights(const desc_context *x, const desc_dense *d,
                                          const_dnnl_primitive_desc_t hint,
                                          dnnl_primitive_desc_t *pd_p)
{
    dnnl_inner_product_desc_t op;
    return choose(
        x, dnnl_inner_product_backward_weights_desc_init(&op, d->src, d->out_weights, NULL, d->dst),
        &op, hint, pd_p);
}

dnnl_status_t desc_dense_backward_data(const desc_context *x, const desc_dense *d,
                                       const_dnnl_primitive_desc_t hint,
                                       dnnl_primitive_desc_t *pd_p)
{
    dnnl_inner_product_desc_t op;
    return choose(x,
                  dnnl_inner_product_backward_data_desc_init(&op, d->out_src, d->weights, d->dst),
                  &op, hint, pd_p);
}

static const dnnl_dims_t none;

dnnl_status_t desc_pool_forward(const desc_context *x, const desc_pool *p,
                                dnnl_primitive_desc_t *pd_p)
{
    dnnl_pooling_desc_t op;
    return choose(x,
                  dnnl_pooling_forward_desc_init(&op, dnnl_forward_training, dnnl_pooling_max,
                                                 p->src, p->dst, p->window, p->window, none, none),
                  &op, NULL, pd_p);
}

dnnl_status_t desc_pool_backward(const desc_context *x, const desc_pool *p,
                                 const_dnnl_primitive_desc_t hint, dnnl_primitive_desc_t *pd_p)
{
    dnnl_pooling_desc_t op;
    return choose(x,
                  dnnl_pooling_backward_desc_init(&op, dnnl_pooling_max, p->src, p->dst, p->window,
                                                  p->window, none, none),
                  &op, hint, pd_p);
}

dnnl_status_t desc_act_forward(const desc_context *x, dnnl_alg_kind_t alg, const_layout l,
                               dnnl_primitive_desc_t *pd_p)
{
    dnnl_eltwise_desc_t op;
    return choose(x, dnnl_eltwise_forward_desc_init(&op, dnnl_forward_training, alg, l, 0, 0), &op,
                  NULL, pd_p);
}

dnnl_status_t desc_act_backward(const desc_context *x, dnnl_alg_kind_t alg, const_layout l,
                                const_dnnl_primitive_desc_t hint, dnnl_primitive_desc_t *pd_p)
{
    dnnl_eltwise_desc_t op;
    return choose(x, dnnl_eltwise_backward_desc_init(&op, alg, l, l, 0, 0), &op, hint, pd_p);
}
