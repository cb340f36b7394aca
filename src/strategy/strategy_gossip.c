/* Stochastic gradient push: a rank sends half of its mass to one other rank, and adds what a third
 * one sent.
 *
 *     x    this rank's mass, m its weight; z = x / m are its parameters; at first x = z, m = 1
 *     steps c = 0, 1, ... since the last mean:
 *         z' = optimizer(z, own g),  x = x + (z' - z)
 *         if c is a multiple of `overlap` (of 1, if that is 0):
 *             x = x / 2, m = m / 2;  x is sent to the rank 2^k ahead, k = 0, 1, ... in turn while
 *             2^k < P;  it arrives `overlap` steps later:  x = x + that, m = m + its weight
 *             (overlap > 0: before the next is sent, so that one is in flight at a time)
 *         z = x / m
 *     every `mean` steps, in place of a push:
 *         A = mean of x (m is 1),  x = z = A
 *
 * In this graph a rank sends to as many ranks as it receives from, so m is the same on all ranks
 * and need not be sent: 1/2 while a push is in flight, otherwise 1. All pushes arrive before a
 * mean. A, the slot "global", is the same on all ranks; evaluation, checkpoints and hashes use it.
 *
 * If a push is not finite, the receiver uses its own mass in its place, and the sender returns to
 * A. A mean that is not finite is lost, and all ranks return to the last one.
 *
 * Source: SGP, overlap: Assran et al. 2019, arXiv:1811.10792
 *         a mean now and then: Chen et al. 2021, arXiv:2105.09080 */
#include "strategy/strategy.h"
#include "base/mem.h"
#include "kernel/kernel.h"
#include "strategy/optimizers.h"

#include <math.h>
#include <string.h>

enum { OF_MEAN = 0, OF_PUSH = 1 }; /* tags */

typedef struct gossip {
    uint64_t overlap, mean;
    size_t mass, sent; /* slots; mass: overlap > 0 */
    int hops;          /* ceil(log2 P) */
} gossip;

static const tg_key keys[] = {
    TG__KEY(
        INT, "overlap", "0", 0, 1e6,
        "what is sent is added this many steps later, when the next is sent; 0: in the same step"),
    TG__DURATION("mean", "50", "steps or epochs (1ep) between two exact averages over all ranks"),
    {.name = NULL}};

/* ---- when ------------------------------------------------------------------------------------ */

/* Steps since the last mean, at step t. Means are due at multiples of g->mean; a drain restarts the
 * count. */
static uint64_t since_mean(const tg__strategy *s, uint64_t t)
{
    const gossip *g = s->impl;
    const uint64_t multiple = t / g->mean * g->mean;
    return t - (s->anew > multiple ? s->anew : multiple);
}

static bool is_mean(const tg__strategy *s, uint64_t t)
{
    const gossip *g = s->impl;
    return (t + 1) % g->mean == 0;
}

/* The step before whose step() the push of step t is delivered: all arrive before a mean. */
static uint64_t due(const tg__strategy *s, uint64_t t)
{
    const gossip *g = s->impl;
    const uint64_t mean = (t / g->mean + 1) * g->mean - 1;
    return t + g->overlap < mean ? t + g->overlap : mean;
}

/* ---- creating -------------------------------------------------------------------------------- */

static tg_status add_slots(tg__strategy *s, gossip *g)
{
    TG_TRY(tg__strategy_add_optimizer(s, TG__ROLE_RANK));
    TG_TRY(tg__strategy_add_global(s));
    if (g->overlap > 0)
        TG_TRY(tg__strategy_add_slot(s, "mass", TG__ROLE_RANK, &g->mass));
    TG_TRY(tg__strategy_add_slot(s, "sent", TG__ROLE_RANK, &g->sent));
    return TG_OK;
}

