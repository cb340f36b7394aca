/* Groups tensors into buckets, and gives each bucket its method and memory. */
#include "session/session_impl.h"
#include "base/mem.h"
#include "telegrad/spec.h"
#include "transport/endpoint.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static tensor *trained(const tg_session *s, size_t i)
{
    return &s->tensor[s->trained[i]];
}

/* True if n more elements of this span fit into the bucket. */
static bool has_room(const tg_session *s, const bucket *b, size_t n, size_t span)
{
    return s->config.buckets != NULL ? b->span == span
                                     : (b->n + n) * sizeof(float) <= s->config.bucket_bytes;
}

/* Group trained tensors of one method into buckets of up to bucket_bytes (a larger tensor is
 * alone), or as config.buckets says. Buckets are numbered by their first tensor, so that a backward
 * pass completes the last bucket first. */
static void assign(tg_session *s, const size_t *rule)
{
    size_t span = 0, end = s->config.buckets == NULL ? SIZE_MAX : s->config.buckets[0];
    for (size_t i = 0; i < s->ntrained; i++) {
        tensor *t = trained(s, i);
        if (i == end)
            end += s->config.buckets[++span];
        size_t b = s->nbuckets; /* the newest bucket of this method, if it has room */
        while (b > 0 && s->bucket[b - 1].rule != rule[i])
            b--;
        if (b == 0 || !has_room(s, &s->bucket[b - 1], t->n, span)) {
            b = ++s->nbuckets;
            s->bucket[b - 1].rule = rule[i];
            s->bucket[b - 1].span = span;
        }
        t->bucket = (uint32_t)(b - 1);
        t->offset = s->bucket[b - 1].n;
        s->bucket[b - 1].n += t->n;
        s->bucket[b - 1].count++;
        s->n += t->n;
    }
}

static void list_members(tg_session *s)
{
    uint32_t *at = s->member;
    for (size_t b = 0; b < s->nbuckets; b++) {
        s->bucket[b].member = at;
        for (uint32_t i = 0; i < s->ntrained; i++)
            if (trained(s, i)->bucket == b)
                *at++ = i;
    }
}

static tg_status check_layout(const tg_session *s)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < s->config.nbuckets; i++)
        sum += s->config.buckets[i];
    if (s->config.buckets != NULL && sum != s->ntrained)
        return tg_fail(TG_E_ARG,
                       "config->buckets has %llu tensors in all: allowed: %zu, the trained ones",
                       (unsigned long long)sum, s->ntrained);
    return TG_OK;
}

/* Find the rule of each trained tensor, then make the buckets. */
static tg_status make_buckets(tg_session *s)
{
    TG_TRY(check_layout(s));
    TG__FREED const char **name = NULL;
    TG__FREED size_t *rule = NULL;
    TG_TRY(tg_alloc(s->ntrained, sizeof *name, &name));
    TG_TRY(tg_alloc(s->ntrained, sizeof *rule, &rule));
    for (size_t i = 0; i < s->ntrained; i++)
        name[i] = trained(s, i)->name;
    TG_TRY(tg__rules_all_used(&s->rules, name, s->ntrained));
    for (size_t i = 0; i < s->ntrained; i++)
        rule[i] = s->rules.rule[tg__rules_find(&s->rules, name[i])].same;
    TG_TRY(tg__owned_alloc(&s->owned, s->ntrained, sizeof *s->bucket, &s->bucket));
    TG_TRY(tg__owned_alloc(&s->owned, s->ntrained, sizeof *s->member, &s->member));
    assign(s, rule);
    list_members(s);
    return TG_OK;
}

/* Adjacent gradients need no copy, unless weight decay is folded into them. */
static tg_status place_gradients(tg_session *s, bucket *b)
{
    const float *base = trained(s, b->member[0])->grad;
    b->missing = b->count;
    if (s->external)
        return TG_OK; /* when it is known whether gradients are exchanged */
    if (s->rules.rule[b->rule].def->properties & TG__OWNS_MOMENTUM)
        b->fold_decay = s->optimizer->decoupled ? 0 : s->optimizer->weight_decay;
    bool adjacent = b->fold_decay == 0;
    for (uint32_t i = 0; i < b->count; i++) {
        const tensor *t = trained(s, b->member[i]);
        adjacent = adjacent && t->grad == base + t->offset;
    }
    if (!adjacent)
        TG_TRY(tg__owned_alloc(&s->owned, b->n, sizeof(float), &b->staging));
    b->g = adjacent ? base : b->staging;
    return TG_OK;
}

double tg__session_momentum(const tg_session *s)
{
    const tg_spec *optimizer = tg_optimizer_spec(s->optimizer);
    return tg_spec_given(optimizer, "momentum") ? tg_spec_real(optimizer, "momentum") : (double)NAN;
}

