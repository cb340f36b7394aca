/* Rounds of own steps.
 *
 *     A    the parameters after the last average: the same on all ranks, slot "global"
 *     t < after:  w = optimizer(w, mean of g), A = w              (uncompressed)
 *     else:       w = optimizer(w, own g), with memory of this rank's gradients
 *     every `every` steps (fragment f of F: f * every / F steps earlier):
 *         D = A - w is exchanged;  `overlap` steps later
 *         A, v = Nesterov's step along mean D (nesterov.h); lr = 1, momentum = 0: A - mean D
 *         w = alpha * w + (1 - alpha) * A
 *
 * A round in which some rank's D is not finite is lost: w = A on all ranks. The remainder of a
 * round is exchanged when the run is drained; then w = A.
 *
 * clients < 1: this fraction of the ranks takes part in each round, drawn the same on all ranks.
 * The others compute and send nothing. The mean is over the participants, weighted by their
 * samples:
 *     a rank's D is multiplied by P * samples / sum of the samples of the participants
 *
 * Source: local SGD, K-AVG   Zhou, Cong 2018, arXiv:1708.01012; Stich 2019, arXiv:1805.09767
 *         post-local         Lin et al. 2020, arXiv:1808.07217
 *         FedAvg             McMahan et al. 2017, arXiv:1602.05629
 *         DiLoCo             Douillard et al. 2023, arXiv:2311.08105
 *         streaming          Douillard et al. 2025, arXiv:2501.18512 */
#include "strategy/outer.h"
#include "base/mem.h"
#include "telegrad/random.h"
#include "telegrad/spec.h"

#include <string.h>

enum { OF_GRADIENT = 0, OF_UPDATE = 1, OF_STATE = 2 }; /* tags; OF_STATE + optimizer's slot */

typedef struct outer {
    tg__outer c;
    size_t sent, velocity; /* slots; velocity: if there is outer momentum */
    size_t eta;            /* its slot, if it is rescaled: the learning rate of v, one a tensor */
    /* The participants of a round, drawn once and cached: they are needed in each of its steps, and
     * for every rank if one object plays all ranks. */
    uint64_t drawn;    /* 1 + the round; 0: none yet */
    uint32_t *order;   /* (ranks) participants come first */
    uint64_t *counted; /* (ranks) samples; 0: does not take part */
    uint64_t all;      /* the sum of `counted` */
} outer;

/* ---- participants ---------------------------------------------------------------------------- */

/* The round that own step t belongs to. */
static uint64_t round_of(const outer *o, uint64_t t)
{
    return (t - o->c.after) / o->c.every;
}

static uint64_t samples_of(const tg__strategy *s, int rank)
{
    return s->samples == NULL ? 1 : s->samples[rank];
}

static void draw(const tg__strategy *s, uint64_t round)
{
    outer *o = s->impl;
    const tg_rng_key key = {.seed = s->seed, .purpose = TG_PURPOSE_CLIENTS, .step = round};
    const int count = TG__MAX((int)(o->c.clients * s->size + 0.5), 1);
    if (o->drawn == round + 1)
        return;
    tg_rng_permutation(&key, o->order, (size_t)s->size);
    memset(o->counted, 0, (size_t)s->size * sizeof *o->counted);
    o->all = 0;
    for (int i = 0; i < count; i++) {
        const uint32_t rank = o->order[i];
        o->counted[rank] = o->c.weighted ? samples_of(s, (int)rank) : 1;
        o->all += o->counted[rank];
    }
    o->drawn = round + 1;
}

/* The factor of a rank's D in that round; 0: it does not take part. */
static double weight_in(const tg__strategy *s, uint64_t round, int rank)
{
    const outer *o = s->impl;
    if (o->c.clients == 1 && !o->c.weighted)
        return 1;
    draw(s, round);
    return o->all == 0 ? 0 : (double)s->size * (double)o->counted[rank] / (double)o->all;
}

double tg__outer_weight(const tg__strategy *s, uint64_t t, int rank)
{
    const outer *o = s->impl;
    return t < o->c.after ? 1 : weight_in(s, round_of(o, t), rank);
}

