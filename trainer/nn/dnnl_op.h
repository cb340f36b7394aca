/* A oneDNN primitive wrapped as an `op`: ports that join the caller's arrays, in canonical
 * layouts, to the formats that the primitive chose, with a reorder where the two differ. Scratch
 * memory is the nn's own, so that ranks which are threads of one process share nothing. */
#ifndef TG_NN_DNNL_OP_H
#define TG_NN_DNNL_OP_H

#include "trainer/nn/dnnl_desc.h"
#include "trainer/nn/nn.h"
#include <signal.h>

struct nn {
    desc_context context;
    dnnl_stream_t stream;
    void *scratch;
    size_t scratch_bytes;
    dnnl_data_type_t type; /* of what is multiplied */
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
    const_layout user;  /* the caller's; NULL: internal memory ... */
    const port *shared; /* ... of this port of another op; NULL: of its own */
} joint;

/* Make the whole op from what describes its primitive. On failure the caller destroys it as well.
 */
TG_NODISCARD tg_status op_build(nn *n, const_dnnl_primitive_desc_t pd, op *o, const joint *joints,
                                size_t njoints);
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

/* An array's layout in a type. */
TG_NODISCARD tg_status op_layout(dnnl_data_type_t type, int ndims, const dnnl_dims_t dims,
                                 dnnl_format_tag_t tag, layout *l_p);

/* A oneDNN failure as a status with a message. */
TG_NODISCARD tg_status op_failed(dnnl_status_t status, const char *what);

#define DNNL_TRY(what, expr)                          \
    do {                                              \
        dnnl_status_t dnnl_try_status_ = (expr);      \
        if (dnnl_try_status_ != dnnl_success)         \
            return op_failed(dnnl_try_status_, what); \
    } while (0)

#endif