int tg__session_nesterov(const tg_session *s)
{
    const tg_spec *optimizer = tg_optimizer_spec(s->optimizer);
    return tg_spec_given(optimizer, "nesterov") ? tg_spec_flag(optimizer, "nesterov") : -1;
}

tg_status tg__session_with_setup(const tg_session *s, const bucket *b, uint32_t index,
                                 tg__method_setup setup, tg__setup_use *use, void *arg)
{
    TG__FREED const char **name = NULL;
    TG__FREED size_t *len = NULL;
    setup.seed = s->config.seed;
    setup.steps_per_epoch = s->config.steps_per_epoch;
    setup.epoch_shift = s->epoch_shift;
    setup.bucket = index;
    setup.count = b->count;
    setup.momentum = tg__session_momentum(s);
    setup.nesterov = tg__session_nesterov(s);
    TG_TRY(tg_alloc(b->count, sizeof *name, &name));
    TG_TRY(tg_alloc(4 * (size_t)b->count, sizeof *len, &len));
    size_t *rows = len + b->count, *cols = rows + b->count, *dims = cols + b->count;
    for (uint32_t i = 0; i < b->count; i++) {
        const tensor *t = trained(s, b->member[i]);
        name[i] = t->name;
        len[i] = t->n;
        rows[i] = t->rows;
        cols[i] = t->cols;
        dims[i] = t->ndim;
    }
    setup.tensor = name;
    setup.len = len;
    setup.rows = rows;
    setup.cols = cols;
    setup.dims = dims;
    return use(arg, s->rules.rule[b->rule].method, &setup);
}

static tg_status create_method(void *arg, const char *text, const tg__method_setup *setup)
{
    return tg__method_create(text, setup, arg);
}

tg_status tg__session_method(const tg_session *s, const bucket *b, uint32_t index,
                             tg__method_setup setup, tg__method **m_p)
{
    return tg__session_with_setup(s, b, index, setup, create_method, m_p);
}

static tg_status make_method(tg_session *s, uint32_t index)
{
    bucket *b = &s->bucket[index];
    TG_TRY(tg__session_takes(s, &s->rules.rule[b->rule]));
    const tg__method_setup setup = {.rank = s->transport->rank,
                                    .size = s->transport->size,
                                    .servers = tg__servers_of(s->transport),
                                    .seat = tg__seat_of(s->transport),
                                    .lanes = s->lanes,
                                    .coded_lanes = s->strategy->coded_in_flight,
                                    .may_bypass = s->strategy->ops->bypasses,
                                    .pushes = s->strategy->pushes,
                                    .exchange = b->exchange,
                                    .state = s->state,
                                    .pool = s->pool,
                                    .nodes = s->nodes,
                                    .served = s->strategy->ops->served};
    return tg__session_method(s, b, index, setup, &b->method);
}

/* The strategy's vectors: one block per name, sliced by tensor; a bucket's tensors are adjacent. */
static tg_status make_slots(tg_session *s)
{
    TG__FREED const char **name = NULL;
    TG__FREED size_t *len = NULL;
    TG_TRY(tg_alloc(s->ntrained, sizeof *name, &name));
    TG_TRY(tg_alloc(s->ntrained, sizeof *len, &len));
    for (size_t r = 0; r < s->strategy->nslots; r++) {
        float *base;
        const tg__slot_request *q = &s->strategy->request[r];
        for (size_t i = 0; i < s->ntrained; i++) {
            const tensor *t = trained(s, s->member[i]);
            bool needed = q->optimizers <= tg_optimizer_slots(s->wtensor[s->member[i]].optimizer);
            name[i] = t->name;
            len[i] = needed ? (q->single ? 1 : t->n) : 0;
        }
        TG_TRY(
            tg__state_block(s->state, q->role, q->rescale, q->name, name, len, s->ntrained, &base));
        for (size_t i = 0; i < s->ntrained; base += len[i++])
            s->strategy->slot[r][s->member[i]] = base;
    }
    for (size_t i = 0; i < s->strategy->nmemories; i++) {
        tg__memory *m = &s->strategy->memory[i];
        if (m->counts)
            TG_TRY(tg__state_bytes(s->state, m->role, TG__RESCALE_COPY, trained(s, 0)->name,
                                   "updates", s->ntrained * sizeof *m->updates, &m->updates));
    }
    return TG_OK;
}

static tg_status list_trained(tg_session *s)
{
    TG_TRY(tg__owned_alloc(&s->owned, s->ntensors, sizeof *s->trained, &s->trained));
    for (size_t i = 0; i < s->ntensors; i++)
        if (s->tensor[i].kind == TG_TENSOR_TRAINED) {
            s->tensor[i].trained = s->ntrained;
            s->trained[s->ntrained++] = (uint32_t)i;
        }
    return TG_OK;
}

