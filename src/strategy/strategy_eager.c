/* DiLoCo with eager updates. A round's mean is not waited for: until it arrives, the rank's own
 * change stands in for its share of the mean, and the last round's mean for the shares of the
 * others.
 *
 *     D        the change made by the round of `every` own steps: O - w
 *     E = D / P + (M' - D' / P),   M', D' the last round's mean and own change; at first, and after
 *                                  a lost round, 0
 *     v = momentum * v + E,  O = O - lr * (E + momentum * v),  w = O          (each rank its own)
 *
 *     A        the same steps along the means M as they arrive: the same on all ranks, "global"
 *
 * At the end of a round, O = A - lr * (D + momentum * u) / P, where u = momentum * u + D: what a
 * rank has beyond A are its share of the round and, with a momentum, that of its earlier rounds,
 * which fades. (With E = D in the first round, M' - D' / P would count that round once more, and O
 * would be off by lr * (1 - 1 / P) / (1 - momentum) * D for good.) When the run is drained, all
 * take A.
 *
 * Source: Kale, Douillard, Donchev 2025, arXiv:2502.12996 */
#include "strategy/nesterov.h"
#include "strategy/strategy.h"
#include "base/mem.h"

#include <string.h>

typedef struct eager {
    uint64_t every;
    tg__nesterov outer;
    size_t velocity;          /* slots: of A */
    size_t own, own_velocity; /* O, v */
    size_t sent, rest;        /* D; -D' / P, with the P of D', then M' - D' / P */
} eager;

static const tg_key keys[] = {TG__OUTER_EVERY, TG__OUTER_NESTEROV, {.name = NULL}};

static tg_status init(tg__strategy *s)
{
    eager *e, c = {.every = (uint64_t)tg_spec_int(s->spec, "every"),
                   .outer = {.lr = tg_spec_real(s->spec, "lr"),
                             .momentum = tg_spec_real(s->spec, "momentum")}};
    s->sends_updates = s->needs_mean = true;
    TG_TRY(tg__strategy_add_optimizer(s, TG__ROLE_RANK));
    TG_TRY(tg__strategy_add_global(s));
    TG_TRY(tg__strategy_add_slot(s, "velocity", TG__ROLE_REPLICATED, &c.velocity));
    TG_TRY(tg__strategy_add_slot(s, "own", TG__ROLE_RANK, &c.own));
    TG_TRY(tg__strategy_add_slot(s, "own velocity", TG__ROLE_RANK, &c.own_velocity));
    TG_TRY(tg__strategy_add_slot(s, "sent", TG__ROLE_RANK, &c.sent));
    /* Earlier builds had a slot "rest", with E in it: this name refuses their checkpoints. */
    TG_TRY(tg__strategy_add_slot(s, "others", TG__ROLE_RANK, &c.rest));
    TG_TRY(tg__owned_alloc(&s->owned, 1, sizeof *e, &e));
    *e = c;
    s->impl = e;
    return TG_OK;
}

/* O = w = A, v = A's velocity: as at the start of a run. */
static void take_global(tg__strategy *s, size_t i)
{
    const eager *e = s->impl;
    const size_t bytes = s->tensor[i].n * sizeof(float);
    memcpy(s->tensor[i].w, tg__strategy_global(s, i), bytes);
    memcpy(s->slot[e->own][i], tg__strategy_global(s, i), bytes);
    memcpy(s->slot[e->own_velocity][i], s->slot[e->velocity][i], bytes);
    memset(s->slot[e->sent][i], 0, bytes);
    memset(s->slot[e->rest][i], 0, bytes);
}

static void begin(tg__strategy *s)
{
    for (size_t i = 0; i < s->ntensors; i++)
        take_global(s, i); /* velocities are 0 */
}

/* mean: M, from the stretch's first element on */
static void take(tg__strategy *s, size_t i, tg__stretch part, const float *mean)
{
    const eager *e = s->impl;
    tg__nesterov_step(&e->outer, 1, 1, tg__strategy_global(s, i) + part.at,
                      s->slot[e->velocity][i] + part.at, mean, part.n);
    tg__kernel()->axpy(s->slot[e->rest][i] + part.at, 1, mean, part.n);
}

