/* The one-round program: p = compensate(g); frames = encode(p); sent(view); exchange. */
#include "method/default_program.h"
#include "base/mem.h"
#include "kernel/kernel.h"
#include "method/twoway.h"
#include "telegrad/random.h"
#include "telegrad/spec.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct lane {
    tg__exchange *coded, *dense; /* the same object if the method is dense */
    float *aggregate;            /* (n) */
    void *room;                  /* the combine's; NULL: not needed */
    bool was_coded, was_nonfinite;
    double eta; /* learning rate of the residual that was encoded; 0: unknown */
} lane;

typedef struct program {
    tg_codec *codec, *f32;
    tg_codec *again; /* how exchanges encode sums, with hints per block. NULL: they do not */
    tg__density_schedule density;
    bool has_density;
    tg__fused_fn fused;
    tg_segment *segments;
    size_t *begin;
    float *scratch, *clipped; /* (n) each, allocated if the settings need them */
    lane *lanes;
    float *memory; /* the codec's, a slot; NULL: it has none */
    /* the learning rate that the residual is scaled by, a slot; NULL: not rescaled */
    double *eta;
    tg__twoway *twoway; /* NULL: not two-way */
} program;

tg_status tg__make_segments(const tg__method_setup *s, tg_segment **segments_p)
{
    TG_TRY(tg_alloc(s->count, sizeof **segments_p, segments_p));
    for (size_t i = 0, at = 0; i < s->count; at += s->len[i++])
        (*segments_p)[i] = (tg_segment){.begin = at,
                                        .n = s->len[i],
                                        .rows = s->rows[i],
                                        .cols = s->cols[i],
                                        .dims = s->dims == NULL ? 0 : s->dims[i]};
    return TG_OK;
}

tg_status tg__make_codec(const tg__method *m, const char *name, tg_codec **codec_p)
{
    size_t count, len = 0;
    const tg_entry *const *list = tg__codec_entries(&count);
    const tg_entry *entry = NULL;
    for (size_t i = 0; i < count; i++)
        if (strcmp(list[i]->name, name) == 0)
            entry = list[i];
    if (entry == NULL)
        return tg_fail(TG_E_SPEC, "unknown codec \"%s\"", name);
    char text[512];
    len = (size_t)snprintf(text, sizeof text, "%s", name);
    for (const tg_key *key = entry->keys; key != NULL && key->name != NULL; key++) {
        const char *value;
        char number[64];
        if (!tg_spec_has(m->spec, key->name))
            continue;
        const bool is_number = (key->type == TG_KEY_INT || key->type == TG_KEY_REAL) &&
                               tg_spec_word(m->spec, key->name)[0] == '\0';
        if (is_number && key->type == TG_KEY_REAL) {
            snprintf(number, sizeof number, "%.17g", tg_spec_real(m->spec, key->name));
            value = number;
        } else if (is_number) {
            snprintf(number, sizeof number, "%lld", (long long)tg_spec_int(m->spec, key->name));
            value = number;
        } else if (key->type == TG_KEY_FLAG) {
            value = tg_spec_flag(m->spec, key->name) ? "yes" : "no";
        } else {
            value = tg_spec_word(m->spec, key->name);
        }
        len += (size_t)snprintf(text + len, sizeof text - len, "%c%s=%s",
                                strchr(text, ':') == NULL ? ':' : ',', key->name, value);
        if (len >= sizeof text)
            return tg_fail(TG_E_SPEC, "method \"%s\": its codec's settings are too long",
                           tg_spec_text(m->spec));
    }
    return tg_codec_create(text, codec_p);
}

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
                   "be lost: allowed: with a residual",
                   tg_spec_name(m->spec), x->entry.name);
}

static const tg__combine *combine_of(const tg__method *m)
{
    const tg__combine *combine = m->def->combine == NULL ? &tg__combine_mean : m->def->combine;
    const bool cuts =
        combine != &tg__combine_clipped || strcmp(tg_spec_word(m->spec, "clip"), "median") == 0;
    return cuts ? combine : &tg__combine_mean;
}