/* ---- creating -------------------------------------------------------------------------------- */

static tg_status check(const tg__strategy *s, const tg__outer *c)
{
    const char *name = tg_spec_name(s->spec);
    if (s->external && c->state == TG__OUTER_AVERAGE)
        return tg_fail(TG_E_SPEC,
                       "strategy \"%s\": momentum=average with an external optimizer, whose state "
                       "the session cannot average: allowed: momentum=keep|reset",
                       name);
    if (c->fragments > s->nbuckets)
        return tg_fail(
            TG_E_SPEC,
            "strategy \"%s\": fragments=%u, more than the bucket count of %zu: use fewer "
            "fragments, or a smaller bucket_bytes (--fusion), which makes more buckets",
            name, c->fragments, s->nbuckets);
    if (c->fragments > c->every)
        return tg_fail(TG_E_SPEC,
                       "strategy \"%s\": fragments=%u with every=%llu: allowed: 1 to %llu", name,
                       c->fragments, (unsigned long long)c->every, (unsigned long long)c->every);
    if (c->overlap >= c->every)
        return tg_fail(TG_E_SPEC,
                       "strategy \"%s\": overlap=%llu with every=%llu: allowed: 0 to %llu", name,
                       (unsigned long long)c->overlap, (unsigned long long)c->every,
                       (unsigned long long)(c->every - 1));
    return TG_OK;
}

static bool rescales(const outer *o)
{
    return o->c.rescale && o->c.outer.momentum > 0;
}

static tg_status add_slots(tg__strategy *s, outer *o)
{
    TG_TRY(tg__strategy_add_optimizer(s, TG__ROLE_RANK));
    TG_TRY(tg__strategy_add_global(s));
    TG_TRY(tg__strategy_add_slot(s, "sent", TG__ROLE_RANK, &o->sent));
    if (o->c.outer.momentum > 0)
        TG_TRY(tg__strategy_add_slot(s, "velocity", TG__ROLE_REPLICATED, &o->velocity));
    if (rescales(o)) {
        TG_TRY(tg__strategy_add_slot(s, "velocity eta", TG__ROLE_REPLICATED, &o->eta));
        s->request[o->eta].single = true;
    }
    TG_TRY(tg__owned_alloc(&s->owned, (size_t)s->size, sizeof *o->order, &o->order));
    return tg__owned_alloc(&s->owned, (size_t)s->size, sizeof *o->counted, &o->counted);
}

/* The value of a key that is a number. */
static double number(const tg_spec *spec, const char *key, double otherwise)
{
    return tg_spec_has(spec, key) && *tg_spec_word(spec, key) == '\0' ? tg_spec_real(spec, key)
                                                                      : otherwise;
}

/* By default as many fragments as there are buckets, at most. */
static uint32_t fragments(const tg__strategy *s)
{
    if (!tg_spec_has(s->spec, "fragments"))
        return 1;
    const size_t wanted = (size_t)tg_spec_int(s->spec, "fragments");
    return (uint32_t)(tg_spec_given(s->spec, "fragments") ? wanted : TG__MIN(wanted, s->nbuckets));
}

/* What happens to the optimizer's memory at an average. */
static tg__outer_momentum state_of(const tg_spec *spec)
{
    const char *word = tg_spec_has(spec, "momentum") ? tg_spec_word(spec, "momentum") : "";
    return strcmp(word, "average") == 0 ? TG__OUTER_AVERAGE
           : strcmp(word, "reset") == 0 ? TG__OUTER_RESET
                                        : TG__OUTER_KEEP;
}