tg_status tg__session_make_strategy(tg_session *s, const char *spec, int rank, int size)
{
    /* the one with the most slots, among those that some tensor uses */
    const tg_optimizer *most = s->plain;
    for (size_t i = 0; i < s->ntrained; i++) {
        const tensor *t = trained(s, i);
        const tg__rule *rule = &s->rules.rule[s->bucket[t->bucket].rule];
        tg__wtensor *x = &s->wtensor[i];
        x->ndim = t->ndim;
        x->bucket = t->bucket;
        x->optimizer = rule->def->properties & TG__OWNS_MOMENTUM ? s->plain : s->optimizer;
        if (x->optimizer == s->optimizer)
            most = s->optimizer;
    }
    const tg__strategy setup = {.optimizer = most,
                                .steps_per_epoch = s->config.steps_per_epoch,
                                .epoch_shift = s->epoch_shift,
                                .seed = s->config.seed,
                                .rank = rank,
                                .size = size,
                                .external = s->external,
                                .prefers_updates = s->prefers_updates,
                                .tensor = s->wtensor,
                                .ntensors = s->ntrained,
                                .nbuckets = s->nbuckets};
    TG_TRY(tg__strategy_create(spec, &setup, &s->strategy));
    s->actions.cap = s->nbuckets * s->strategy->in_flight;
    return tg__owned_room(&s->owned, &s->actions.item, s->actions.cap, sizeof *s->actions.item);
}

static tg_status make_strategy(tg_session *s)
{
    TG_TRY(tg__owned_alloc(&s->owned, s->ntrained, sizeof *s->wtensor, &s->wtensor));
    for (size_t i = 0; i < s->ntrained; i++) {
        const tensor *t = trained(s, i);
        s->wtensor[i] = (tg__wtensor){.w = t->param, .n = t->n, .offset = t->offset};
        if (!s->external)
            s->wtensor[i].g = s->bucket[t->bucket].g + t->offset;
    }
    TG_TRY(
        tg__session_make_strategy(s, s->config.strategy, s->transport->rank, s->transport->size));
    s->lanes = s->strategy->in_flight;
    if (s->external)
        TG_TRY(tg__session_make_gradients(s));
    return make_slots(s);
}

bool tg__session_is_separable(const tg_session *s)
{
    for (size_t b = 0; b < s->nbuckets; b++)
        if (s->rules.rule[s->bucket[b].rule].def->properties & TG__NEEDS_ALL)
            return false;
    return s->strategy->ops->by_bucket && !s->optimizer->needs_all && !s->external;
}

/* All ranks must fail in the same step. A sum can overflow f32 in any bucket, so if that is an
 * error, all buckets are waited for. */
static bool may_be_early(const tg_session *s)
{
    return s->separable && s->config.overlap == TG_OVERLAP_FULL &&
           s->config.on_nonfinite != TG_NONFINITE_FAIL;
}

tg_status tg__session_layout(tg_session *s)
{
    TG_TRY(list_trained(s));
    TG_TRY(make_buckets(s));
    return s->nbuckets <= UINT16_MAX
               ? TG_OK
               : tg_fail(TG_E_ARG, "%zu buckets: allowed: at most %d; use a larger bucket_bytes",
                         s->nbuckets, UINT16_MAX);
}

tg_status tg__session_build(tg_session *s)
{
    TG_TRY(tg__session_layout(s));
    for (size_t b = 0; b < s->nbuckets; b++)
        TG_TRY(place_gradients(s, &s->bucket[b]));
    return make_strategy(s);
}

tg_status tg__session_build_methods(tg_session *s)
{
    for (uint32_t b = 0; b < s->nbuckets; b++) {
        TG_TRY(make_method(s, b));
        TG_TRY(tg__owned_alloc(&s->owned, s->lanes, sizeof *s->bucket[b].lane, &s->bucket[b].lane));
        for (size_t l = 0; l < s->lanes; l++) {
            s->bucket[b].lane[l].bucket = b;
            s->bucket[b].lane[l].op.flight.bucket = (uint16_t)b;
        }
    }
    s->next_ready = s->nbuckets;
    s->unready = s->ntrained;
    s->separable = tg__session_is_separable(s);
    s->early = may_be_early(s);
    TG_TRY(tg__session_clip_make(s));
    return tg__session_report_make(s);
}

void tg__session_unbuild(tg_session *s, bool released)
{
    for (size_t b = 0; released && b < s->nbuckets; b++) {
        for (size_t l = 0; s->bucket[b].lane != NULL && l < s->lanes; l++)
            tg__flight_fini(&s->bucket[b].lane[l].op.flight);
        tg__method_destroy(s->bucket[b].method);
    }
    tg__strategy_destroy(s->strategy);
    tg__state_destroy(s->state);
    tg__owned_free(&s->owned);
}
