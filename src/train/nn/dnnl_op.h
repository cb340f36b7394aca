/* A oneDNN 2 primitive wrapped as an `op`: ports that join the caller's arrays, in canonical
 * layouts, to the formats that the primitive chose, with a reorder where the two differ. Scratch
 * memory is the nn's own, so that ranks which are threads of one process share nothing. */
#ifndef TG_NN_DNNL_OP_H
#define TG_NN_DNNL_OP_H

#include "train/nn/nn.h"
#include <oneapi/dnnl/dnnl.h>
#include <signal.h>

#if DNNL_VERSION_MAJOR != 2
#error "dnnl.c and dnnl_op.c need oneDNN 2.x"
#endif

struct nn {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    void *scratch;
    size_t scratch_bytes;
};

#define OP_PORTS 5

typedef struct port {
    int arg;
    bool output;
    dnnl_memory_t user;  /* canonical layout, the caller's array; NULL: internal */
    dnnl_memory_t inner; /* the primitive's layout; the same object as user if layouts agree */
    dnnl_primitive_t reorder;
    void *buffer; /* of inner, if inner is not user */
} port;

/* All zero: nothing made yet. */
typedef struct op {
    dnnl_primitive_t primitive;
    dnnl_memory_t scratch;
    size_t nports;
    port ports[OP_PORTS];
} op;

/* What joins a primitive's argument to the world. */
typedef struct joint {
    int arg;
    const dnnl_memory_desc_t *user; /* the caller's layout; NULL: internal memory ... */
    const port *shared;             /* ... of this port of another op; NULL: of its own */
} joint;

/* Make the whole op from an operation descriptor (dnnl_*_desc_t). hint: the forward primitive's
 * descriptor, or NULL.
 * pd_p  gets the primitive's descriptor (for hints), the caller's to op_pd_destroy; may be set on
 * failure too o     on failure the caller destroys it as well */
TG_NODISCARD tg_status op_build(nn *n, const void *desc, const_dnnl_primitive_desc_t hint, op *o,
                                const joint *joints, size_t njoints, dnnl_primitive_desc_t *pd_p);
void op_destroy(op *o);
void op_pd_destroy(dnnl_primitive_desc_t pd); /* NULL is fine */

/* data (nports): the caller's arrays in the order of the joints; NULL for internal ones. */
TG_NODISCARD tg_status op_run(nn *n, op *o, const float *const *data);

/* Signals that come to this thread in between wait until op_let_signals. Around all that runs
 * oneDNN's generated code: before version 3.11.2 its f32 matrix products on x86-64, those of
 * longer sums, use the stack pointer for a buffer in the heap, and the system would write a
 * handler's frame over whatever lies before that buffer (oneDNN issue 4845; signals_test.c). */
void op_hold_signals(sigset_t *old);
void op_let_signals(const sigset_t *old);

/* An f32 array's layout. */
TG_NODISCARD tg_status op_layout(dnnl_memory_desc_t *md, int ndims, const dnnl_dims_t dims,
                                 dnnl_format_tag_t tag);

/* A oneDNN failure as a status with a message. */
TG_NODISCARD tg_status op_failed(dnnl_status_t status, const char *what);

#define DNNL_TRY(what, expr)                          \
    do {                                              \
        dnnl_status_t dnnl_try_status_ = (expr);      \
        if (dnnl_try_status_ != dnnl_success)         \
            return op_failed(dnnl_try_status_, what); \
    } while (0)

#endif
