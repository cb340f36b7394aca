/* What oneDNN 2 and 3 have different names for: layouts of arrays, and the choice of a primitive's
 * implementation. dnnl_v2.c or dnnl_v3.c, as the build finds one or the other; everything else of
 * oneDNN that is used here is the same in both.
 *
 * Errors  as oneDNN gives them, dnnl_unimplemented where it has nothing for what is asked */
#ifndef TG_NN_DNNL_DESC_H
#define TG_NN_DNNL_DESC_H

#include <oneapi/dnnl/dnnl.h>

/* An array's layout, a pointer in both. */
#if DNNL_VERSION_MAJOR == 2
typedef dnnl_memory_desc_t *layout;
typedef const dnnl_memory_desc_t *const_layout;
#elif DNNL_VERSION_MAJOR == 3
typedef dnnl_memory_desc_t layout;
typedef const_dnnl_memory_desc_t const_layout;
#else
#error "needs oneDNN 2.x or 3.x"
#endif

dnnl_status_t desc_layout(int ndims, const dnnl_dims_t dims, dnnl_data_type_t type,
                          dnnl_format_tag_t tag, layout *l_p);
void desc_layout_destroy(layout l); /* NULL is fine */

/* For all that follows. */
typedef struct desc_context {
    dnnl_engine_t engine;
    dnnl_primitive_attr_t attr;
} desc_context;

/* Of gradients too: they have the layouts of what they are gradients of. What a primitive reads may
 * be of another type than what it writes. */
typedef struct desc_conv {
    dnnl_alg_kind_t alg;
    const_layout src, weights, dst;             /* read */
    const_layout out_src, out_weights, out_dst; /* written */
    const_layout bias;                          /* NULL: there is none */
    dnnl_dims_t stride, pad, pad_end;           /* height, width */
} desc_conv;

/* hint: what the forward pass chose */
dnnl_status_t desc_conv_forward(const desc_context *x, const desc_conv *c,
                                dnnl_primitive_desc_t *pd_p);
dnnl_status_t desc_conv_backward_weights(const desc_context *x, const desc_conv *c,
                                         const_dnnl_primitive_desc_t hint,
                                         dnnl_primitive_desc_t *pd_p);
dnnl_status_t desc_conv_backward_data(const desc_context *x, const desc_conv *c,
                                      const_dnnl_primitive_desc_t hint,
                                      dnnl_primitive_desc_t *pd_p);

/* Rows times the weights (out, in) transposed, without a bias. */
typedef struct desc_dense {
    const_layout src, weights, dst;             /* read */
    const_layout out_src, out_weights, out_dst; /* written */
} desc_dense;

dnnl_status_t desc_dense_forward(const desc_context *x, const desc_dense *d,
                                 dnnl_primitive_desc_t *pd_p);
dnnl_status_t desc_dense_backward_weights(const desc_context *x, const desc_dense *d,
                                          const_dnnl_primitive_desc_t hint,
                                          dnnl_primitive_desc_t *pd_p);
dnnl_status_t desc_dense_backward_data(const desc_context *x, const desc_dense *d,
                                       const_dnnl_primitive_desc_t hint,
                                       dnnl_primitive_desc_t *pd_p);

/* The maximum of windows that lie side by side. */
typedef struct desc_pool {
    const_layout src, dst;
    dnnl_dims_t window; /* height, width */
} desc_pool;

dnnl_status_t desc_pool_forward(const desc_context *x, const desc_pool *p,
                                dnnl_primitive_desc_t *pd_p);
dnnl_status_t desc_pool_backward(const desc_context *x, const desc_pool *p,
                                 const_dnnl_primitive_desc_t hint, dnnl_primitive_desc_t *pd_p);

/* Element by element: all arrays have one layout. */
dnnl_status_t desc_act_forward(const desc_context *x, dnnl_alg_kind_t alg, const_layout l,
                               dnnl_primitive_desc_t *pd_p);
dnnl_status_t desc_act_backward(const desc_context *x, dnnl_alg_kind_t alg, const_layout l,
                                const_dnnl_primitive_desc_t hint, dnnl_primitive_desc_t *pd_p);

#endif
