/* The list of strategies, made from strategies.def, and their shared functions. */
#include "strategy/strategy.h"
#include "base/floats.h"
#include "base/mem.h"
#include "kernel/kernel.h"
#include "schedule/schedule.h"
#include <stdlib.h>
#include <string.h>

#define TG_STRATEGY(name) extern const tg__strategy_ops tg__strategy_##name;
#include "strategy/strategies.def"
#undef TG_STRATEGY

/* Elements. Ten vectors of them fit a core's share of the last-level cache. Shorter stretches would
 * fit the second level, but are slower: at the beginning of each, every vector waits for memory. */
enum { STRETCH = 65536 };

/* The largest norm of an optimizer's vector after a dropped step. */
#define MEMORY_MOST 0x1p100

#define TG_STRATEGY(name) &tg__strategy_##name.entry,
static const tg_entry *const entries[] = {
#include "strategy/strategies.def"
};
#undef TG_STRATEGY

const tg_entry *const *tg__strategy_entries(size_t *count_p)
{
    *count_p = TG_COUNT(entries);
    return entries;
}

/* An entry is the first member of its strategy. */
static const tg__strategy_ops *ops_of(const tg_entry *entry)
{
    return (const tg__strategy_ops *)entry;
}

/* Find by a name or a spec string; NULL: none. */
static const tg__strategy_ops *find(const char *spec)
{
    const size_t len = spec == NULL ? 0 : strcspn(spec, ":");
    for (size_t i = 0; len > 0 && i < TG_COUNT(entries); i++)
        if (strlen(entries[i]->name) == len && strncmp(entries[i]->name, spec, len) == 0)
            return ops_of(entries[i]);
    return NULL;
}

const char *tg_registry_strategy_method(const char *strategy)
{
    TG__OWN_FLOATS;
    const tg__strategy_ops *ops = find(strategy);
    return ops != NULL && ops->method != NULL ? ops->method : "dense";
}

const char *tg_registry_strategy_optimizer(const char *strategy)
{
    TG__OWN_FLOATS;
    const tg__strategy_ops *ops = find(strategy);
    return ops == NULL ? NULL : ops->optimizer;
}

bool tg__strategy_is_served(const char *spec)
{
    const tg__strategy_ops *ops = find(spec);
    return ops != NULL && ops->served;
}

const tg_rate_hint *tg__strategy_rate(const char *spec)
{
    const tg__strategy_ops *ops = find(spec);
    return ops == NULL ? NULL : ops->rate;
}

/* Find the tensor with which each bucket begins. */
static tg_status find_first(tg__strategy *s)
{
    TG_TRY(tg__owned_alloc(&s->owned, s->nbuckets, sizeof *s->first, &s->first));
    for (size_t b = 0; b < s->nbuckets; b++)
        s->first[b] = s->ntensors;
    for (size_t i = s->ntensors; i-- > 0;) {
        const uint32_t b = s->tensor[i].bucket;
        if (b >= s->nbuckets)
            return tg_fail(TG_E_ARG, "bucket %u of tensor %zu: allowed: below %zu", b, i,
                           s->nbuckets);
        if (s->tensor[i].offset == 0)
            s->first[b] = i;
    }
    for (size_t b = 0; b < s->nbuckets; b++)
        if (s->first[b] == s->ntensors)
            return tg_fail(TG_E_ARG, "bucket %zu: no tensor begins it", b);
    return TG_OK;
}

static tg_status init(tg__strategy *s, const char *text)
{
    tg_spec *spec;
    TG_TRY(tg_spec_parse("strategy", entries, TG_COUNT(entries), text, &spec));
    s->spec = spec;
    s->ops = ops_of(tg_spec_entry(spec));
    return s->ops->init(s);
}