static tg_status init(tg__strategy *s)
{
    gossip *g;
    uint64_t mean;
    TG_TRY(tg_duration_steps(tg_spec_duration(s->spec, "mean"), s->steps_per_epoch, "mean", &mean));
    if (mean == 0)
        return tg_fail(TG_E_SPEC, "strategy \"%s\": mean=0: allowed: at least 1 step",
                       tg_spec_name(s->spec));
    TG_TRY(tg__owned_alloc(&s->owned, 1, sizeof *g, &s->impl));
    g = s->impl;
    g->mean = mean;
    g->overlap = (uint64_t)tg_spec_int(s->spec, "overlap");
    for (g->hops = 0; 1 << g->hops < s->size; g->hops++)
        ;
    s->sends_updates = s->needs_mean = s->pushes = true;
    s->tags = 2;
    return add_slots(s, g);
}

/* ---- state ----------------------------------------------------------------------------------- */

static float *mass_of(const tg__strategy *s, size_t i)
{
    const gossip *g = s->impl;
    return g->overlap > 0 ? s->slot[g->mass][i] : s->tensor[i].w;
}

static void copy(float *dst, const float *src, size_t n)
{
    if (dst != src)
        memcpy(dst, src, n * sizeof *dst);
}

/* x = z = the last mean */
static void take_global(tg__strategy *s, size_t i)
{
    tg__strategy_take_global(s, i);
    copy(mass_of(s, i), s->tensor[i].w, s->tensor[i].n);
}

static void begin(tg__strategy *s)
{
    for (size_t i = 0; i < s->ntensors; i++)
        take_global(s, i);
}

/* ---- results --------------------------------------------------------------------------------- */

static bool is_finite(const float *x, size_t n)
{
    tg__stats stats;
    tg__kernel()->copy_stats(NULL, x, n, &stats);
    return stats.finite;
}

static void go_back(tg__strategy *s, size_t i)
{
    tg__strategy_heal(s, 0, i);
    take_global(s, i);
}

static void take_mean(tg__strategy *s, size_t i, const float *mean)
{
    for (tg__stretch e = tg__stretch_first(s, i); e.n > 0; e = tg__stretch_next(s, i, e)) {
        copy(tg__strategy_global(s, i) + e.at, mean + e.at, e.n);
        copy(s->tensor[i].w + e.at, mean + e.at, e.n);
        copy(mass_of(s, i) + e.at, s->tensor[i].w + e.at, e.n);
    }
}

static void take(tg__strategy *s, size_t i, const tg__result *r)
{
    const gossip *g = s->impl;
    const tg__wtensor *x = &s->tensor[i];
    const float *agg = r->agg == NULL ? NULL : r->agg + x->offset, *own = s->slot[g->sent][i];
    if (r->tag == OF_PUSH && agg == NULL && !is_finite(own, x->n)) {
        go_back(s, i);
    } else if (r->tag == OF_PUSH) {
        tg__kernel()->add(mass_of(s, i), agg == NULL ? own : agg, x->n);
    } else if (agg == NULL) {
        go_back(s, i);
    } else {
        take_mean(s, i, agg);
    }
}

static void result(tg__strategy *s, const tg__result *r)
{
    for (size_t i = 0; i < s->ntensors; i++)
        if (s->tensor[i].bucket == r->bucket)
            take(s, i, r);
}

/* ---- exchanges ------------------------------------------------------------------------------- */

/* x = x - z, before the own step */
static void set_out(tg__strategy *s, size_t i, tg__stretch e)
{
    float *w = s->tensor[i].w + e.at, *mass = mass_of(s, i) + e.at;
    if (mass != w)
        tg__kernel()->sub(mass, w, e.n);
}

static void open(tg__strategy *s, uint64_t t)
{
    (void)t;
    for (size_t i = 0; i < s->ntensors; i++)
        set_out(s, i, (tg__stretch){0, s->tensor[i].n});
}

/* z' = optimizer(z, own g), x = x + (z' - z). z' is in w. */
static void update(tg__strategy *s, size_t i, tg__stretch e, double lr)
{
    float *w = s->tensor[i].w + e.at, *mass = mass_of(s, i) + e.at;
    if (!s->external)
        set_out(s, i, e);
    tg__strategy_update_own_at(s, 0, i, e, lr, w);
    if (mass != w)
        tg__kernel()->add(mass, w, e.n);
}

