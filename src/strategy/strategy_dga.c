/* Delayed gradient averaging: ranks continue with their own gradients while averages are in flight.
 * An average that arrives replaces the own gradient that it includes.
 *
 *     A      the parameters after all averages that have arrived: the same on all ranks, "global"
 *     U[t]   the update that the rank's own optimizer made of its own gradient in step t
 *     P      the sum of all U whose averages have not arrived: "pending"
 *     w      = A - P, the parameters that the rank computes at
 *
 * every = 1: step t's gradient is exchanged, due in step t + delay; then
 *     A = optimizer(A, mean of g[t - delay]),  P -= U[t - delay],  w = A - P
 *     U[t] = w - own(w, g),  P += U[t],  w = own(w, g)
 * with two memories: that of the optimizer (of averages) and the own one. For SGD this is
 *     w -= (U[t] - U[t - delay]) + eta[t - delay] * mean of g[t - delay]
 * With momentum, since all of this is linear, it is the same as passing the optimizer the corrected
 * gradient g[t] - g[t - delay] + mean of g[t - delay].
 *
 * every = K: the sum of K steps' U is exchanged, due K steps after the last; the mean is subtracted
 * from A. There is only the own memory. An incomplete last block is exchanged when the run is
 * drained. External, and optimizers that adapt their steps: as with every = K, for every K, 1
 * included. With Adam, the step that it makes of a mean of gradients is not the mean of the steps
 * that the ranks have made of their own, so one would not replace the other.
 *
 * correct = no: w = A; no own steps.
 *
 * When all averages are in, P is 0 up to rounding. Draining sets P to 0 and w to A, so ranks agree.
 *
 * Source: Zhu et al. 2021, "Delayed Gradient Averaging", NeurIPS */
#include "strategy/strategy.h"
#include "base/mem.h"
#include "kernel/kernel.h"

#include <stdio.h>
#include <string.h>

enum { DELAY_MAX = 1000 };

typedef struct dga {
    uint64_t delay, every;
    bool correct;
    bool updates; /* U are exchanged, not gradients */
    /* slots; block (updates): the sum of U since the last exchange */
    size_t pending, block;
    /* `nown` slots from `own` on: U, or blocks of them, that were sent */
    size_t own, nown;
    size_t memory; /* index of the own memory */
    float *before; /* (tg__stretch_most; external: ntensors vectors) w before an own step */
    float **moved; /* (ntensors) external: where each tensor's part of `before` begins */
    char name[DELAY_MAX][28];
} dga;

static const tg_key keys[] = {
    TG__KEY(INT, "delay", "1", 0, DELAY_MAX,
            "averages are applied this many steps late; 0: every step waits for them. A multiple "
            "of every"),
    TG__KEY(INT, "every", "1", 1, 1e9, "local steps per exchange"),
    TG__FLAG("correct", "yes",
             "continue with own gradients, which averages replace later; no: plain delay (pipe)"),
    {.name = NULL}};

/* True if the rank takes own steps; without delay none are needed. */
static bool goes_on(const dga *d)
{
    return d->updates || (d->correct && d->delay > 0);
}

static tg_status read_spec(tg__strategy *s, dga *d)
{
    d->delay = (uint64_t)tg_spec_int(s->spec, "delay");
    d->every = (uint64_t)tg_spec_int(s->spec, "every");
    d->correct = tg_spec_flag(s->spec, "correct");
    if (d->delay % d->every != 0)
        return tg_fail(TG_E_SPEC,
                       "strategy \"dga\": delay=%llu with every=%llu: allowed: a multiple of every",
                       (unsigned long long)d->delay, (unsigned long long)d->every);
    if (d->every > 1 && !d->correct)
        return tg_fail(TG_E_SPEC,
                       "strategy \"dga\": correct=no with every=%llu: plain delay has no local "
                       "steps to combine: allowed: every=1",
                       (unsigned long long)d->every);
    if (s->external && !d->correct)
        return tg_fail(TG_E_SPEC, "strategy \"dga\": correct=no with an external optimizer, which "
                                  "takes local steps: use correct=yes, or strategy pipe");
    d->updates = d->every > 1 || s->external || (goes_on(d) && s->optimizer->ops->adaptive);
    return TG_OK;
}