tg_status tg__strategy_create(const char *spec, const tg__strategy *setup, tg__strategy **s_p)
{
    tg__strategy *s;
    TG_TRY(tg_alloc(1, sizeof *s, &s));
    *s = *setup;
    s->in_flight = s->tags = 1;
    s->gradients_until = UINT64_MAX;
    s->global = TG__NO_SLOT;
    s->clip = 1;
    tg_status status = tg__owned_alloc(&s->owned, s->nbuckets, sizeof *s->made, &s->made);
    if (status == TG_OK)
        status = find_first(s);
    if (status == TG_OK)
        status = init(s, spec);
    if (s->sends_updates && s->gradients_until == UINT64_MAX)
        s->gradients_until = 0;
    if (status == TG_OK)
        *s_p = s;
    else
        tg__strategy_destroy(s);
    return status;
}

void tg__strategy_destroy(tg__strategy *s)
{
    if (!s)
        return;
    free(s->slot);
    free(s->request);
    tg__owned_free(&s->owned);
    tg_spec_free((tg_spec *)(uintptr_t)s->spec);
    free(s);
}

/* ---- what a strategy does, or what synchronous SGD does in its place ------------------------- */

float *tg__strategy_global(const tg__strategy *s, size_t i)
{
    return s->global == TG__NO_SLOT ? s->tensor[i].w : s->slot[s->global][i];
}

void tg__strategy_take_global(tg__strategy *s, size_t i)
{
    const float *global = tg__strategy_global(s, i);
    if (global != s->tensor[i].w)
        memcpy(s->tensor[i].w, global, s->tensor[i].n * sizeof *global);
}

void tg__strategy_begin(tg__strategy *s)
{
    for (size_t i = 0; s->global != TG__NO_SLOT && i < s->ntensors; i++)
        memcpy(s->slot[s->global][i], s->tensor[i].w, s->tensor[i].n * sizeof(float));
    if (s->ops->begin)
        s->ops->begin(s);
}

void tg__strategy_ready(tg__strategy *s, uint64_t t, uint32_t bucket, tg__actions *out)
{
    if (s->ops->ready)
        s->ops->ready(s, t, bucket, out);
    else if (!s->sends_updates)
        tg__actions_add(out, bucket, true, t);
}

void tg__strategy_apply(tg__strategy *s, const tg__result *r)
{
    for (size_t i = 0; r->agg && i < s->ntensors; i++) {
        const tg__wtensor *x = &s->tensor[i];
        if (x->bucket == r->bucket)
            tg__strategy_update_at(s, 0, i, (tg__stretch){0, x->n}, r->lr, x->w,
                                   r->agg + x->offset);
    }
}

void tg__strategy_result(tg__strategy *s, const tg__result *r)
{
    (s->ops->result ? s->ops->result : tg__strategy_apply)(s, r);
}

void tg__strategy_step(tg__strategy *s, uint64_t t, bool finite, double lr, tg__actions *out)
{
    if (s->ops->step)
        s->ops->step(s, t, finite, lr, out);
}

void tg__strategy_open(tg__strategy *s, uint64_t t)
{
    if (s->ops->open)
        s->ops->open(s, t);
}

bool tg__strategy_touches(const tg__strategy *s, uint64_t t, uint32_t bucket, bool in_step)
{
    return s->ops->touches == NULL || s->ops->touches(s, t, bucket, in_step);
}

void tg__strategy_drained(tg__strategy *s, uint64_t t, tg__actions *out)
{
    if (s->ops->drained)
        s->ops->drained(s, t, out);
    for (size_t i = 0; !s->ops->drained && i < s->ntensors; i++)
        tg__strategy_take_global(s, i);
}

/* ---- for the strategies' own files ----------------------------------------------------------- */

tg_status tg__strategy_until(const tg__strategy *s, const char *key, uint64_t *step_p)
{
    const tg__epochs epochs = {.steps = s->steps_per_epoch, .shift = s->epoch_shift};
    return tg__duration_end(tg_spec_duration(s->spec, key), epochs, key, step_p);
}

