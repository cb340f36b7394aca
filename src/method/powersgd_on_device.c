/* PowerSGD's program for vectors on a device: the gradient, the memory of the matrices and the
 * aggregate stay there; factors, and what is in no matrix, go to host memory, where they are
 * orthonormalised and exchanged as in powersgd_program.c. Dense steps copy the whole vector. The
 * bits are those of the host's program. */
#include "base/mem.h"
#include "kernel/kernel.h"
#include "method/on_device.h"
#include "method/powersgd.h"
#include "telegrad/spec.h"

#include <float.h>
#include <string.h>

typedef struct program {
    tg__method_def def; /* the method's definition, with the program of this file */
    tg__powersgd p;     /* low.m is a copy of `memory`, made when someone asks for it */
    const tg_device_ops *ops;
    tg_queue *queue;
    tg_matrices *matrices;
    size_t nm;
    float *memory;    /* (nm) on the device: low.m */
    float *aggregate; /* (n) likewise */
    bool shown;       /* low.m may have changed */
    size_t bad;
} program;

/* ---- memory ---------------------------------------------------------------------------------- */

static tg_status show(tg__method *m)
{
    program *d = m->impl;
    if (!d->shown)
        TG_TRY(d->ops->copy_out(d->queue, d->p.low.m, d->memory, d->nm * sizeof *d->memory));
    d->shown = true;
    return d->ops->finish(d->queue);
}

/* Take low.m back. */
static tg_status resume(program *d)
{
    if (d->shown)
        TG_TRY(d->ops->copy_in(d->queue, d->memory, d->p.low.m, d->nm * sizeof *d->memory));
    d->shown = false;
    return TG_OK;
}

static bool heal(tg__method *m, bool anyway)
{
    program *d = m->impl;
    tg__lowrank *low = &d->p.low;
    size_t first = d->nm;
    if (resume(d) != TG_OK)
        return false; /* the next call on the queue fails as well */
    if (!anyway && (d->ops->stray(d->queue, d->memory, d->nm, TG__STATE_MOST, &first) != TG_OK ||
                    first == d->nm))
        return false;
    if (d->ops->zero(d->queue, d->memory, d->nm) != TG_OK)
        return false;
    memset(low->right, 0, low->nright * sizeof *low->right);
    return true;
}

static tg_status undo(tg__method *m, const tg__task *task)
{
    if (m->lane[task->lane].was_coded)
        tg__lowrank_undo(&((program *)m->impl)->p.low);
    return TG_OK;
}

static double residual_norm(const tg__method *m)
{
    const program *d = m->impl;
    return show((tg__method *)(uintptr_t)m) == TG_OK ? tg__lowrank_residual_norm(&d->p.low) : 0;
}

static size_t bad(const tg__method *m)
{
    return ((const program *)m->impl)->bad;
}

/* ---- the rounds of a coded step -------------------------------------------------------------- */

/* Compute p. If the gradient is not finite, this rank sends zeros, with nothing of its memory
 * counted as sent: from here on left may change. */
static tg_status form_products(tg__method *m, program *d, tg__task *task)
{
    tg__powersgd *p = &d->p;
    tg__lowrank *low = &p->low;
    size_t first;
    TG_TRY(resume(d));
    tg__lowrank_start(low, m->setup.seed, task->step, p->warm);
    TG_TRY(d->ops->fold(d->matrices, task->nonfinite ? NULL : task->g, low->left, low->right,
                        low->start, p->mixed, p->mixed + low->nleft, &first));
    if (first == m->n) {
        if (!tg__kernel()->all_finite(p->mixed, low->nleft))
            tg__forget(m, task);
        return TG_OK;
    }
    memset(low->right, 0, low->nright * sizeof *low->right);
    d->bad = first;
    task->nonfinite = true;
    return TG_OK;
}

static tg_status encode(tg__method *m, tg__task *task, tg__lane *l)
{
    program *d = m->impl;
    TG_TRY(form_products(m, d, task));
    l->was_nonfinite |= task->nonfinite;
    l->running = d->p.first;
    return tg__put_values(d->p.first, l->was_nonfinite ? NULL : d->p.mixed, task);
}

/* The sum of the first round has arrived. */
static tg_status project(program *d, tg__task *task, tg__lane *l)
{
    tg__lowrank *low = &d->p.low;
    tg__lowrank_agree(low, d->p.mixed);
    if (!l->was_nonfinite) {
        TG_TRY(d->ops->project(d->matrices, low->left, low->right));
        if (!tg__lowrank_clear_overflow(low))
            task->overflow = "the product of what this rank remembers with the factor";
    }
    l->running = d->p.second;
    return tg__put_values(d->p.second, l->was_nonfinite ? NULL : low->right, task);
}