static tg_status make_room(tg__strategy *s, dga *d)
{
    size_t n = 0;
    if (!s->external)
        return tg__owned_alloc(&s->owned, tg__stretch_most(s), sizeof *d->before, &d->before);
    for (size_t i = 0; i < s->ntensors; i++)
        n += s->tensor[i].n;
    TG_TRY(tg__owned_alloc(&s->owned, n, sizeof *d->before, &d->before));
    TG_TRY(tg__owned_alloc(&s->owned, s->ntensors, sizeof *d->moved, &d->moved));
    float *at = d->before;
    for (size_t i = 0; i < s->ntensors; at += s->tensor[i++].n)
        d->moved[i] = at;
    return TG_OK;
}

static tg_status add_own(tg__strategy *s, dga *d)
{
    size_t unused;
    d->memory = s->nmemories;
    TG_TRY(tg__strategy_add_optimizer(s, TG__ROLE_RANK));
    TG_TRY(tg__strategy_add_slot(s, "pending", TG__ROLE_RANK, &d->pending));
    if (d->updates)
        TG_TRY(tg__strategy_add_slot(s, "block", TG__ROLE_RANK, &d->block));
    d->nown = TG__MAX(d->delay / d->every, 1);
    d->own = s->nslots;
    for (size_t i = 0; i < d->nown; i++) {
        snprintf(d->name[i], sizeof d->name[i], "own %zu", i);
        TG_TRY(tg__strategy_add_slot(s, d->name[i], TG__ROLE_RANK, &unused));
    }
    return make_room(s, d);
}

static tg_status init(tg__strategy *s)
{
    TG_TRY(tg__owned_alloc(&s->owned, 1, sizeof(dga), &s->impl));
    dga *d = s->impl;
    TG_TRY(read_spec(s, d));
    s->sends_updates = d->updates;
    s->in_flight = d->updates ? TG__MAX(d->delay / d->every, 1) : d->delay + 1;
    if (!d->updates)
        TG_TRY(tg__strategy_add_optimizer(s, TG__ROLE_REPLICATED));
    TG_TRY(tg__strategy_add_global(s));
    TG_TRY(goes_on(d) ? add_own(s, d) : TG_OK);
    s->tags = (uint32_t)TG__MAX(d->nown, 1);
    return TG_OK;
}

static size_t ring_at(const dga *d, uint64_t t)
{
    return d->nown == 0 ? 0 : (size_t)(t / d->every % d->nown);
}

/* w = A - P */
static void place(tg__strategy *s, size_t i, tg__stretch e)
{
    const dga *d = s->impl;
    float *w = s->tensor[i].w + e.at;
    const float *a = tg__strategy_global(s, i) + e.at;
    if (goes_on(d))
        tg__kernel()->sub_to(w, a, s->slot[d->pending][i] + e.at, e.n);
    else
        memcpy(w, a, e.n * sizeof *w);
}

/* Remove the U of a result that was not finite on some rank. If this rank's U are not finite
 * either, subtracting them would not undo them, so P is summed again. */
static void forget(tg__strategy *s, size_t i, tg__stretch e, const tg__result *r)
{
    const dga *d = s->impl;
    float *own = s->slot[d->own + r->tag][i] + e.at, *pending = s->slot[d->pending][i] + e.at;
    memset(own, 0, e.n * sizeof *own);
    memset(pending, 0, e.n * sizeof *pending);
    for (size_t k = 1; k < d->nown; k++) /* in the order in which they were sent */
        tg__kernel()->add(pending, s->slot[d->own + (r->tag + k) % d->nown][i] + e.at, e.n);
    if (d->updates)
        tg__kernel()->add(pending, s->slot[d->block][i] + e.at, e.n);
}

/* Apply the result; its U are no longer pending. */
static void take(tg__strategy *s, size_t i, tg__stretch e, const tg__result *r)
{
    const dga *d = s->impl;
    float *a = tg__strategy_global(s, i) + e.at;
    const float *agg = r->agg != NULL ? r->agg + s->tensor[i].offset + e.at : NULL;
    if (agg != NULL && !d->updates)
        tg__strategy_update_at(s, 0, i, e, r->lr, a, agg);
    else if (agg != NULL)
        tg__kernel()->sub(a, agg, e.n);
    if (agg != NULL && goes_on(d)) {
        tg__kernel()->settle(s->tensor[i].w + e.at, a, s->slot[d->pending][i] + e.at,
                             s->slot[d->own + r->tag][i] + e.at, e.n);
        return;
    }
    if (goes_on(d))
        forget(s, i, e, r);
    place(s, i, e);
}

static bool ends_block(const dga *d, uint64_t t)
{
    return d->updates && (t + 1) % d->every == 0;
}

/* Exchange the block and begin a new one. The slot that receives it is free: its previous result
 * arrived before this step. */