/* Allocate what a combine that looks at tensors needs. */
static tg_status make_room(const tg__method *m, const program *p, lane *l)
{
    tg__exchange *x = l->coded;
    x->segments = p->segments;
    x->nsegments = m->setup.count;
    if (x->combine->room == NULL)
        return TG_OK;
    TG_TRY(tg_alloc(x->combine->room(x->n, m->setup.count, x->size), 1, &l->room));
    x->room = l->room;
    return TG_OK;
}

static tg_status make_lane(tg__method *m, program *p, lane *l)
{
    const tg__exchange_ops *coded = tg__method_exchange(m);
    const char *name = coded->entry.name;
    const bool twoway = has_flag(m, "twoway");
    if (twoway && strcmp(name, "direct") != 0)
        return tg_fail(TG_E_SPEC, "twoway=yes with exchange=%s: allowed: direct, auto", name);
    const tg__exchange_ops *dense = strcmp(name, "none") == 0 ? coded : tg__exchange_find("direct");
    const tg__method_setup *s = &m->setup;
    TG_TRY(check_leftover(m, p, coded));
    if (coded->leftover != NULL && p->again == NULL) {
        TG_TRY(tg__make_codec(m, m->def->codec, &p->again));
        p->again->pool = s->pool;
    }
    TG_TRY(tg_alloc(m->n, sizeof(float), &l->aggregate));
    TG_TRY(tg__exchange_create(coded, s->rank, s->size, m->n,
                               coded->leftover != NULL ? p->again : p->codec, combine_of(m),
                               &l->coded));
    l->coded->pool = s->pool;
    TG_TRY(make_room(m, p, l));
    if (twoway && p->twoway == NULL)
        TG_TRY(tg__twoway_create(s, p->segments, p->codec, l->coded, &p->twoway));
    if (twoway)
        tg__twoway_hook(p->twoway, l->coded);
    if (s->pushes && s->size > 1)
        TG_TRY(tg__exchange_create(tg__exchange_find("push"), s->rank, s->size, m->n, p->f32,
                                   &tg__combine_mean, &l->dense));
    else if (m->def->properties & TG__DENSE)
        l->dense = l->coded;
    else if (s->may_bypass)
        TG_TRY(tg__exchange_create(dense, s->rank, s->size, m->n, p->f32, &tg__combine_mean,
                                   &l->dense));
    if (l->dense != NULL)
        l->dense->pool = s->pool;
    return TG_OK;
}

/* The codec's memory lives in slots, like all state. */
static tg_status make_memory(tg__method *m, program *p)
{
    const tg__method_setup *s = &m->setup;
    size_t each = tg_codec_memory(p->codec), *n;
    if (each == 0)
        return TG_OK;
    TG_TRY(tg_alloc(s->count, sizeof *n, &n));
    for (size_t i = 0; i < s->count; i++)
        n[i] = each;
    tg_status status = tg__state_block(s->state, s->role, TG__RESCALE_COPY, "codec", s->tensor, n,
                                       s->count, &p->memory);
    free(n);
    return status;
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
    program *p;
    TG_TRY(tg_alloc(1, sizeof *p, &p));
    m->impl = p;
    const tg__method_setup *s = &m->setup;
    TG_TRY(tg__make_codec(m, m->def->codec, &p->codec));
    TG_TRY(tg_codec_create("f32", &p->f32));
    p->codec->pool = p->f32->pool = s->pool;
    TG_TRY(make_memory(m, p));
    TG_TRY(make_eta(m, p));
    p->has_density = (m->def->properties & TG__SPARSIFIES) != 0;
    if (p->has_density)
        TG_TRY(tg__density_init(&p->density, tg_spec_real(m->spec, "density"),
                                tg_spec_duration(m->spec, "warmup"), tg__method_epochs(s)));
    TG_TRY(tg__make_segments(s, &p->segments));
    TG_TRY(tg_alloc(s->count, sizeof *p->begin, &p->begin));
    for (size_t i = 0; i < s->count; i++)
        p->begin[i] = p->segments[i].begin;
    p->fused = m->feedback->params.clip > 0 ? NULL : tg__fused_find(m->feedback, p->codec);
    TG_TRY(tg_alloc(m->n, sizeof(float), &p->scratch));
    if (m->feedback->params.clip > 0)
        TG_TRY(tg_alloc(m->n, sizeof(float), &p->clipped));
    TG_TRY(tg_alloc(s->lanes, sizeof *p->lanes, &p->lanes));
    for (size_t i = 0; i < s->lanes; i++)
        TG_TRY(make_lane(m, p, &p->lanes[i]));
    return TG_OK;
}

