/* The one-round program for vectors on a device: the gradient, the feedback's vectors and the
 * aggregate stay there, and frames go to host memory, where the exchange is the same. The bits are
 * those of the default program. */
#include "method/on_device.h"
#include "exchange/message.h"
#include "method/device_memory.h"
#include "telegrad/spec.h"

#include <string.h>

typedef struct on_device {
    tg__method_def def; /* the method's definition, with the program of this file */
    tg__device_memory vectors;
    const tg_device_ops *ops;
    tg_queue *queue;
    tg_coder *coder;
    tg_codec *codec;
    tg__exchange *x;
    tg__density_schedule density;
    bool has_density;
    float *aggregate; /* (n) on the device */
    float *memory;    /* the codec's, a slot; NULL: it has none */
    bool was_nonfinite;
    size_t bad;
    /* of the decoding, which the exchange starts */
    tg_status decoded;
    bool finite;
} on_device;

bool tg__on_device(const tg__method *m)
{
    return m->def->program->bad != NULL;
}

size_t tg__on_device_bad(const tg__method *m)
{
    return m->def->program->bad(m);
}

tg_status tg__on_device_show(tg__method *m)
{
    return m->def->program->show(m);
}

/* ---- memory ---------------------------------------------------------------------------------- */

static tg_status show(tg__method *m)
{
    return tg__device_memory_show(&((on_device *)m->impl)->vectors, m);
}

static bool heal(tg__method *m, bool anyway)
{
    on_device *d = m->impl;
    const bool healed = tg__device_memory_heal(&d->vectors, m, anyway);
    if ((healed || anyway) && d->memory != NULL)
        memset(d->memory, 0, m->setup.count * tg_codec_memory(d->codec) * sizeof *d->memory);
    return healed;
}

static double residual_norm(const tg__method *m)
{
    on_device *d = m->impl;
    return tg__device_memory_norm(&d->vectors, (tg__method *)(uintptr_t)m);
}

/* ---- a step ---------------------------------------------------------------------------------- */

/* The gradient to encode. The last aggregate has been delivered, so a clipped one may take its
 * place. */
static tg_status clip(const tg__method *m, const on_device *d, const float *g,
                      const float **clipped_p)
{
    const tg__feedback_params *p = &m->feedback->params;
    *clipped_p = p->clip == 0 ? g : d->aggregate;
    if (p->clip == 0)
        return TG_OK;
    return d->ops->clip(d->coder, g, tg__clip_limit(p->clip, p->world), d->aggregate);
}

static tg_status encode(tg__method *m, on_device *d, tg__task *task)
{
    tg__part *part = d->x->parts;
    const tg_encode_context ctx = {
        .struct_size = sizeof ctx,
        .rng = tg__method_key(m, task->step, TG_PURPOSE_CODEC),
        .density = d->has_density ? tg__density_at(&d->density, task->step) : 0,
        .segments = m->segments,
        .nsegments = m->setup.count,
        .memory = d->memory,
    };
    tg_coded coded = {.struct_size = sizeof coded};
    task->density = d->has_density ? ctx.density : 1;
    const float *g;
    TG_TRY(tg__device_memory_resume(&d->vectors, m));
    TG_TRY(clip(m, d, task->g, &g));
    const tg_status status = d->ops->encode(d->coder, &ctx, g, part->dst, part->cap, &coded);
    if (status == TG_E_NONFINITE) {
        d->was_nonfinite = true;
        d->bad = coded.bad;
        if (coded.bad < m->n) {
            task->nonfinite = true;
            return TG_OK;
        }
        (void)heal(m, true);
        task->overflow = "this rank's gradient with what it remembers (which starts anew at 0)";
        return TG_OK;
    }
    TG_TRY(status);
    part->len = coded.len;
    part->kept = coded.kept;
    return TG_OK;
}

