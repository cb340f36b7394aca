#include "trainer/nn/dnnl_op.h"
#include "telegrad/tools.h"
#include <stdlib.h>
#include <string.h>

tg_status op_failed(dnnl_status_t status, const char *what)
{
    if (status == dnnl_out_of_memory)
        return tg_fail(TG_E_NOMEM, "oneDNN is out of memory (%s)", what);
    return tg_fail(TG_E_UNSUPPORTED, "oneDNN %d.%d.%d: %s failed with status %d",
                   DNNL_VERSION_MAJOR, DNNL_VERSION_MINOR, DNNL_VERSION_PATCH, what, (int)status);
}

/* ---- signals --------------------------------------------------------------------------------- */

void op_hold_signals(sigset_t *old)
{
    /* Signals for faults of the computation itself are not blocked: if one were, the process would
     * die without its handler being called. */
    static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS};
    sigset_t held;
    sigfillset(&held);
    for (size_t i = 0; i < TG_COUNT(faults); i++)
        sigdelset(&held, faults[i]);
    pthread_sigmask(SIG_BLOCK, &held, old);
}

void op_let_signals(const sigset_t *old)
{
    pthread_sigmask(SIG_SETMASK, old, NULL);
}

/* ---- ops ------------------------------------------------------------------------------------- */

void op_destroy(op *o)
{
    for (size_t i = 0; i < o->nports; i++) {
        port *p = &o->ports[i];
        if (p->reorder)
            dnnl_primitive_destroy(p->reorder);
        if (p->inner && p->inner != p->user)
            dnnl_memory_destroy(p->inner);
        if (p->user)
            dnnl_memory_destroy(p->user);
        free(p->buffer);
    }
    if (o->scratch)
        dnnl_memory_destroy(o->scratch);
    if (o->primitive)
        dnnl_primitive_destroy(o->primitive);
    memset(o, 0, sizeof *o);
}

static tg_status op_create(nn *n, const_dnnl_primitive_desc_t pd, op *o)
{
    DNNL_TRY("creating a primitive", dnnl_primitive_create(&o->primitive, pd));
    const_layout md = dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0);
    const size_t bytes = md ? dnnl_memory_desc_get_size(md) : 0;
    if (bytes > 0)
        DNNL_TRY("creating memory",
                 dnnl_memory_create(&o->scratch, md, n->context.engine, DNNL_MEMORY_NONE));
    if (bytes > n->scratch_bytes)
        n->scratch_bytes = bytes;
    return TG_OK;
}

static tg_status reorder_create(nn *n, const_layout src, const_layout dst,
                                dnnl_primitive_t *reorder_p)
{
    dnnl_primitive_desc_t pd;
    DNNL_TRY("choosing a reorder", dnnl_reorder_primitive_desc_create(
                                       &pd, src, n->context.engine, dst, n->context.engine, NULL));
    const dnnl_status_t status = dnnl_primitive_create(reorder_p, pd);
    dnnl_primitive_desc_destroy(pd);
    DNNL_TRY("creating a reorder", status);
    return TG_OK;
}

static tg_status port_create(nn *n, const_dnnl_primitive_desc_t pd, const joint *j, port *p)
{
    const_layout inner = dnnl_primitive_desc_query_md(pd, dnnl_query_exec_arg_md, j->arg);
    if (!inner)
        return op_failed(dnnl_invalid_arguments, "asking for a layout");
    p->arg = j->arg;
    p->output = j->arg == DNNL_ARG_DST || j->arg == DNNL_ARG_DIFF_SRC ||
                j->arg == DNNL_ARG_DIFF_WEIGHTS || j->arg == DNNL_ARG_DIFF_BIAS;
    if (j->user) {
        DNNL_TRY("creating memory",
                 dnnl_memory_create(&p->user, j->user, n->context.engine, DNNL_MEMORY_NONE));
        if (dnnl_memory_desc_equal(j->user, inner)) {
            p->inner = p->user;
            return TG_OK;
        }
    }
    p->shared = j->shared;
    p->bytes = j->shared ? 0 : dnnl_memory_desc_get_size(inner);
    n->port_bytes += (double)p->bytes;
    DNNL_TRY("creating memory",
             dnnl_memory_create(&p->inner, inner, n->context.engine, DNNL_MEMORY_NONE));
    if (j->user)
        TG_TRY(reorder_create(n, p->output ? inner : j->user, p->output ? j->user : inner,
                              &p->reorder));
    return TG_OK;
}