static void end_block(tg__strategy *s, size_t i, tg__stretch e, size_t at)
{
    const dga *d = s->impl;
    float *block = s->slot[d->block][i] + e.at;
    memcpy(s->slot[d->own + at][i] + e.at, block, e.n * sizeof *block);
    memset(block, 0, e.n * sizeof *block);
}

/* An own step: add U to the pending sum and store it. */
static void go_on(tg__strategy *s, size_t i, tg__stretch e, const tg__turn *now)
{
    const dga *d = s->impl;
    float *w = s->tensor[i].w + e.at;
    float *kept = s->slot[d->updates ? d->block : d->own + ring_at(d, now->t)][i] + e.at;
    if (now->finite) {
        float *before = s->external ? d->moved[i] + e.at : d->before;
        if (!s->external)
            memcpy(before, w, e.n * sizeof *w);
        tg__strategy_update_own_at(s, d->memory, i, e, now->lr, w);
        tg__kernel()->go_on(s->slot[d->pending][i] + e.at, kept, before, w, e.n);
    }
    if (ends_block(d, now->t))
        end_block(s, i, e, ring_at(d, now->t));
}

static void result(tg__strategy *s, const tg__result *r)
{
    const dga *d = s->impl;
    const bool makes = goes_on(d) && tg__strategy_makes(s, r);
    for (size_t i = 0; i < s->ntensors; i++) {
        if (s->tensor[i].bucket != r->bucket)
            continue;
        for (tg__stretch e = tg__stretch_first(s, i); e.n > 0; e = tg__stretch_next(s, i, e)) {
            take(s, i, e, r);
            if (makes)
                go_on(s, i, e, r->turn);
        }
        if (goes_on(d) && r->agg == NULL)
            tg__strategy_heal(s, d->memory, i);
    }
}

static void ready(tg__strategy *s, uint64_t t, uint32_t bucket, tg__actions *out)
{
    const dga *d = s->impl;
    if (d->updates)
        return;
    tg__actions_add(out, bucket, true, t + d->delay)->tag = (uint32_t)ring_at(d, t);
}

static void open(tg__strategy *s, uint64_t t)
{
    const dga *d = s->impl;
    (void)t;
    for (size_t i = 0; i < s->ntensors; i++)
        memcpy(d->moved[i], s->tensor[i].w, s->tensor[i].n * sizeof(float));
}

static void send_block(tg__strategy *s, size_t at, uint64_t due, tg__actions *out)
{
    const dga *d = s->impl;
    tg__actions_add_slots(s, out, d->own + at, due, (uint32_t)at);
}

static void step(tg__strategy *s, uint64_t t, bool finite, double lr, tg__actions *out)
{
    const dga *d = s->impl;
    const tg__turn now = {t, finite, lr};
    for (size_t i = 0; goes_on(d) && i < s->ntensors; i++) {
        if (tg__strategy_made(s, t, i))
            continue;
        for (tg__stretch e = tg__stretch_first(s, i); e.n > 0; e = tg__stretch_next(s, i, e))
            go_on(s, i, e, &now);
    }
    if (ends_block(d, t))
        send_block(s, ring_at(d, t), t + d->delay, out);
}

static void drained(tg__strategy *s, uint64_t t, tg__actions *out)
{
    const dga *d = s->impl;
    if (d->every > 1 && t % d->every != 0 && s->drained != t + 1) {
        s->drained = t + 1;
        for (size_t i = 0; i < s->ntensors; i++)
            end_block(s, i, (tg__stretch){0, s->tensor[i].n}, ring_at(d, t));
        send_block(s, ring_at(d, t), t, out);
        return;
    }
    for (size_t i = 0; i < s->ntensors; i++) { /* P is 0 up to rounding */
        if (goes_on(d))
            memset(s->slot[d->pending][i], 0, s->tensor[i].n * sizeof(float));
        place(s, i, (tg__stretch){0, s->tensor[i].n});
    }
}

const tg__strategy_ops tg__strategy_dga = {
    .entry = {"dga", "local steps, corrected by averages that arrive `delay` steps late",
              "Zhu et al. 2021, NeurIPS, \"Delayed Gradient Averaging\"", keys},
    .rate = &(const tg_rate_hint){.struct_size = sizeof(tg_rate_hint), .methods = true},
    .tested = "delay=3",
    .init = init,
    .ready = ready,
    .result = result,
    .open = open,
    .step = step,
    .drained = drained,
    .steps = true,
};
