/* The parts of oneDNN that have different names in versions 2 and 3: layouts of arrays, and the
 * choice of a primitive's implementation. The build compiles dnnl_v2.c or dnnl_v3.c; everything
 * else used here is the same in both versions.
 *
 * Errors  as oneDNN returns them; dnnl_unimplemented if it has no implementation */
#ifndef TG_NN_DNNL_DESC_H
#define TG_NN_DNNL_DESC_H

#include <oneapi/dnnl/dnnl.h>

/* The layout of an array, a pointer in both versions. */
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

/* The context for all functions below. */
typedef struct desc_context {
    dnnl_engine_t engine;
    dnnl_primitive_attr_t attr;
} desc_context;

/* Also for gradients, which have the layouts of their arrays. What a primitive reads may have
 * another type than what it writes. */
typedef struct desc_conv {
    dnnl_alg_kind_t alg;
    const_layout src, weights, dst;             /* read */
    const_layout out_src, out_weights, out_dst; /* written */
    const_layout bias;                          /* NULL: no bias */
    dnnl_dims_t stride, pad, pad_end;           /* height, width */
} desc_conv;

/* hint: what was chosen for the forward pass */
dnnl_status_t desc_conv_forward(const desc_context *x, const desc_conv *c,
                                dnnl_primitive_desc_t *pd_p);
dnnl_status_t desc_conv_backward_weights(const desc_context *x, const desc_conv *c,
                                         const_dnnl_primitive_desc_t hint,
                                         dnnl_primitive_desc_t *pd_p);
dnnl_status_t desc_conv_backward_data(const desc_context *x, const desc_conv *c,
                                      const_dnnl_primitive_desc_t hint,
                                      dnnl_primitive_desc_t *pd_p);

/* Rows times the transposed weights (out, in), without a bias. */
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

/* The maximum over adjacent windows. */
typedef struct desc_pool {
    const_layout src, dst;
    dnnl_dims_t window; /* height, width */
} desc_pool;

dnnl_status_t desc_pool_forward(const desc_context *x, const desc_pool *p,
                                dnnl_primitive_desc_t *pd_p);
dnnl_status_t desc_pool_backward(const desc_context *x, const desc_pool *p,
                                 const_dnnl_primitive_desc_t hint, dnnl_primitive_desc_t *pd_p);

/* Element-wise: all arrays have the same layout. */
dnnl_status_t desc_act_forward(const desc_context *x, dnnl_alg_kind_t alg, const_layout l,
                               dnnl_primitive_desc_t *pd_p);
dnnl_status_t desc_act_backward(const desc_context *x, dnnl_alg_kind_t alg, const_layout l,
                                const_dnnl_primitive_desc_t hint, dnnl_primitive_desc_t *pd_p);

#endif
