/* Stochastic gradient push: in each step a rank hands half of what it has to one other rank, and
 * takes in what a third one sent.
 *
 *     x    this rank's mass, m its weight; z = x / m are its parameters; x = z, m = 1 to begin with
 *     every `mean` steps:  z' = optimizer(z, own g),  x = x + (z' - z)
 *                          A = mean of x (m is 1), x = z = A;  the c of other steps begin at 0
 *     other steps, c = 0, 1, ..:
 *         z' = optimizer(z, own g),  x = x + (z' - z)
 *         x = x / 2, m = m / 2;  x is sent to the rank 2^(c mod ceil(log2 P)) further
 *         what was sent `overlap` steps ago comes in:  x = x + that, m = m + its weight
 *         (overlap > 0: before the next optimizer's step)
 *         z = x / m
 *
 * In this graph a rank sends to as many as it receives from, so m is the same on all ranks: a
 * number that follows from c, which need not be sent. It is a dyadic fraction, 1 where nothing is
 * under way; all pushes come in before a mean. A, the slot "global", is the same on all ranks: what
 * evaluation, checkpoints and hashes use. A push that some rank could not make counts as if the
 * receiver's own had come; a mean that is not finite is lost, and all go back to the last one.
 *
 * Source: SGP, overlap: Assran et al. 2019, arXiv:1811.10792
 *         a mean now and then: Chen et al. 2021, arXiv:2105.09080 */
#include "strategy/strategy.h"
#include "base/mem.h"
#include "kernel/kernel.h"
#include "strategy/optimizers.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { OF_MEAN = 0, OF_PUSH = 1, OVERLAP_MAX = 64 }; /* tags; OF_PUSH + number of the slot */

typedef struct gossip {
    uint64_t overlap, mean;
    size_t nsent;                           /* slots of pushes under way */
    size_t global, mass, sent[OVERLAP_MAX]; /* mass: overlap > 0 */
    char name[OVERLAP_MAX][32];
    int hops; /* ceil(log2 P) */
} gossip;

static const tg_key keys[] = {{.name = "overlap",
                               .type = TG_KEY_INT,
                               .def = "0",
                               .max = OVERLAP_MAX,
                               .help = "what is sent comes in so many steps later"},
                              {.name = "mean",
                               .type = TG_KEY_DURATION,
                               .def = "50",
                               .max = INFINITY,
                               .help = "steps from one exact mean over all ranks to the next"},
                              {.name = NULL}};

/* ---- when ------------------------------------------------------------------------------------ */

/* Steps since the last mean, of step t: means are due at multiples, a drain begins anew. */
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

/* The step whose step() finds the push of step t delivered: all come in before a mean. */
static uint64_t due(const tg__strategy *s, uint64_t t)
{
    const gossip *g = s->impl;
    const uint64_t mean = (t / g->mean + 1) * g->mean - 1;
    return t + g->overlap < mean ? t + g->overlap : mean;
}

/* m after the push of step c since the last mean. With the pushes of the last `overlap` steps under
 * way: half goes out each step, and comes back `overlap` steps later. */
static float weight_after(const gossip *g, uint64_t c)
{
    double m = 1, sent[OVERLAP_MAX] = {0};
    for (uint64_t i = 0; i <= c && g->nsent > 0; i++) {
        m = (m + sent[i % g->nsent]) / 2;
        sent[i % g->nsent] = m;
    }
    return (float)(g->overlap == 0 ? 1 : m);
}

/* ---- making one ------------------------------------------------------------------------------ */

static tg_status add_slots(tg__strategy *s, gossip *g)
{
    TG_TRY(tg__strategy_add_optimizer(s, TG__ROLE_RANK));
    TG_TRY(tg__strategy_add_slot(s, "global", TG__ROLE_REPLICATED, &g->global));
    if (g->overlap > 0)
        TG_TRY(tg__strategy_add_slot(s, "mass", TG__ROLE_RANK, &g->mass));
    for (size_t i = 0; i < g->nsent; i++) {
        snprintf(g->name[i], sizeof g->name[i], "sent %zu", i);
        TG_TRY(tg__strategy_add_slot(s, g->name[i], TG__ROLE_RANK, &g->sent[i]));
    }
    return TG_OK;
}

static void fini(tg__strategy *s)
{
    free(s->impl);
}

static tg_status init(tg__strategy *s)
{
    gossip *g;
    uint64_t mean;
    TG_TRY(tg_duration_steps(tg_spec_duration(s->spec, "mean"), s->steps_per_epoch, "mean", &mean));
    if (mean == 0)
        return tg_fail(TG_E_SPEC, "strategy \"%s\": mean=0: allowed: at least 1 step",
                       tg_spec_name(s->spec));
    TG_TRY(tg__alloc(1, sizeof *g, &g));
    s->impl = g;
    g->mean = mean;
    g->overlap = (uint64_t)tg_spec_int(s->spec, "overlap");
    g->nsent = g->overlap > 0 ? (size_t)g->overlap : 1;
    for (g->hops = 0; 1 << g->hops < s->size; g->hops++)
        ;
    s->sends_updates = s->needs_mean = s->pushes = true;
    s->in_flight = g->nsent;
    s->tags = OF_PUSH + (uint32_t)g->nsent;
    tg_status status = add_slots(s, g);
    if (status != TG_OK)
        fini(s);
    return status;
}