tg_status tg__strategy_add_slot(tg__strategy *s, const char *name, tg__role role, size_t *at_p)
{
    const tg__rescale rescale = role == TG__ROLE_RANK ? TG__RESCALE_MEAN : TG__RESCALE_COPY;
    const size_t count = s->nslots + 1;
    TG_TRY(tg__grow(&s->request, &s->request_cap, count, sizeof *s->request, "slots"));
    TG_TRY(tg__grow(&s->slot, &s->slot_cap, count, sizeof *s->slot, "slots"));
    TG_TRY(tg__owned_alloc(&s->owned, s->ntensors, sizeof(float *), &s->slot[s->nslots]));
    *at_p = s->nslots;
    s->request[s->nslots++] = (tg__slot_request){.name = name, .role = role, .rescale = rescale};
    return TG_OK;
}

tg_status tg__strategy_add_global(tg__strategy *s)
{
    return tg__strategy_add_slot(s, "global", TG__ROLE_REPLICATED, &s->global);
}

tg_status tg__strategy_add_optimizer(tg__strategy *s, tg__role role)
{
    s->memory[s->nmemories++] =
        (tg__memory){.slot = s->nslots, .role = role, .counts = s->optimizer->ops->counts};
    for (size_t i = 0; i < tg_optimizer_slots(s->optimizer); i++) {
        size_t at = 0;
        TG_TRY(tg__strategy_add_slot(s, tg_optimizer_slot_name(s->optimizer, i), role, &at));
        s->request[at].optimizers = i + 1;
    }
    if (role == TG__ROLE_RANK && s->optimizer->clip > 0)
        return tg__owned_room(&s->owned, &s->clipped, tg__stretch_most(s), sizeof(float));
    return TG_OK;
}

const tg_optimizer *tg__strategy_optimizer(const tg__strategy *s, size_t i)
{
    return s->tensor[i].optimizer != NULL ? s->tensor[i].optimizer : s->optimizer;
}

/* Get the vectors of tensor i in the optimizer's slots, from element `at` on. */
static void vectors(const tg__strategy *s, const tg__memory *m, size_t i, size_t at,
                    float *vec[TG__OPTIMIZER_SLOTS])
{
    for (size_t r = 0; r < tg_optimizer_slots(tg__strategy_optimizer(s, i)); r++)
        vec[r] = s->slot[m->slot + r][i] + at;
}

static tg__stretch stretch(const tg__strategy *s, size_t i, size_t at)
{
    const size_t left = s->tensor[i].n - at;
    const bool whole = tg__strategy_optimizer(s, i)->ops->whole;
    return (tg__stretch){at, whole ? left : TG__MIN(left, STRETCH)};
}

tg__stretch tg__stretch_first(const tg__strategy *s, size_t i)
{
    return stretch(s, i, 0);
}

tg__stretch tg__stretch_next(const tg__strategy *s, size_t i, tg__stretch e)
{
    return stretch(s, i, e.at + e.n);
}

size_t tg__stretch_most(const tg__strategy *s)
{
    size_t most = 0;
    for (size_t i = 0; i < s->ntensors; i++)
        most = TG__MAX(most, tg__stretch_first(s, i).n);
    return most;
}

void tg__strategy_update_at(tg__strategy *s, size_t m, size_t i, tg__stretch e, double lr, float *w,
                            const float *g)
{
    const tg__memory *y = &s->memory[m];
    if (s->external) {
        memcpy(s->tensor[i].mean + e.at, g, e.n * sizeof *g);
        return;
    }
    if (e.at == 0 && y->updates != NULL)
        y->updates[i]++;
    const tg_update u = {
        .lr = lr, .number = y->updates != NULL ? y->updates[i] : 0, .ndim = s->tensor[i].ndim};
    float *vec[TG__OPTIMIZER_SLOTS];
    vectors(s, y, i, e.at, vec);
    const tg_optimizer *o = tg__strategy_optimizer(s, i);
    o->ops->step(o, &u, w, w, g, e.n, vec);
}