static tg_status begin(tg__method *m, tg__task *task, tg__exchange **x_p)
{
    on_device *d = m->impl;
    tg__task_begin(task);
    d->was_nonfinite = task->nonfinite;
    d->bad = SIZE_MAX;
    if (!task->nonfinite)
        TG_TRY(encode(m, d, task));
    if (d->was_nonfinite)
        tg__put_zeros(d->x);
    tg__task_count(task, d->x, m->def->properties & TG__DENSE ? NULL : d->codec);
    d->x->rate = task->eta;
    *x_p = d->x;
    return TG_OK;
}

/* All frames have arrived and have been checked. */
static void combine(const tg__exchange *x, float *acc, const uint8_t **frames, const size_t *lens)
{
    const tg__method *m = x->room;
    on_device *d = m->impl;
    (void)acc;
    d->decoded = d->ops->decode(d->queue, frames, lens, (size_t)x->size, d->aggregate, m->n, false,
                                1.0f / (float)x->size, &d->finite);
}

static const tg__combine on_device_mean = {.name = "mean", .all = combine, .elsewhere = true};

static tg_status next(tg__method *m, tg__task *task, tg__exchange **x_p)
{
    on_device *d = m->impl;
    (void)task;
    TG_TRY(d->decoded);
    d->x->overflow |= !d->finite;
    *x_p = NULL;
    return TG_OK;
}

static const float *aggregate(tg__method *m, const tg__task *task)
{
    (void)task;
    return ((const on_device *)m->impl)->aggregate;
}

static tg_status undo(tg__method *m, const tg__task *task)
{
    on_device *d = m->impl;
    const tg__part *part = d->x->parts;
    const uint8_t *frame = part->dst;
    float *pending = tg__device_memory_pending(&d->vectors, m);
    (void)task;
    if (d->was_nonfinite || pending == NULL)
        return TG_OK;
    TG_TRY(tg__device_memory_resume(&d->vectors, m));
    TG_TRY(tg__frame_check(frame, part->len, m->n, -1));
    return d->ops->decode(d->queue, &frame, &part->len, 1, pending, m->n, true, 1, NULL);
}

static size_t bad(const tg__method *m)
{
    return ((const on_device *)m->impl)->bad;
}

/* ---- creating and destroying ----------------------------------------------------------------- */

static void fini(tg__method *m)
{
    on_device *d = m->impl;
    if (d->x != NULL)
        d->ops->unpin(d->queue, d->x->parts[0].dst);
    d->ops->coder_destroy(d->coder);
    tg__device_memory_free(&d->vectors);
    d->ops->release(d->queue, d->aggregate);
}

static tg_status init(tg__method *m)
{
    (void)m; /* tg__on_device_try has done it */
    return TG_OK;
}

static const tg__program_ops program = {.rounds = 1,
                                        .max_lanes = 1,
                                        .init = init,
                                        .fini = fini,
                                        .begin = begin,
                                        .next = next,
                                        .aggregate = aggregate,
                                        .undo = undo,
                                        .heal = heal,
                                        .residual_norm = residual_norm,
                                        .show = show,
                                        .bad = bad};

static bool has_flag(const tg__method *m, const char *key)
{
    return tg_spec_has(m->spec, key) && tg_spec_flag(m->spec, key);
}

/* Without the settings with which the default program does more than a coder. (rescale does
 * nothing: reducers, which alone have vectors on a device, know no learning rate.) */
static bool is_plain(const tg__method *m)
{
    const tg__feedback *f = m->feedback;
    return m->def->program == &tg__default_program && f != NULL && m->setup.lanes == 1 &&
           !m->setup.may_bypass && !m->setup.served && tg__method_exchange(m) != NULL &&
           strcmp(tg__method_exchange(m)->entry.name, "allgather") == 0 &&
           (tg__method_combine(m->def) == &tg__combine_mean ||
            (tg__method_combine(m->def)->cuts && !tg__method_cuts(m->def, m->spec))) &&
           !has_flag(m, "twoway") &&
           (f->params.clip == 0 || TG_HAS(tg_device_ops, tg__device(), clip)) &&
           (f->params.decay == 0 || f->params.decay == 1) && !tg__feedback_filters(f);
}

