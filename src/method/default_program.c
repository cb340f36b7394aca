/* The one-round program: p = compensate(g); frames = encode(p); sent(view); exchange. */
#include "method/method.h"
#include "base/mem.h"
#include "kernel/kernel.h"
#include "method/twoway.h"
#include "telegrad/spec.h"

#include <float.h>
#include <math.h>
#include <string.h>

typedef struct program {
    tg_codec *codec;
    tg_codec *again; /* how exchanges encode sums, with hints per block. NULL: they do not */
    tg__density_schedule density;
    bool has_density;
    tg__fused_fn fused;
    float *memory; /* the codec's, a slot; NULL: it has none */
    /* the learning rate that the residual is scaled by, a slot; NULL: not rescaled */
    double *eta;
    double *sent_eta;   /* (lanes) that of the residual that was encoded; 0: unknown */
    tg__twoway *twoway; /* NULL: not two-way */
    bool told;          /* exchanges whose servers code means: they know how */
    tg__tells tells;
} program;

static bool has_flag(const tg__method *m, const char *key)
{
    return tg_spec_has(m->spec, key) && tg_spec_flag(m->spec, key);
}

/* What a sparsifier drops from sums must be remembered; rounding may be lost, as it is for the
 * parts. */
static tg_status check_leftover(const tg__method *m, const program *p, const tg__exchange_ops *x)
{
    if (x->leftover == NULL || !(p->codec->ops->properties & TG__SPARSE) ||
        tg__feedback_pending(m->feedback) != NULL)
        return TG_OK;
    return tg_fail(TG_E_SPEC,
                   "method \"%s\": exchange=%s with feedback=none: what is dropped from sums would "
                   "be lost: use feedback=residual",
                   tg_spec_name(m->spec), x->entry.name);
}

static const tg__combine *combine_of(const tg__method *m)
{
    const tg__combine *combine = tg__method_combine(m->def);
    return combine->cuts && !tg__method_cuts(m->def, m->spec) ? &tg__combine_mean : combine;
}

/* Servers restore one step's residual at most. */
static tg_status check_means(const tg__method *m, const tg__exchange_ops *x)
{
    const size_t lanes =
        m->setup.coded_lanes != 0 && !m->setup.served ? m->setup.coded_lanes : m->setup.lanes;
    if (!x->codes_means || lanes <= 1)
        return TG_OK;
    return tg_fail(TG_E_UNSUPPORTED,
                   "exchange=%s allows one exchange in flight, not %zu: use exchange=star for more",
                   x->entry.name, lanes);
}

static tg_status make_lane(tg__method *m, program *p, tg__lane *l)
{
    const tg__exchange_ops *coded = tg__method_exchange(m);
    const size_t count = m->setup.count;
    const bool twoway = has_flag(m, "twoway");
    if (twoway && !coded->recodes)
        return tg_fail(TG_E_SPEC, "twoway=yes with exchange=%s: allowed: %s, auto",
                       coded->entry.name, tg__method_default_exchange(m->spec));
    TG_TRY(check_leftover(m, p, coded));
    TG_TRY(check_means(m, coded));
    if (coded->leftover != NULL && p->again == NULL)
        TG_TRY(tg__method_derive(m, m->def->codec, &p->again));
    TG_TRY(tg__method_join(m, coded, m->n, coded->leftover != NULL ? p->again : p->codec,
                           combine_of(m), &l->coded));
    l->coded->segments = m->segments;
    l->coded->nsegments = count;
    if (l->coded->combine->room != NULL)
        TG_TRY(tg__method_alloc(m, l->coded->combine->room(m->n, count, m->setup.size), 1,
                                &l->coded->room));
    if (twoway && p->twoway == NULL)
        TG_TRY(tg__twoway_create(m, p->codec, l->coded, &p->twoway));
    if (twoway)
        tg__twoway_hook(p->twoway, l->coded);
    if (l->dense == NULL && (m->def->properties & TG__DENSE))
        l->dense = l->coded;
    return TG_OK;
}

/* The codec's memory lives in slots, like all state. */
static tg_status make_memory(tg__method *m, program *p)
{
    const tg__method_setup *s = &m->setup;
    size_t each = tg_codec_memory(p->codec), *n;
    if (each == 0)
        return TG_OK;
    TG_TRY(tg__method_alloc(m, s->count, sizeof *n, &n));
    for (size_t i = 0; i < s->count; i++)
        n[i] = each;
    return tg__state_block(s->state, s->role, TG__RESCALE_COPY, "codec", s->tensor, n, s->count,
                           &p->memory);
}

static tg_status make_eta(tg__method *m, program *p)
{
    if (!has_flag(m, "rescale") || m->setup.count == 0)
        return TG_OK;
    return tg__state_bytes(m->setup.state, TG__ROLE_REPLICATED, TG__RESCALE_COPY,
                           m->setup.tensor[0], "eta", sizeof *p->eta, &p->eta);
}