/* ---- what it holds --------------------------------------------------------------------------- */

static float *global_of(const tg__strategy *s, size_t i)
{
    const gossip *g = s->impl;
    return s->slot[g->global][i];
}

static const float *global(const tg__strategy *s, size_t i)
{
    return global_of(s, i);
}

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
    const tg__wtensor *x = &s->tensor[i];
    copy(x->w, global_of(s, i), x->n);
    copy(mass_of(s, i), x->w, x->n);
}

static void begin(tg__strategy *s)
{
    for (size_t i = 0; i < s->ntensors; i++) {
        copy(global_of(s, i), s->tensor[i].w, s->tensor[i].n);
        take_global(s, i);
    }
}

/* ---- what comes ------------------------------------------------------------------------------ */

static void ready(tg__strategy *s, uint64_t t, uint32_t bucket, tg__actions *out)
{
    (void)s;
    (void)t;
    (void)bucket;
    (void)out;
}

static void take(tg__strategy *s, size_t i, const tg__result *r)
{
    const gossip *g = s->impl;
    const tg__wtensor *x = &s->tensor[i];
    const float *agg = r->agg == NULL ? NULL : r->agg + x->offset;
    if (r->tag != OF_MEAN) {
        const float *own = s->slot[g->sent[r->tag - OF_PUSH]][i];
        tg__kernel()->add(mass_of(s, i), agg == NULL ? own : agg, x->n);
        return;
    }
    if (agg != NULL)
        copy(global_of(s, i), agg, x->n);
    else
        tg__strategy_heal(s, 0, i);
    take_global(s, i);
}

static void result(tg__strategy *s, const tg__result *r)
{
    for (size_t i = 0; i < s->ntensors; i++)
        if (s->tensor[i].bucket == r->bucket)
            take(s, i, r);
}

/* ---- what goes ------------------------------------------------------------------------------- */

/* z' = optimizer(z, own g), x = x + (z' - z): z' stands in w. */
static void update(tg__strategy *s, size_t i, double lr)
{
    const tg__wtensor *x = &s->tensor[i];
    float *mass = mass_of(s, i);
    if (mass != x->w)
        tg__kernel()->sub(mass, x->w, x->n);
    tg__strategy_update_own(s, 0, i, lr, x->w);
    if (mass != x->w)
        tg__kernel()->add(mass, x->w, x->n);
}

static void send_mean(tg__strategy *s, uint64_t t, tg__actions *out)
{
    const gossip *g = s->impl;
    for (size_t i = 0; i < s->ntensors; i++)
        copy(s->slot[g->sent[0]][i], mass_of(s, i), s->tensor[i].n);
    for (uint32_t b = 0; b < s->nbuckets; b++)
        tg__actions_add_slot(s, out, b, g->sent[0], t, OF_MEAN);
}

/* Half of x goes out, half stays. */
static void push(tg__strategy *s, uint64_t t, tg__actions *out)
{
    const gossip *g = s->impl;
    const uint64_t c = since_mean(s, t);
    const size_t at = (size_t)(c % g->nsent);
    const float weight = weight_after(g, c);
    for (size_t i = 0; i < s->ntensors; i++) {
        const tg__wtensor *x = &s->tensor[i];
        float *mass = mass_of(s, i);
        tg__kernel()->scale(mass, 0.5f, x->n);
        copy(s->slot[g->sent[at]][i], mass, x->n);
        if (mass == x->w)
            continue;
        copy(x->w, mass, x->n);
        tg__kernel()->scale(x->w, 1 / weight, x->n);
    }
    for (uint32_t b = 0; b < s->nbuckets; b++) {
        tg__actions_add_slot(s, out, b, g->sent[at], due(s, t), OF_PUSH + (uint32_t)at);
        out->item[out->count - 1].coded = false;
        out->item[out->count - 1].hop = 1 << c % (uint64_t)g->hops;
    }
}

static void step(tg__strategy *s, uint64_t t, bool finite, double lr, tg__actions *out)
{
    for (size_t i = 0; finite && i < s->ntensors; i++)
        update(s, i, lr);
    if (is_mean(s, t))
        send_mean(s, t, out);
    else if (s->size > 1)
        push(s, t, out);
}

/* All pushes are in. */
static void drained(tg__strategy *s, uint64_t t, tg__actions *out)
{
    if (s->drained != t + 1 && since_mean(s, t) != 0)
        send_mean(s, t, out);
    s->drained = t + 1;
    s->anew = t;
    for (size_t i = 0; out->count == 0 && i < s->ntensors; i++)
        take_global(s, i);
}

const tg__strategy_ops tg__strategy_gossip = {
    .entry = {"gossip", "own steps; half of the parameters goes to one other rank in each",
              "Assran et al. 2019, arXiv:1811.10792", keys},
    .init = init,
    .fini = fini,
    .begin = begin,
    .ready = ready,
    .result = result,
    .step = step,
    .drained = drained,
    .global = global,
    .steps = true,
    .bypasses = true,
};