tg_status tg__outer_init(tg__strategy *s)
{
    outer *o;
    TG_TRY(tg__owned_alloc(&s->owned, 1, sizeof *o, &o));
    tg__outer *c = &o->c;
    *c = (tg__outer){
        .every = (uint64_t)tg_spec_int(s->spec, "every"),
        .fragments = fragments(s),
        .outer = {.lr = number(s->spec, "lr", 1), .momentum = number(s->spec, "momentum", 0)},
        .alpha = number(s->spec, "alpha", 0),
        .clients = number(s->spec, "clients", 1),
        .weighted = tg_spec_has(s->spec, "weighted") && tg_spec_flag(s->spec, "weighted"),
        .state = state_of(s->spec)};
    if (tg_spec_has(s->spec, "warmup"))
        c->outer.warmup = (uint64_t)tg_spec_int(s->spec, "warmup");
    c->rescale = tg_spec_has(s->spec, "rescale") && tg_spec_flag(s->spec, "rescale");
    if (tg_spec_has(s->spec, "overlap"))
        c->overlap = (uint64_t)tg_spec_int(s->spec, "overlap");
    if (tg_spec_has(s->spec, "after"))
        TG_TRY(tg__strategy_until(s, "after", &c->after));
    TG_TRY(check(s, c));
    s->gradients_until = c->after;
    s->impl = o;
    s->sends_updates = true;
    s->some_absent = c->clients < 1;
    s->weighted = c->weighted;
    s->needs_mean = s->some_absent || s->weighted;
    s->tags = OF_STATE + (uint32_t)tg_optimizer_slots(s->optimizer);
    if (c->state == TG__OUTER_AVERAGE) {
        s->in_flight = 1 + tg_optimizer_slots(s->optimizer);
        s->coded_in_flight = 1;
    }
    return add_slots(s, o);
}

/* ---- results --------------------------------------------------------------------------------- */

/* w = alpha * w + (1 - alpha) * A */
static void take_global(tg__strategy *s, size_t i, tg__stretch e, double alpha)
{
    float *w = s->tensor[i].w + e.at;
    const float *a = tg__strategy_global(s, i) + e.at;
    if (alpha == 0)
        memcpy(w, a, e.n * sizeof *a);
    else
        tg__kernel()->mix(w, a, e.n, (float)alpha, (float)(1 - alpha));
}

static void take_all_global(tg__strategy *s)
{
    for (size_t i = 0; i < s->ntensors; i++)
        tg__strategy_take_global(s, i);
}

static uint32_t fragment_of(const tg__strategy *s, size_t i)
{
    const outer *o = s->impl;
    return s->tensor[i].bucket % o->c.fragments;
}

/* The tensor's round that ended with own step t, or was cut short after it: 1, 2, ... */
static uint64_t outer_round(const tg__strategy *s, size_t i, uint64_t t)
{
    const outer *o = s->impl;
    const uint64_t offset = fragment_of(s, i) * o->c.every / o->c.fragments;
    return (t - o->c.after + offset) / o->c.every + 1;
}

/* The factor of v before the outer step of this result: v shrinks with the learning rate. */
static float keep(tg__strategy *s, size_t i, const tg__result *r)
{
    const outer *o = s->impl;
    if (!rescales(o) || r->tag != OF_UPDATE || r->agg == NULL)
        return 1;
    float *eta = s->slot[o->eta][i];
    const float before = *eta;
    *eta = (float)r->lr;
    return *eta < before ? *eta / before : 1;
}

/* agg: the result, from the stretch's first element on; NULL: dropped */
static void take(tg__strategy *s, size_t i, tg__stretch e, const tg__result *r, float kept,
                 const float *agg)
{
    const outer *o = s->impl;
    float *w = s->tensor[i].w + e.at, *a = tg__strategy_global(s, i) + e.at;
    if (r->tag == OF_GRADIENT) {
        if (agg == NULL)
            return;
        tg__strategy_update_at(s, 0, i, e, r->lr, w, agg);
        memcpy(a, w, e.n * sizeof *w);
    } else if (r->tag == OF_UPDATE) {
        if (agg != NULL)
            tg__nesterov_step(&o->c.outer, outer_round(s, i, r->of_step), kept, a,
                              o->c.outer.momentum > 0 ? s->slot[o->velocity][i] + e.at : NULL, agg,
                              e.n);
        take_global(s, i, e, agg == NULL ? 0 : o->c.alpha);
    } else if (agg != NULL) {
        memcpy(s->slot[s->memory[0].slot + r->tag - OF_STATE][i] + e.at, agg, e.n * sizeof *agg);
    }
}