static tg_status default_init(tg__method *m)
{
    program *p = m->impl;
    const tg__method_setup *s = &m->setup;
    TG_TRY(tg__method_derive(m, m->def->codec, &p->codec));
    TG_TRY(make_memory(m, p));
    TG_TRY(make_eta(m, p));
    p->has_density = (m->def->properties & TG__SPARSIFIES) != 0;
    if (p->has_density)
        TG_TRY(tg__density_init(&p->density, tg_spec_real(m->spec, "density"),
                                tg_spec_duration(m->spec, "warmup"), tg__method_epochs(s)));
    p->tells.factor = 1;
    p->fused = tg__fused_find(m->feedback, p->codec);
    if (m->scratch == NULL)
        TG_TRY(tg__method_alloc(m, m->n, sizeof *m->scratch, &m->scratch));
    TG_TRY(tg__method_alloc(m, s->lanes, sizeof *p->sent_eta, &p->sent_eta));
    const bool apart = s->may_bypass && !(m->def->properties & TG__DENSE);
    TG_TRY(tg__lanes_make(m, s->pushes && s->size > 1 ? tg__exchange_find("push")
                             : apart                  ? tg__dense_exchange(m)
                                                      : NULL));
    for (size_t i = 0; i < s->lanes; i++)
        TG_TRY(make_lane(m, p, &m->lane[i]));
    return TG_OK;
}

/* The factor from one rate's units to another's. Zeros stay zeros, however far apart the rates
 * are. */
static float units_ratio(double from, double to)
{
    return (float)fmin(from / to, FLT_MAX);
}

/* eta * r is what the parameters are still owed, so it is kept when the learning rate changes.
 * (With a rate of 0, nothing can be sent of it, and the gradient has no effect: such a step sends
 * zeros.) */
static void rescale(tg__method *m, program *p, double eta)
{
    float *pending = tg__feedback_pending(m->feedback);
    if (p->eta == NULL || !(eta > 0))
        return;
    if (*p->eta > 0 && *p->eta != eta && pending != NULL) {
        tg__kernel()->scale(pending, units_ratio(*p->eta, eta), m->n);
        tg__twoway_scale(p->twoway, units_ratio(*p->eta, eta));
    }
    *p->eta = eta;
}

/* The context in which a step is encoded, without the vector and the codec's memory. */
static tg_encode_context context_of(const tg__method *m, uint64_t step, tg_purpose purpose)
{
    const program *p = m->impl;
    return (tg_encode_context){
        .struct_size = sizeof(tg_encode_context),
        .rng = tg__method_key(m, step, purpose),
        .density = p->has_density ? tg__density_at(&p->density, step) : 0,
        .segments = m->segments,
        .nsegments = m->setup.count,
    };
}

static tg_status encode_coded(tg__method *m, program *p, tg__task *task, tg__exchange *x)
{
    tg__feedback *f = m->feedback;
    tg_encode_context ctx = context_of(m, task->step, TG_PURPOSE_CODEC);
    task->density = p->has_density ? ctx.density : 1;
    ctx.gradient = task->g;
    ctx.memory = p->memory;
    if (p->fused != NULL)
        return p->fused(f, p->codec, &ctx, task->g, m->n, x->parts, x->nparts);
    const float *sent;
    tg__view view = {0};
    ctx.gradient = tg__method_clip(m, task->g);
    if (!f->ops->compensate(f, ctx.gradient, m->n, m->scratch, &sent))
        return tg_fail(TG_E_NONFINITE, "the compensated vector is not finite");
    ctx.gradient = tg__feedback_last(f, ctx.gradient);
    const bool remembers = f->ops->sent != NULL;
    TG_TRY(tg__codec_encode(p->codec, &ctx, sent, m->n, x->parts, x->nparts,
                            remembers ? &view : NULL));
    if (!remembers)
        return TG_OK;
    if (view.sparse)
        f->ops->sent(f, sent, m->n, view.idx, view.val, view.k);
    else
        f->ops->sent(f, sent, m->n, NULL, view.dense, m->n);
    return TG_OK;
}

static bool default_heal(tg__method *m, bool anyway)
{
    const program *p = m->impl;
    size_t n;
    float *owner = tg__twoway_memory(p->twoway, &n);
    anyway = anyway || (owner != NULL && tg__state_strays(owner, n, NULL));
    if (!tg__feedback_heal(m, anyway))
        return false;
    if (owner != NULL)
        memset(owner, 0, n * sizeof *owner);
    if (p->memory != NULL)
        memset(p->memory, 0, m->setup.count * tg_codec_memory(p->codec) * sizeof *p->memory);
    return true;
}

/* What servers that code means must know, alike on all ranks, of which some may have no finite
 * gradient in this step. */