void tg__strategy_update_own_at(tg__strategy *s, size_t m, size_t i, tg__stretch e, double lr,
                                float *w)
{
    if (s->external)
        return;
    const float *g = s->tensor[i].g + e.at;
    if (s->clip != 1) {
        memcpy(s->clipped, g, e.n * sizeof *g);
        tg__kernel()->scale(s->clipped, s->clip, e.n);
        g = s->clipped;
    }
    tg__strategy_update_at(s, m, i, e, lr, w, g);
}

bool tg__strategy_makes(tg__strategy *s, const tg__result *r)
{
    if (r->turn == NULL || r->agg == NULL)
        return false;
    s->made[r->bucket] = r->turn->t + 1;
    return true;
}

bool tg__strategy_made(const tg__strategy *s, uint64_t t, size_t i)
{
    return s->made[s->tensor[i].bucket] == t + 1;
}

void tg__strategy_heal(tg__strategy *s, size_t m, size_t i)
{
    const tg__memory *y = &s->memory[m];
    const size_t slots = tg_optimizer_slots(tg__strategy_optimizer(s, i)), n = s->tensor[i].n;
    bool finite = true;
    for (size_t r = 0; r < slots; r++) {
        tg__stats stats;
        tg__kernel()->copy_stats(NULL, s->slot[y->slot + r][i], n, &stats);
        finite = finite && stats.finite && stats.sum_sq <= MEMORY_MOST * MEMORY_MOST;
    }
    for (size_t r = 0; !finite && r < slots; r++)
        memset(s->slot[y->slot + r][i], 0, n * sizeof(float));
    if (!finite && y->updates != NULL)
        y->updates[i] = 0;
}

void tg__strategy_preview(const tg__strategy *s, size_t i, tg__stretch e, double lr, float *dst,
                          const float *w, const float *g)
{
    const tg__wtensor *x = &s->tensor[i];
    const tg__memory *m = &s->memory[0];
    const tg_update u = {.lr = lr, .number = m->updates ? m->updates[i] + 1 : 0, .ndim = x->ndim};
    const tg_optimizer *o = tg__strategy_optimizer(s, i);
    float *vec[TG__OPTIMIZER_SLOTS];
    vectors(s, m, i, e.at, vec);
    o->ops->step(o, &u, dst, w, g, e.n, vec);
}

tg__action *tg__actions_add(tg__actions *out, uint32_t bucket, bool coded, uint64_t due)
{
    const bool room = out->count < out->cap;
    tg__action *a = room ? &out->item[out->count++] : &out->refused;
    out->overfull = out->overfull || !room;
    *a = (tg__action){.bucket = bucket, .coded = coded, .priority = (int)bucket, .due = due};
    return a;
}

/* A bucket's tensors are adjacent in slots, so the bucket begins where its first tensor begins. */
tg__action *tg__actions_add_slot(const tg__strategy *s, tg__actions *out, uint32_t bucket,
                                 size_t slot, uint64_t due, uint32_t tag)
{
    tg__action *a = tg__actions_add(out, bucket, true, due);
    a->buffer = s->slot[slot][s->first[bucket]];
    a->tag = tag;
    return a;
}

void tg__actions_add_slots(const tg__strategy *s, tg__actions *out, size_t slot, uint64_t due,
                           uint32_t tag)
{
    for (uint32_t b = 0; b < s->nbuckets; b++)
        tg__actions_add_slot(s, out, b, slot, due, tag);
}

tg_status tg__actions_check(const tg__strategy *s, const tg__actions *out)
{
    if (!out->overfull)
        return TG_OK;
    return tg_fail(
        TG_E_STATE,
        "strategy \"%s\" returned more than %zu exchanges at once: it may have %zu of each "
        "bucket in flight",
        tg_spec_text(s->spec), out->cap, s->in_flight);
}