static void take_tensor(tg__strategy *s, size_t i, const tg__result *r)
{
    const float *agg = r->agg == NULL ? NULL : r->agg + s->tensor[i].offset;
    const float kept = keep(s, i, r);
    if (agg == NULL)
        tg__strategy_heal(s, 0, i);
    for (tg__stretch e = tg__stretch_first(s, i); e.n > 0; e = tg__stretch_next(s, i, e))
        take(s, i, e, r, kept, agg == NULL ? NULL : agg + e.at);
}

void tg__outer_result(tg__strategy *s, const tg__result *r)
{
    for (size_t i = 0; i < s->ntensors; i++)
        if (s->tensor[i].bucket == r->bucket)
            take_tensor(s, i, r);
}

/* ---- exchanges ------------------------------------------------------------------------------- */

void tg__outer_ready(tg__strategy *s, uint64_t t, uint32_t bucket, tg__actions *out)
{
    const outer *o = s->impl;
    if (t < o->c.after)
        tg__actions_add(out, bucket, false, t);
}

/* The fragment's own steps since its last exchange, after `steps` own steps in all. */
static uint64_t since_sent(const outer *o, uint32_t fragment, uint64_t steps)
{
    const uint64_t offset = fragment * o->c.every / o->c.fragments;
    return steps + offset < o->c.every ? steps : (steps + offset) % o->c.every;
}

/* Compute D of a stretch. */
static void prepare(tg__strategy *s, size_t i, tg__stretch e, float weight)
{
    const outer *o = s->impl;
    float *d = s->slot[o->sent][i] + e.at;
    tg__kernel()->sub_to(d, tg__strategy_global(s, i) + e.at, s->tensor[i].w + e.at, e.n);
    if (weight != 1)
        tg__kernel()->scale(d, weight, e.n);
}

/* Exchange the fragment's part of `sent`, which has been prepared unless the weight is 0. */
static void send(tg__strategy *s, uint32_t fragment, bool absent, uint64_t due, tg__actions *out)
{
    const outer *o = s->impl;
    for (uint32_t b = fragment; b < s->nbuckets; b += o->c.fragments) {
        tg__actions_add_slot(s, out, b, o->sent, due, OF_UPDATE)->absent = absent;
    }
    for (uint32_t q = 0; o->c.state == TG__OUTER_AVERAGE && q < s->in_flight - 1; q++)
        for (uint32_t b = fragment; b < s->nbuckets; b += o->c.fragments) {
            tg__actions_add_slot(s, out, b, s->memory[0].slot + q, due, OF_STATE + q)->coded =
                false;
        }
}

/* Reset the optimizers' memory. */
static void forget(tg__strategy *s)
{
    const tg__memory *m = &s->memory[0];
    for (size_t i = 0; i < s->ntensors; i++) {
        for (size_t q = 0; q < tg_optimizer_slots(tg__strategy_optimizer(s, i)); q++)
            memset(s->slot[m->slot + q][i], 0, s->tensor[i].n * sizeof(float));
        if (m->updates != NULL)
            m->updates[i] = 0;
    }
}

/* The first step of a round. */
static bool begins_round(const outer *o, uint64_t t)
{
    return t >= o->c.after && (t - o->c.after) % o->c.every == 0;
}

void tg__outer_open(tg__strategy *s, uint64_t t)
{
    const outer *o = s->impl;
    s->resets = o->c.state == TG__OUTER_RESET && begins_round(o, t);
}