/* If a round is not finite on some rank, it is lost, and all ranks restart from A. */
static void result(tg__strategy *s, const tg__result *r)
{
    for (size_t i = 0; i < s->ntensors; i++) {
        const tg__wtensor *x = &s->tensor[i];
        if (x->bucket != r->bucket)
            continue;
        if (r->agg == NULL) {
            tg__strategy_heal(s, 0, i);
            take_global(s, i);
            continue;
        }
        for (tg__stretch p = tg__stretch_first(s, i); p.n > 0; p = tg__stretch_next(s, i, p))
            take(s, i, p, r->agg + x->offset + p.at);
    }
}

/* Compute D of the round so far. */
static void prepare(tg__strategy *s, size_t i, tg__stretch part)
{
    const eager *e = s->impl;
    tg__kernel()->sub_to(s->slot[e->sent][i] + part.at, s->slot[e->own][i] + part.at,
                         s->tensor[i].w + part.at, part.n);
}

/* The outer step along E, which is formed in place of M' - D' / P. Then the share of D is taken off
 * the mean to come. */
static void guess(tg__strategy *s, size_t i, tg__stretch part)
{
    const eager *e = s->impl;
    float *guessed = s->slot[e->rest][i] + part.at, *own = s->slot[e->own][i] + part.at;
    const float *sent = s->slot[e->sent][i] + part.at, share = 1 / (float)s->size;
    tg__kernel()->axpy(guessed, share, sent, part.n);
    tg__nesterov_step(&e->outer, 1, 1, own, s->slot[e->own_velocity][i] + part.at, guessed, part.n);
    memcpy(s->tensor[i].w + part.at, own, part.n * sizeof *own);
    memset(guessed, 0, part.n * sizeof *guessed);
    tg__kernel()->axpy(guessed, -share, sent, part.n);
}

static void step(tg__strategy *s, uint64_t t, bool finite, double lr, tg__actions *out)
{
    const eager *e = s->impl;
    const bool ends = (t + 1) % e->every == 0;
    for (size_t i = 0; i < s->ntensors; i++)
        for (tg__stretch p = tg__stretch_first(s, i); p.n > 0; p = tg__stretch_next(s, i, p)) {
            if (finite)
                tg__strategy_update_own_at(s, 0, i, p, lr, s->tensor[i].w + p.at);
            if (ends)
                prepare(s, i, p);
            if (ends)
                guess(s, i, p);
        }
    if (ends)
        tg__actions_add_slots(s, out, e->sent, t + e->every, 0);
}

static void drained(tg__strategy *s, uint64_t t, tg__actions *out)
{
    const eager *e = s->impl;
    if (t % e->every != 0 && s->drained != t + 1) {
        s->drained = t + 1;
        for (size_t i = 0; i < s->ntensors; i++)
            prepare(s, i, (tg__stretch){0, s->tensor[i].n});
        tg__actions_add_slots(s, out, e->sent, t, 0);
        return;
    }
    for (size_t i = 0; i < s->ntensors; i++)
        take_global(s, i);
}

const tg__strategy_ops tg__strategy_eager = {
    .entry = {"eager",
              "like diloco, without waiting: own changes stand in for the average under way",
              "Kale et al. 2025, arXiv:2502.12996", keys},
    .rate =
        &(const tg_rate_hint){
            .struct_size = sizeof(tg_rate_hint),
            .expect = "its outer momentum overshoots, because means come a round late (LeNet-5, an "
                      "epoch of MNIST, 4 workers: 91 % where ssgd has 98 %, and less in shorter "
                      "rounds); no lower rate helps",
            .instead = "eager:momentum=0, or diloco, which waits for its means (both 98 %)",
            .key = "momentum",
        },
    .tested = "every=3",
    .init = init,
    .begin = begin,
    .result = result,
    .step = step,
    .drained = drained,
    .steps = true,
};
