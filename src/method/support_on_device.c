/* Random-k's program for vectors on a device: the gradient, the residual and the aggregate stay
 * there; the support is drawn on the host, and its values are exchanged there. The bits are those
 * of the program in shared_support_program.c. */
#include "base/mem.h"
#include "codec/sparse/topk_select.h"
#include "kernel/kernel.h"
#include "method/device_memory.h"
#include "method/on_device.h"
#include "method/support.h"
#include "telegrad/spec.h"

#include <string.h>

typedef struct program {
    tg__method_def def; /* the method's definition, with the program of this file */
    tg__device_memory residual;
    const tg_device_ops *ops;
    tg_queue *queue;
    tg_codec *codec;
    tg__exchange *x; /* of k elements */
    tg__density_schedule density;
    uint64_t *bits;
    size_t k, room;       /* room: elements of the arrays on the device */
    uint32_t *idx;        /* (k) the support */
    float *val, *sent;    /* (k) sent: own values as decoded */
    uint32_t *device_idx; /* (room) on the device */
    float *device_val;    /* (room) likewise */
    float *aggregate;     /* (n) likewise */
    bool was_nonfinite;
    size_t bad;
} program;

/* ---- memory ---------------------------------------------------------------------------------- */

static tg_status show(tg__method *m)
{
    return tg__device_memory_show(&((program *)m->impl)->residual, m);
}

static bool heal(tg__method *m, bool anyway)
{
    return tg__device_memory_heal(&((program *)m->impl)->residual, m, anyway);
}

static double residual_norm(const tg__method *m)
{
    program *d = m->impl;
    return tg__device_memory_norm(&d->residual, (tg__method *)(uintptr_t)m);
}

/* Write host values (k) to the support's places in x. */
static tg_status put(program *d, float *x, const float *val, bool add, float share)
{
    TG_TRY(d->ops->copy_in(d->queue, d->device_val, val, d->k * sizeof *val));
    return d->ops->scatter(d->queue, x, d->device_idx, d->device_val, d->k, add, share);
}

/* Add host values to the residual, if there is one. */
static tg_status add(tg__method *m, program *d, const float *val, float share)
{
    float *r = tg__device_memory_pending(&d->residual, m);
    if (r == NULL)
        return TG_OK;
    TG_TRY(tg__device_memory_resume(&d->residual, m));
    return put(d, r, val, true, share);
}

/* ---- a step ---------------------------------------------------------------------------------- */

static tg_status room_on_device(program *d, size_t k)
{
    if (k <= d->room)
        return TG_OK;
    d->ops->release(d->queue, d->device_idx);
    d->ops->release(d->queue, d->device_val);
    d->device_idx = NULL;
    d->device_val = NULL;
    d->room = 0;
    TG_TRY(d->ops->alloc(d->queue, k * sizeof *d->device_idx, (void **)&d->device_idx));
    TG_TRY(d->ops->alloc(d->queue, k * sizeof *d->device_val, (void **)&d->device_val));
    d->room = k;
    return TG_OK;
}

/* Make room for k elements, and an exchange for them. */
static tg_status size(tg__method *m, program *d, size_t k)
{
    tg__owned_drop(&m->owned, d->x);
    d->x = NULL;
    d->k = k;
    TG_TRY(tg__owned_room(&m->owned, &d->idx, k, sizeof *d->idx));
    TG_TRY(tg__owned_room(&m->owned, &d->val, k, sizeof *d->val));
    TG_TRY(tg__owned_room(&m->owned, &d->sent, k, sizeof *d->sent));
    TG_TRY(room_on_device(d, k));
    return tg__method_join(m, tg__method_exchange(m), k, d->codec, NULL, &d->x);
}

static size_t count_at(const tg__method *m, const program *d, uint64_t step)
{
    return tg__topk_count(tg__density_at(&d->density, step), m->n);
}

static tg_status draw(tg__method *m, program *d, tg__task *task)
{
    const size_t k = count_at(m, d, task->step);
    tg_rng_key key = tg__method_key(m, task->step, TG_PURPOSE_CODEC);
    key.rank = 0; /* the same on all ranks */
    if (k != d->k)
        TG_TRY(size(m, d, k));
    d->x->context = (tg_encode_context){.struct_size = sizeof d->x->context,
                                        .rng = tg__method_key(m, task->step, TG_PURPOSE_OWNER)};
    task->density = tg__density_at(&d->density, task->step);
    tg__support_draw(&key, m->n, k, d->bits, d->idx);
    return d->ops->copy_in(d->queue, d->device_idx, d->idx, k * sizeof *d->idx);
}

/* val = the support's values of gradient and residual, if both are finite. */
static tg_status gather(tg__method *m, program *d, tg__task *task)
{
    float *r = tg__device_memory_pending(&d->residual, m);
    size_t first = m->n;
    const tg_status status = d->ops->gather(d->queue, r, task->g, m->n, d->device_idx,
                                            d->device_val, d->k, d->val, &first);
    if (status == TG_E_NONFINITE) {
        (void)heal(m, true);
        task->overflow = "this rank's gradient with what it remembers (which starts anew at 0)";
        d->was_nonfinite = true;
        return TG_OK;
    }
    TG_TRY(status);
    if (first < m->n) {
        d->bad = first;
        d->was_nonfinite = task->nonfinite = true;
    }
    return TG_OK;
}