void tg__outer_step(tg__strategy *s, uint64_t t, bool finite, double lr, tg__actions *out)
{
    const outer *o = s->impl;
    for (size_t i = 0; s->external && t < o->c.after && i < s->ntensors; i++)
        memcpy(tg__strategy_global(s, i), s->tensor[i].w, s->tensor[i].n * sizeof(float));
    if (t < o->c.after)
        return;
    const uint64_t steps = t + 1 - o->c.after, round = round_of(o, t);
    if (o->c.state == TG__OUTER_RESET && begins_round(o, t))
        forget(s);
    const float weight = (float)weight_in(s, round, s->rank);
    const bool takes_part = finite && weight_in(s, round, s->rank) != 0;
    for (size_t i = 0; i < s->ntensors; i++) {
        const bool sends = weight != 0 && since_sent(o, fragment_of(s, i), steps) == 0;
        for (tg__stretch e = tg__stretch_first(s, i); e.n > 0; e = tg__stretch_next(s, i, e)) {
            if (takes_part)
                tg__strategy_update_own_at(s, 0, i, e, lr, s->tensor[i].w + e.at);
            if (sends)
                prepare(s, i, e, weight);
        }
    }
    for (uint32_t f = 0; f < o->c.fragments; f++)
        if (since_sent(o, f, steps) == 0)
            send(s, f, weight == 0, t + o->c.overlap, out);
}

/* While steps are synchronous, A follows w. Later, only the step that ends the fragment's round
 * reads w, and only the result of its exchange changes w. */
bool tg__outer_touches(const tg__strategy *s, uint64_t t, uint32_t bucket, bool in_step)
{
    const outer *o = s->impl;
    if (t < o->c.after)
        return true;
    const uint64_t steps = t + 1 - o->c.after, late = in_step ? 0 : o->c.overlap;
    return (in_step || late > 0) && steps > late &&
           since_sent(o, bucket % o->c.fragments, steps - late) == 0;
}

/* True if the fragment has own steps that no exchange includes. Steps made while its last mean was
 * in flight were replaced by that mean, unless alpha > 0; the overlap-th step comes after it. */
static bool has_more(const outer *o, uint32_t fragment, uint64_t steps)
{
    const uint64_t since = since_sent(o, fragment, steps);
    const bool sent = steps + fragment * o->c.every / o->c.fragments >= o->c.every;
    return since != 0 && (o->c.alpha > 0 || !sent || since >= o->c.overlap);
}

void tg__outer_drained(tg__strategy *s, uint64_t t, tg__actions *out)
{
    const outer *o = s->impl;
    const uint64_t steps = t > o->c.after ? t - o->c.after : 0;
    for (uint32_t f = 0; s->drained != t + 1 && f < o->c.fragments; f++) {
        if (!has_more(o, f, steps))
            continue;
        const float weight = (float)weight_in(s, round_of(o, t - 1), s->rank);
        for (size_t i = 0; weight != 0 && i < s->ntensors; i++)
            if (fragment_of(s, i) == f)
                prepare(s, i, (tg__stretch){0, s->tensor[i].n}, weight);
        send(s, f, weight == 0, t, out);
    }
    s->drained = t + 1;
    if (out->count == 0)
        take_all_global(s);
}

/* Own steps of an unfinished round are kept by the rank that takes over, unless the ranks of the
 * round have different weights, because the successor's weight would be another. So are optimizers'
 * states, unless some ranks may have taken more steps than others (clients, deadline): a mean of
 * such moments belongs to no number of updates. */
const char *tg__outer_regroup(tg__strategy *s, uint64_t t)
{
    const outer *o = s->impl;
    const bool alike = o->c.clients == 1 && (!o->c.weighted || s->samples == NULL);
    const bool cut = !alike && t > o->c.after && since_sent(o, 0, t - o->c.after) != 0;
    const bool uneven = o->c.clients < 1 || s->deadline_ns > 0;
    const bool stateful = s->external || tg_optimizer_slots(s->optimizer) > 0;
    const bool ages = uneven && stateful && o->c.state == TG__OUTER_KEEP && t > o->c.after;
    if (ages && !s->external) /* the caller resets its own */
        forget(s);
    if (cut)
        take_all_global(s);
    return cut && ages ? "the round under way and the optimizers' states"
           : cut       ? "the round under way"
           : ages      ? "the optimizers' states"
                       : NULL;
}