static void tell_servers(program *p, const tg__task *task, tg__exchange *x)
{
    x->first = !p->told;
    x->dropped = p->tells.dropped != 0;
    if (p->eta != NULL && p->tells.eta > 0 && task->eta > 0)
        p->tells.factor *= units_ratio(p->tells.eta, task->eta);
    const bool rests = p->eta != NULL && task->no_update;
    x->factor = rests ? 0 : fmax(fmin(p->tells.factor, FLT_MAX), DBL_MIN);
    if (!rests)
        p->tells.factor = 1;
    if (task->eta > 0)
        p->tells.eta = task->eta;
    p->told = true;
    p->tells.dropped = 0;
}

/* What cannot be encoded is sent as zeros. */
static tg_status encode(tg__method *m, tg__task *task, tg__lane *l)
{
    program *p = m->impl;
    tg__exchange *x = l->running = l->coded;
    const bool rests = task->no_update && p->eta != NULL;
    tg_status status = TG_OK;
    x->into = l->aggregate; /* no longer read by anyone */
    tg__twoway_rest(p->twoway, rests);
    if (!task->nonfinite)
        rescale(m, p, task->eta);
    p->sent_eta[task->lane] = p->eta == NULL ? 0 : *p->eta;
    if (!task->nonfinite && !rests)
        status = encode_coded(m, p, task, x);
    if (status == TG_E_NONFINITE)
        tg__forget(m, task);
    else
        TG_TRY(status);
    if (l->was_nonfinite || rests)
        tg__put_zeros(x);
    tg__task_count(task, x, m->def->properties & TG__DENSE ? NULL : p->codec);
    if (x->ops->leftover != NULL || x->ops->codes_means)
        x->context = context_of(m, task->step, TG_PURPOSE_OWNER);
    if (x->ops->codes_means)
        tell_servers(p, task, x);
    return TG_OK;
}

/* The factor from the units in which the task was encoded to those of the residual now, which a
 * later step may have rescaled. */
static float units_since(const program *p, const tg__task *task)
{
    const double eta = p->sent_eta[task->lane];
    return eta > 0 ? units_ratio(eta, *p->eta) : 1;
}

/* Return a part of the payload to the residual. */
static void take_back(tg__method *m, const tg__part *part, float factor, float *pending)
{
    if (factor == 1) {
        tg__frame_decode_add(part->dst, part->len, pending + part->lo, m->setup.pool);
        return;
    }
    tg__frame_decode(part->dst, part->len, m->scratch + part->lo, m->setup.pool);
    tg__kernel()->axpy(pending + part->lo, factor, m->scratch + part->lo, part->hi - part->lo);
}

/* Return the payload to the residual. It has not decayed meanwhile, even if the residual has. */
static tg_status default_undo(tg__method *m, const tg__task *task)
{
    program *p = m->impl;
    const tg__lane *l = &m->lane[task->lane];
    const float factor = units_since(p, task);
    float *pending = tg__feedback_pending(m->feedback);
    if (l->was_coded)
        tg__twoway_undo(p->twoway);
    if (l->was_coded && l->coded->ops->codes_means)
        p->tells.dropped = 1;
    if (!l->was_coded || l->was_nonfinite || pending == NULL)
        return TG_OK;
    for (size_t i = 0; i < l->coded->nparts; i++) {
        const tg__part *part = &l->coded->parts[i];
        TG_TRY(tg__frame_check(part->dst, part->len, part->hi - part->lo, -1));
        take_back(m, part, factor, pending);
    }
    return TG_OK;
}

/* What came too late for a server's update is this rank's again. */
static void default_absorb(tg__method *m, const tg__task *task)
{
    const tg__lane *l = &m->lane[task->lane];
    const tg__exchange *x = l->coded;
    float *pending = tg__feedback_pending(m->feedback);
    if (!l->was_coded || pending == NULL)
        return;
    const float factor = units_since(m->impl, task);
    if (x->ops->leftover != NULL)
        x->ops->leftover(l->coded, factor, pending);
    for (size_t i = 0; x->is_late && !l->was_nonfinite && i < x->nparts; i++)
        if (x->late[i])
            take_back(m, &x->parts[i], factor, pending);
}

static void default_scale_served(tg__method *m, double factor)
{
    program *p = m->impl;
    if (factor > 0)
        p->tells.factor *= factor;
    else
        p->told = false;
}

/* They are what answers change: in the aggregate, from step to step. */
static void default_have(tg__method *m, const float *values)
{
    memcpy(m->lane[0].aggregate, values, m->n * sizeof *values);
}

static tg__tells *default_tells(tg__method *m)
{
    program *p = m->impl;
    return m->lane[0].coded->ops->codes_means ? &p->tells : NULL;
}

static double *default_units(const tg__method *m)
{
    return ((const program *)m->impl)->eta;
}

const tg__program_ops tg__default_program = {
    .rounds = 1,
    .impl_bytes = sizeof(program),
    .init = default_init,
    .encode = encode,
    TG__IN_LANES,
    .undo = default_undo,
    .heal = default_heal,
    .absorb = default_absorb,
    .units = default_units,
    .scale_served = default_scale_served,
    .have = default_have,
    .tells = default_tells,
};