/* Prepare `sent` for a mean. */
static void lay_out(tg__strategy *s, size_t i, tg__stretch e)
{
    const gossip *g = s->impl;
    copy(s->slot[g->sent][i] + e.at, mass_of(s, i) + e.at, e.n);
}

/* Put half of x into `sent`, and keep half. */
static void halve(tg__strategy *s, size_t i, tg__stretch e)
{
    const gossip *g = s->impl;
    float *mass = mass_of(s, i) + e.at;
    tg__kernel()->scale(mass, 0.5f, e.n);
    copy(s->slot[g->sent][i] + e.at, mass, e.n);
}

/* Push what halve() has put into `sent`. */
static void push(tg__strategy *s, uint64_t t, uint64_t number, tg__actions *out)
{
    const gossip *g = s->impl;
    for (uint32_t b = 0; b < s->nbuckets; b++) {
        tg__action *a = tg__actions_add_slot(s, out, b, g->sent, due(s, t), OF_PUSH);
        a->coded = false;
        a->hop = 1 << number % (uint64_t)g->hops;
    }
}

/* z = x / (1/2): a push is in flight. */
static void unbias(tg__strategy *s, size_t i, tg__stretch e)
{
    float *w = s->tensor[i].w + e.at;
    copy(w, mass_of(s, i) + e.at, e.n);
    tg__kernel()->scale(w, 2, e.n);
}

static void step(tg__strategy *s, uint64_t t, bool finite, double lr, tg__actions *out)
{
    const gossip *g = s->impl;
    const uint64_t c = since_mean(s, t), every = g->overlap > 0 ? g->overlap : 1;
    const bool pushes = !is_mean(s, t) && s->size > 1 && c % every == 0;
    const bool biased = !is_mean(s, t) && s->size > 1 && g->overlap > 0;
    for (size_t i = 0; i < s->ntensors; i++)
        for (tg__stretch e = tg__stretch_first(s, i); e.n > 0; e = tg__stretch_next(s, i, e)) {
            if (finite)
                update(s, i, e, lr);
            if (is_mean(s, t))
                lay_out(s, i, e);
            if (pushes)
                halve(s, i, e);
            if (biased)
                unbias(s, i, e);
        }
    if (is_mean(s, t))
        tg__actions_add_slots(s, out, g->sent, t, OF_MEAN);
    else if (pushes)
        push(s, t, c / every, out);
}

/* All pushes have arrived, so m is 1. The order of receivers starts again. */
static const char *regroup(tg__strategy *s, uint64_t t)
{
    for (size_t i = 0; i < s->ntensors; i++)
        copy(s->tensor[i].w, mass_of(s, i), s->tensor[i].n);
    s->anew = t;
    return NULL;
}

/* All pushes have arrived. */
static void drained(tg__strategy *s, uint64_t t, tg__actions *out)
{
    const gossip *g = s->impl;
    if (s->drained != t + 1 && t % g->mean != 0) {
        for (size_t i = 0; i < s->ntensors; i++)
            lay_out(s, i, (tg__stretch){0, s->tensor[i].n});
        tg__actions_add_slots(s, out, g->sent, t, OF_MEAN);
    }
    s->drained = t + 1;
    s->anew = t;
    for (size_t i = 0; out->count == 0 && i < s->ntensors; i++)
        take_global(s, i);
}

const tg__strategy_ops tg__strategy_gossip = {
    .entry = {"gossip", "local steps; each sends half of the parameters to one other rank",
              "Assran et al. 2019, arXiv:1811.10792", keys},
    .tested = "mean=4",
    .init = init,
    .begin = begin,
    .result = result,
    .open = open,
    .step = step,
    .drained = drained,
    .regroup = regroup,
    .steps = true,
    .bypasses = true,
};