static tg_status advance(tg__method *m, tg__task *task, tg__lane *l)
{
    program *d = m->impl;
    tg__lowrank *low = &d->p.low;
    tg__exchange *x = l->running;
    size_t first = m->n;
    if (x == d->p.first) {
        x->ops->result(x, d->p.mixed);
        return project(d, task, l);
    }
    memcpy(low->before, low->basis, low->nright * sizeof *low->basis);
    x->ops->result(x, low->basis);
    TG_TRY(
        d->ops->expand(d->matrices, low->left, low->basis, d->p.mixed + low->nleft, d->aggregate));
    if (tg__state_strays(low->basis, low->nright, NULL))
        TG_TRY(d->ops->stray(d->queue, d->aggregate, m->n, FLT_MAX, &first));
    if (first < m->n)
        task->overflow = "the sum over ranks";
    l->running = NULL;
    return TG_OK;
}

/* ---- steps ----------------------------------------------------------------------------------- */

/* Copy the gradient of a dense step to the lane's vector on the host. */
static tg_status fetch(tg__method *m, program *d, tg__task *task)
{
    float *host = m->lane[task->lane].aggregate;
    size_t first = m->n;
    TG_TRY(d->ops->stray(d->queue, task->g, m->n, FLT_MAX, &first));
    if (first < m->n) {
        d->bad = first;
        task->nonfinite = true;
        return TG_OK;
    }
    TG_TRY(d->ops->copy_out(d->queue, host, task->g, m->n * sizeof *host));
    task->g = host;
    return d->ops->finish(d->queue);
}

static tg_status begin(tg__method *m, tg__task *task, tg__exchange **x_p)
{
    program *d = m->impl;
    const float *g = task->g;
    d->bad = SIZE_MAX;
    if (!task->nonfinite && (!task->coded || task->step < m->dense_steps))
        TG_TRY(fetch(m, d, task));
    const tg_status status = tg__lane_begin(m, task, x_p);
    task->g = g;
    return status;
}

static tg_status next(tg__method *m, tg__task *task, tg__exchange **x_p)
{
    program *d = m->impl;
    const tg__lane *l = &m->lane[task->lane];
    TG_TRY(tg__lane_next(m, task, x_p));
    return l->was_coded
               ? TG_OK
               : d->ops->copy_in(d->queue, d->aggregate, l->aggregate, m->n * sizeof *l->aggregate);
}

static const float *aggregate(tg__method *m, const tg__task *task)
{
    (void)task;
    return ((const program *)m->impl)->aggregate;
}

/* ---- creating and destroying ----------------------------------------------------------------- */

static void fini(tg__method *m)
{
    program *d = m->impl;
    d->ops->matrices_destroy(d->matrices);
    d->ops->release(d->queue, d->memory);
    d->ops->release(d->queue, d->aggregate);
}

static tg_status init(tg__method *m)
{
    (void)m; /* tg__powersgd_on_device_try has done it */
    return TG_OK;
}

static const tg__program_ops ops_on_device = {.rounds = 2,
                                              .max_lanes = 1,
                                              .init = init,
                                              .fini = fini,
                                              .encode = encode,
                                              .advance = advance,
                                              .begin = begin,
                                              .next = next,
                                              .aggregate = aggregate,
                                              .undo = undo,
                                              .heal = heal,
                                              .residual_norm = residual_norm,
                                              .show = show,
                                              .bad = bad};

static tg_status make_matrices(tg__method *m, program *d)
{
    const tg__lowrank *low = &d->p.low;
    tg_matrix *matrix;
    tg_matrices_setup setup = {
        .struct_size = sizeof setup, .n = m->n, .count = low->count, .rank = low->rank};
    TG_TRY(tg__method_alloc(m, low->count, sizeof *matrix, &matrix));
    for (size_t i = 0; i < low->count; i++) {
        const tg__lowrank_matrix *a = &low->matrix[i];
        matrix[i] = (tg_matrix){.at = a->at, .rows = a->rows, .cols = a->cols};
        d->nm += a->rows * a->cols;
    }
    TG_TRY(d->ops->alloc(d->queue, d->nm * sizeof *d->memory, (void **)&d->memory));
    setup.matrix = matrix;
    setup.m = d->memory;
    return d->ops->matrices_create(d->queue, &setup, &d->matrices);
}

static tg_status make(tg__method *m, program *d)
{
    TG_TRY(tg__powersgd_choose(m, &d->p));
    if (d->p.low.count == 0)
        return tg_fail(TG_E_UNSUPPORTED, "no matrix is worth it");
    TG_TRY(make_matrices(m, d));
    TG_TRY(d->ops->alloc(d->queue, m->n * sizeof *d->aggregate, (void **)&d->aggregate));
    return tg__powersgd_make(m, &d->p);
}

tg_status tg__powersgd_on_device_try(tg__method *m)
{
    const tg_device_ops *ops = tg__device();
    const tg__method_def *def = m->def;
    program *d;
    if (m->setup.lanes != 1 || m->setup.served || !TG_HAS(tg_device_ops, ops, expand))
        return TG_OK;
    TG_TRY(tg__method_alloc(m, 1, sizeof *d, &d));
    d->ops = ops;
    d->queue = m->setup.queue;
    m->impl = d;
    const tg_status status = make(m, d);
    if (status == TG_OK) {
        d->def = *def;
        d->def.program = &ops_on_device;
        m->def = &d->def;
        return TG_OK;
    }
    fini(m);
    m->impl = NULL;
    return status == TG_E_UNSUPPORTED ? TG_OK : status;
}