static void default_fini(tg__method *m)
{
    program *p = m->impl;
    for (size_t i = 0; p->lanes != NULL && i < m->setup.lanes; i++) {
        if (p->lanes[i].dense != p->lanes[i].coded)
            tg__exchange_destroy(p->lanes[i].dense);
        tg__exchange_destroy(p->lanes[i].coded);
        free(p->lanes[i].aggregate);
        free(p->lanes[i].room);
    }
    free(p->lanes);
    tg__twoway_destroy(p->twoway);
    free(p->scratch);
    free(p->clipped);
    free(p->segments);
    free(p->begin);
    tg_codec_destroy(p->codec);
    tg_codec_destroy(p->again);
    tg_codec_destroy(p->f32);
    free(p);
    m->impl = NULL;
}

/* The gradient as it enters the feedback. */
static const float *clip(tg__method *m, program *p, const float *g)
{
    const tg__feedback_params *params = &m->feedback->params;
    if (p->clipped == NULL)
        return g;
    tg__clip_tensors(p->clipped, g, p->begin, m->setup.len, m->setup.count, params->clip,
                     params->world);
    return p->clipped;
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
static tg_encode_context context_of(const tg__method *m, const program *p, uint64_t step,
                                    tg_purpose purpose)
{
    return (tg_encode_context){
        .struct_size = sizeof(tg_encode_context),
        .rng = {.seed = m->setup.seed,
                .purpose = purpose,
                .rank = (uint32_t)m->setup.rank,
                .step = step,
                .tensor = m->setup.bucket},
        .density = p->has_density ? tg__density_at(&p->density, step) : 0,
        .segments = p->segments,
        .nsegments = m->setup.count,
    };
}

static tg_status encode_coded(tg__method *m, program *p, tg__task *task, tg__exchange *x)
{
    tg__feedback *f = m->feedback;
    tg_encode_context ctx = context_of(m, p, task->step, TG_PURPOSE_CODEC);
    task->density = p->has_density ? ctx.density : 1;
    ctx.gradient = task->g;
    ctx.memory = p->memory;
    if (p->fused != NULL)
        return p->fused(f, p->codec, &ctx, task->g, m->n, x->parts, x->nparts);
    const float *sent;
    tg__view view = {0};
    ctx.gradient = clip(m, p, task->g);
    if (!f->ops->compensate(f, ctx.gradient, m->n, p->scratch, &sent))
        return tg_fail(TG_E_NONFINITE, "the compensated vector is not finite");
    bool remembers = f->ops->vectors > 0;
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

/* Encode. What cannot be encoded is sent as zeros and reset, and all ranks are informed. */
static tg_status encode_or_forget(tg__method *m, program *p, lane *l, tg__task *task,
                                  tg__exchange *x)
{
    const tg_status status = encode_coded(m, p, task, x);
    if (status != TG_E_NONFINITE)
        return status;
    (void)default_heal(m, true);
    task->overflow = TG__FORGOT;
    l->was_nonfinite = true;
    tg__put_zeros(x);
    return TG_OK;
}

/* Encode for a dense step. A momentum that overflows f32 is reset, as above. */
static tg_status encode_dense(tg__method *m, program *p, tg__task *task, tg__exchange *x)
{
    const float *sent;
    if (!m->feedback->ops->bypass(m->feedback, clip(m, p, task->g), m->n, p->scratch, &sent)) {
        (void)default_heal(m, true);
        task->overflow = TG__FORGOT;
        tg__put_zeros(x);
        return TG_OK;
    }
    return tg__codec_encode(p->f32, NULL, sent, m->n, x->parts, x->nparts, NULL);
}

static tg_status default_begin(tg__method *m, tg__task *task, tg__exchange **x_p)
{
    program *p = m->impl;
    lane *l = &p->lanes[task->lane];
    tg__exchange *x = task->coded ? l->coded : l->dense;
    x->hop = task->hop;
    x->into = l->aggregate; /* no longer read by anyone */
    l->was_coded = task->coded;
    l->was_nonfinite = task->nonfinite;
    task->density = 1;
    task->coded_bytes = task->kept = 0;
    task->fell_back = false;
    bool rests = task->coded && task->no_update && p->eta != NULL;
    if (task->coded)
        tg__twoway_rest(p->twoway, rests);
    if (task->coded && !task->nonfinite)
        rescale(m, p, task->eta);
    l->eta = p->eta == NULL ? 0 : *p->eta;
    if (task->nonfinite || rests) {
        tg__put_zeros(x);
    } else if (task->coded) {
        TG_TRY(encode_or_forget(m, p, l, task, x));
    } else {
        TG_TRY(encode_dense(m, p, task, x));
    }
    tg__task_count(task, x, m->def->properties & TG__DENSE ? NULL : p->codec);
    if (x->ops->leftover != NULL)
        x->context = context_of(m, p, task->step, TG_PURPOSE_OWNER);
    *x_p = x;
    return TG_OK;
}

static tg_status default_next(tg__method *m, tg__task *task, tg__exchange **x_p)
{
    program *p = m->impl;
    lane *l = &p->lanes[task->lane];
    tg__exchange *x = task->coded ? l->coded : l->dense;
    x->ops->result(x, l->aggregate);
    *x_p = NULL;
    return TG_OK;
}

static const float *default_aggregate(tg__method *m, const tg__task *task)
{
    return ((program *)m->impl)->lanes[task->lane].aggregate;
}

/* Return the payload to the residual. It has not decayed meanwhile, even if the residual has. */
static tg_status default_undo(tg__method *m, const tg__task *task)
{
    program *p = m->impl;
    lane *l = &p->lanes[task->lane];
    float *pending = tg__feedback_pending(m->feedback);
    if (l->was_coded)
        tg__twoway_undo(p->twoway);
    if (!l->was_coded || l->was_nonfinite || pending == NULL)
        return TG_OK;
    bool other_units = l->eta > 0 && *p->eta != l->eta; /* a later step has rescaled the residual */
    for (size_t i = 0; i < l->coded->nparts; i++) {
        const tg__part *part = &l->coded->parts[i];
        TG_TRY(tg__frame_check(part->dst, part->len, part->hi - part->lo, -1));
        if (!other_units) {
            tg__frame_decode_add(part->dst, part->len, pending + part->lo, m->setup.pool);
            continue;
        }
        tg__frame_decode(part->dst, part->len, p->scratch + part->lo, m->setup.pool);
        tg__kernel()->axpy(pending + part->lo, units_ratio(l->eta, *p->eta), p->scratch + part->lo,
                           part->hi - part->lo);
    }
    return TG_OK;
}

static void default_absorb(tg__method *m, const tg__task *task)
{
    program *p = m->impl;
    const lane *l = &p->lanes[task->lane];
    float *pending = tg__feedback_pending(m->feedback);
    if (!l->was_coded || pending == NULL || l->coded->ops->leftover == NULL)
        return;
    const bool other_units = l->eta > 0 && *p->eta != l->eta;
    l->coded->ops->leftover(l->coded, other_units ? units_ratio(l->eta, *p->eta) : 1.0f, pending);
}

static double *default_units(const tg__method *m)
{
    return ((const program *)m->impl)->eta;
}

const tg__program_ops tg__default_program = {
    .rounds = 1,
    .init = default_init,
    .fini = default_fini,
    .begin = default_begin,
    .next = default_next,
    .aggregate = default_aggregate,
    .undo = default_undo,
    .heal = default_heal,
    .absorb = default_absorb,
    .units = default_units,
};