static tg_status make_memory(tg__method *m, on_device *d)
{
    const tg__method_setup *s = &m->setup;
    const size_t each = tg_codec_memory(d->codec);
    size_t *n;
    if (each == 0)
        return TG_OK;
    TG_TRY(tg__method_alloc(m, s->count, sizeof *n, &n));
    for (size_t i = 0; i < s->count; i++)
        n[i] = each;
    return tg__state_block(s->state, s->role, TG__RESCALE_COPY, "codec", s->tensor, n, s->count,
                           &d->memory);
}

/* The slot of the default program, so that the memory is the same. */
static tg_status make_eta(tg__method *m)
{
    double *eta;
    if (!has_flag(m, "rescale"))
        return TG_OK;
    return tg__state_bytes(m->setup.state, TG__ROLE_REPLICATED, TG__RESCALE_COPY,
                           m->setup.tensor[0], "eta", sizeof *eta, &eta);
}

static tg_status make_coder(tg__method *m, on_device *d)
{
    const tg__feedback *f = m->feedback;
    tg_coder_setup setup = {.struct_size = sizeof setup,
                            .codec = d->codec->ops->entry.name,
                            .spec = d->codec->spec,
                            .feedback = f->ops->entry.name,
                            .momentum = f->params.momentum,
                            .nesterov = f->params.nesterov,
                            .masking = f->params.masking,
                            .n = m->n,
                            .segments = m->segments,
                            .nsegments = m->setup.count};
    TG_TRY(tg__device_memory_make(&d->vectors, m));
    for (size_t i = 0; i < tg__device_memory_count(m); i++)
        setup.vector[i] = d->vectors.vec[i];
    return d->ops->coder_create(d->queue, &setup, &d->coder);
}

static tg_status make(tg__method *m, on_device *d)
{
    TG_TRY(tg__method_derive(m, m->def->codec, &d->codec));
    if (!d->ops->decodes(d->codec->ops->entry.name))
        return tg_fail(TG_E_UNSUPPORTED, "the device does not decode %s",
                       d->codec->ops->entry.name);
    TG_TRY(make_coder(m, d));
    TG_TRY(make_memory(m, d));
    TG_TRY(make_eta(m));
    d->has_density = (m->def->properties & TG__SPARSIFIES) != 0;
    if (d->has_density)
        TG_TRY(tg__density_init(&d->density, tg_spec_real(m->spec, "density"),
                                tg_spec_duration(m->spec, "warmup"), tg__method_epochs(&m->setup)));
    TG_TRY(d->ops->alloc(d->queue, m->n * sizeof(float), (void **)&d->aggregate));
    TG_TRY(tg__method_join(m, tg__method_exchange(m), m->n, d->codec, &on_device_mean, &d->x));
    d->x->room = m;
    d->ops->pin(d->queue, d->x->parts[0].dst, d->x->parts[0].cap);
    return TG_OK;
}

tg_status tg__on_device_try(tg__method *m)
{
    on_device *d;
    if (m->def->program == &tg__powersgd_program)
        return tg__powersgd_on_device_try(m);
    if (m->def->program == &tg__shared_support_program)
        return tg__support_on_device_try(m);
    if (!is_plain(m))
        return TG_OK;
    TG_TRY(tg__method_alloc(m, 1, sizeof *d, &d));
    d->ops = tg__device();
    d->queue = m->setup.queue;
    const tg__method_def *def = m->def;
    m->impl = d;
    const tg_status status = make(m, d);
    if (status == TG_OK) {
        d->def = *def;
        d->def.program = &program;
        m->def = &d->def;
        return TG_OK;
    }
    fini(m);
    m->impl = NULL;
    return status == TG_E_UNSUPPORTED ? TG_OK : status;
}
