/* dnnl_desc.h for oneDNN 3: layouts are objects of the library, and describing an operation chooses
 * its implementation. */
#include "trainer/nn/dnnl_desc.h"

dnnl_status_t desc_layout(int ndims, const dnnl_dims_t dims, dnnl_data_type_t type,
                          dnnl_format_tag_t tag, layout *l_p)
{
    return dnnl_memory_desc_create_with_tag(l_p, ndims, dims, type, tag);
}

void desc_layout_destroy(layout l)
{
    if (l)
        dnnl_memory_desc_destroy(l);
}

static const dnnl_dims_t none; /* no padding, no dilation */

dnnl_status_t desc_conv_forward(const desc_context *x, const desc_conv *c,
                                dnnl_primitive_desc_t *pd_p)
{
    return dnnl_convolution_forward_primitive_desc_create(
        pd_p, x->engine, dnnl_forward_training, c->alg, c->src, c->weights, c->bias, c->out_dst,
        c->stride, none, c->pad, c->pad_end, x->attr);
}

dnnl_status_t desc_conv_backward_weights(const desc_context *x, const desc_conv *c,
                                         const_dnnl_primitive_desc_t hint,
                                         dnnl_primitive_desc_t *pd_p)
{
    return dnnl_convolution_backward_weights_primitive_desc_create(
        pd_p, x->engine, c->alg, c->src, c->out_weights, c->bias, c->dst, c->stride, none, c->pad,
        c->pad_end, hint, x->attr);
}

dnnl_status_t desc_conv_backward_data(const desc_context *x, const desc_conv *c,
                                      const_dnnl_primitive_desc_t hint, dnnl_primitive_desc_t *pd_p)
{
    return dnnl_convolution_backward_data_primitive_desc_create(pd_p, x->engine, c->alg, c->out_src,
                                                                c->weights, c->dst, c->stride, none,
                                                                c->pad, c->pad_end, hint, x->attr);
}

dnnl_status_t desc_dense_forward(const desc_context *x, const desc_dense *d,
                                 dnnl_primitive_desc_t *pd_p)
{
    return dnnl_inner_product_forward_primitive_desc_create(
        pd_p, x->engine, dnnl_forward_training, d->src, d->weights, NULL, d->out_dst, x->attr);
}

dnnl_status_t desc_dense_backward_weights(const desc_context *x, const desc_dense *d,
                                          const_dnnl_primitive_desc_t hint,
                                          dnnl_primitive_desc_t *pd_p)
{
    return dnnl_inner_product_backward_weights_primitive_desc_create(
        pd_p, x->engine, d->src, d->out_weights, NULL, d->dst, hint, x->attr);
}

dnnl_status_t desc_dense_backward_data(const desc_context *x, const desc_dense *d,
                                       const_dnnl_primitive_desc_t hint,
                                       dnnl_primitive_desc_t *pd_p)
{
    return dnnl_inner_product_backward_data_primitive_desc_create(
        pd_p, x->engine, d->out_src, d->weights, d->dst, hint, x->attr);
}

dnnl_status_t desc_pool_forward(const desc_context *x, const desc_pool *p,
                                dnnl_primitive_desc_t *pd_p)
{
    return dnnl_pooling_forward_primitive_desc_create(pd_p, x->engine, dnnl_forward_training,
                                                      dnnl_pooling_max, p->src, p->dst, p->window,
                                                      p->window, none, none, none, x->attr);
}

dnnl_status_t desc_pool_backward(const desc_context *x, const desc_pool *p,
                                 const_dnnl_primitive_desc_t hint, dnnl_primitive_desc_t *pd_p)
{
    return dnnl_pooling_backward_primitive_desc_create(pd_p, x->engine, dnnl_pooling_max, p->src,
                                                       p->dst, p->window, p->window, none, none,
                                                       none, hint, x->attr);
}

dnnl_status_t desc_act_forward(const desc_context *x, dnnl_alg_kind_t alg, const_layout l,
                               dnnl_primitive_desc_t *pd_p)
{
    return dnnl_eltwise_forward_primitive_desc_create(pd_p, x->engine, dnnl_forward_training, alg,
                                                      l, l, 0, 0, x->attr);
}

dnnl_status_t desc_act_backward(const desc_context *x, dnnl_alg_kind_t alg, const_layout l,
                                const_dnnl_primitive_desc_t hint, dnnl_primitive_desc_t *pd_p)
{
    return dnnl_eltwise_backward_primitive_desc_create(pd_p, x->engine, alg, l, l, l, 0, 0, hint,
                                                       x->attr);
}