tg_status op_build(nn *n, const_dnnl_primitive_desc_t pd, op *o, const joint *joints,
                   size_t njoints)
{
    TG_TRY(op_create(n, pd, o));
    for (size_t i = 0; i < njoints; i++) {
        o->nports++; /* counted first, so that an incomplete port is destroyed with the op */
        TG_TRY(port_create(n, pd, &joints[i], &o->ports[i]));
    }
    return TG_OK;
}

void op_pd_destroy(dnnl_primitive_desc_t pd)
{
    if (pd)
        dnnl_primitive_desc_destroy(pd);
}

static tg_status reorder_run(nn *n, const port *p)
{
    const dnnl_exec_arg_t args[2] = {{DNNL_ARG_FROM, p->output ? p->inner : p->user},
                                     {DNNL_ARG_TO, p->output ? p->user : p->inner}};
    DNNL_TRY("a reorder", dnnl_primitive_execute(p->reorder, n->stream, 2, args));
    return TG_OK;
}

/* Allocate the memory of the op, if this has not been done. */
static tg_status allocate(nn *n, op *o)
{
    if (o->scratch && n->scratch_made < n->scratch_bytes) {
        free(n->scratch);
        n->scratch_made = 0;
        TG_TRY(tg_alloc(n->scratch_bytes, 1, &n->scratch));
        n->scratch_made = n->scratch_bytes;
    }
    for (size_t i = 0; i < o->nports; i++) {
        port *p = &o->ports[i];
        if (p->inner == p->user || p->buffer || (p->shared && !p->shared->buffer))
            continue;
        if (!p->shared)
            TG_TRY(tg_alloc(p->bytes, 1, &p->buffer));
        DNNL_TRY("setting memory",
                 dnnl_memory_set_data_handle(p->inner, p->shared ? p->shared->buffer : p->buffer));
    }
    return TG_OK;
}

static tg_status execute(nn *n, op *o, const float *const *data)
{
    dnnl_exec_arg_t args[OP_PORTS + 1];
    int count = 0;
    TG_TRY(allocate(n, o));
    for (size_t i = 0; i < o->nports; i++) {
        port *p = &o->ports[i];
        if (p->user)
            DNNL_TRY("setting an array",
                     dnnl_memory_set_data_handle(p->user, (void *)(uintptr_t)data[i]));
        if (p->reorder && !p->output)
            TG_TRY(reorder_run(n, p));
        args[count++] = (dnnl_exec_arg_t){p->arg, p->inner};
    }
    if (o->scratch) {
        DNNL_TRY("setting scratch memory", dnnl_memory_set_data_handle(o->scratch, n->scratch));
        args[count++] = (dnnl_exec_arg_t){DNNL_ARG_SCRATCHPAD, o->scratch};
    }
    DNNL_TRY("a primitive", dnnl_primitive_execute(o->primitive, n->stream, count, args));
    for (size_t i = 0; i < o->nports; i++) {
        if (o->ports[i].reorder && o->ports[i].output)
            TG_TRY(reorder_run(n, &o->ports[i]));
    }
    DNNL_TRY("waiting", dnnl_stream_wait(n->stream));
    return TG_OK;
}

tg_status op_run(nn *n, op *o, const float *const *data)
{
    sigset_t old;
    op_hold_signals(&old);
    const tg_status status = execute(n, o, data);
    op_let_signals(&old);
    return status;
}

tg_status op_layout(dnnl_data_type_t type, int ndims, const dnnl_dims_t dims, dnnl_format_tag_t tag,
                    layout *l_p)
{
    DNNL_TRY("describing an array", desc_layout(ndims, dims, type, tag, l_p));
    return TG_OK;
}