static tg_status encode(tg__method *m, program *d)
{
    tg__exchange *x = d->x;
    tg__view view;
    if (d->was_nonfinite) {
        tg__put_zeros(x);
        return TG_OK;
    }
    TG_TRY(tg__codec_encode(x->codec, NULL, d->val, d->k, x->parts, x->nparts, &view));
    memcpy(d->sent, view.dense, d->k * sizeof *d->sent);
    return add(m, d, d->sent, -1);
}

static tg_status begin(tg__method *m, tg__task *task, tg__exchange **x_p)
{
    program *d = m->impl;
    tg__task_begin(task);
    d->was_nonfinite = task->nonfinite;
    d->bad = SIZE_MAX;
    TG_TRY(tg__device_memory_resume(&d->residual, m));
    TG_TRY(draw(m, d, task));
    if (!task->nonfinite)
        TG_TRY(gather(m, d, task));
    TG_TRY(encode(m, d));
    tg__task_count(task, d->x, NULL);
    d->x->rate = task->eta;
    *x_p = d->x;
    return TG_OK;
}

static tg_status next(tg__method *m, tg__task *task, tg__exchange **x_p)
{
    program *d = m->impl;
    d->x->ops->result(d->x, d->val);
    if (tg__device_memory_count(m) == 0) /* unbiased: what is not sent is lost */
        tg__kernel()->scale(d->val, (float)((double)m->n / (double)d->k), d->k);
    if (!tg__kernel()->all_finite(d->val, d->k))
        task->overflow = "the sum over ranks";
    *x_p = NULL;
    TG_TRY(d->ops->zero(d->queue, d->aggregate, m->n));
    return put(d, d->aggregate, d->val, false, 1);
}

static const float *aggregate(tg__method *m, const tg__task *task)
{
    (void)task;
    return ((const program *)m->impl)->aggregate;
}

/* Return the own values to the memory. */
static tg_status undo(tg__method *m, const tg__task *task)
{
    program *d = m->impl;
    (void)task;
    return d->was_nonfinite ? TG_OK : add(m, d, d->sent, 1);
}

/* Return what was lost by rounding the sums of values, as if it had not been sent. */
static void absorb(tg__method *m, const tg__task *task)
{
    program *d = m->impl;
    (void)task;
    if (d->x->ops->leftover == NULL)
        return;
    memset(d->val, 0, d->k * sizeof *d->val);
    d->x->ops->leftover(d->x, 1, d->val);
    const tg_status status = add(m, d, d->val, 1);
    (void)status; /* the next call on the queue fails as well */
}

static size_t bad(const tg__method *m)
{
    return ((const program *)m->impl)->bad;
}

/* ---- creating and destroying ----------------------------------------------------------------- */

static void fini(tg__method *m)
{
    program *d = m->impl;
    tg__device_memory_free(&d->residual);
    d->ops->release(d->queue, d->device_idx);
    d->ops->release(d->queue, d->device_val);
    d->ops->release(d->queue, d->aggregate);
}

static tg_status init(tg__method *m)
{
    (void)m; /* tg__support_on_device_try has done it */
    return TG_OK;
}

static const tg__program_ops ops_on_device = {.rounds = 1,
                                              .max_lanes = 1,
                                              .init = init,
                                              .fini = fini,
                                              .begin = begin,
                                              .next = next,
                                              .aggregate = aggregate,
                                              .undo = undo,
                                              .heal = heal,
                                              .absorb = absorb,
                                              .residual_norm = residual_norm,
                                              .show = show,
                                              .bad = bad};

static tg_status make(tg__method *m, program *d)
{
    TG_TRY(tg__device_memory_make(&d->residual, m));
    TG_TRY(tg__method_codec(m, tg_spec_word(m->spec, "values"), &d->codec));
    TG_TRY(tg__density_init(&d->density, tg_spec_real(m->spec, "density"),
                            tg_spec_duration(m->spec, "warmup"), tg__method_epochs(&m->setup)));
    TG_TRY(tg__method_alloc(m, TG__SUPPORT_WORDS(m->n), sizeof *d->bits, &d->bits));
    TG_TRY(d->ops->alloc(d->queue, m->n * sizeof *d->aggregate, (void **)&d->aggregate));
    return size(m, d, count_at(m, d, 0));
}

tg_status tg__support_on_device_try(tg__method *m)
{
    const tg_device_ops *ops = tg__device();
    program *d;
    if (m->setup.lanes != 1 || m->setup.may_bypass || m->setup.served ||
        !TG_HAS(tg_device_ops, ops, scatter) || tg__feedback_filters(m->feedback))
        return TG_OK;
    TG_TRY(tg__method_alloc(m, 1, sizeof *d, &d));
    d->ops = ops;
    d->queue = m->setup.queue;
    d->def = *m->def;
    d->def.program = &ops_on_device;
    m->impl = d;
    m->def = &d->def; /* which also releases what make has done if it fails */
    return make(m, d);
}
