/* Averages of updates: each rank's optimizer acts before the exchange, not after it.
 *
 *     d = what the rank's optimizer, with its own memory, would add to 0 at a rate of 1, from
 *         g + wd*w                         (decoupled decay: from g)
 *     w = (1 - lr*wd)*w + lr * mean of d   (coupled decay: w + lr * mean of d)
 *
 * d does not depend on the learning rate, so what a method's memory keeps of it is in the same
 * units as what it keeps of gradients. Momentum is linear, so with SGD, dense exchanges and no clip
 * this is synchronous SGD. Adam is not linear: its second moment here comes from the rank's own
 * gradients, which are complete and on time; coded means are neither.
 *
 * A rank's memory of a bucket takes in every finite gradient, also that of a step which is dropped
 * because of another rank or bucket.
 *
 * With clip, the norm of all of the rank's gradients is needed first, so exchanges begin in step();
 * otherwise as soon as a bucket is complete.
 *
 * Source: Chen et al. 2020 (Quantized Adam with error feedback), arXiv:2004.14180, alg. 2, whose
 * error feedback is here the method's; momentum before the selection: Lin et al. 2018,
 * arXiv:1712.01887, sec. 3.1 */
#include "strategy/strategy.h"
#include "base/mem.h"
#include "kernel/kernel.h"

#include <string.h>

typedef struct updates {
    float *direction; /* d of all buckets, one after the other */
    size_t *start;    /* (nbuckets) where each begins in `direction` */
    float *decayed;   /* (tg__stretch_most) g + wd*w */
} updates;

static tg_status make_directions(tg__strategy *s, updates *u)
{
    size_t all = 0;
    TG_TRY(tg__owned_alloc(&s->owned, s->nbuckets, sizeof *u->start, &u->start));
    for (size_t i = 0; i < s->ntensors; i++)
        all += s->tensor[i].n;
    for (size_t i = 0; i < s->ntensors; i++)
        for (size_t b = s->tensor[i].bucket + 1; b < s->nbuckets; b++)
            u->start[b] += s->tensor[i].n;
    TG_TRY(tg__owned_alloc(&s->owned, all, sizeof *u->direction, &u->direction));
    return tg__owned_room(&s->owned, &u->decayed, tg__stretch_most(s), sizeof *u->decayed);
}

static tg_status init(tg__strategy *s)
{
    updates *u;
    const char *optimizer = tg_spec_name(s->optimizer->spec);
    if (s->external)
        return tg_fail(TG_E_SPEC,
                       "strategy \"updates\" needs an optimizer of the library, whose step it can "
                       "take apart: with an external one use local:every=1");
    if (s->optimizer->ops->whole)
        return tg_fail(TG_E_SPEC,
                       "strategy \"updates\" needs an optimizer whose steps are proportional to "
                       "its rate, not \"%s\": use sgd, adam or adamw, or strategy ssgd",
                       optimizer);
    TG_TRY(tg__owned_alloc(&s->owned, 1, sizeof *u, &u));
    s->impl = u;
    s->sends_updates = s->sends_directions = true;
    TG_TRY(tg__strategy_add_optimizer(s, TG__ROLE_RANK));
    return make_directions(s, u);
}

/* Make d of a stretch: the optimizer steps from 0, so decay that it would add is 0 as well. */
static void direct(tg__strategy *s, size_t i, tg__stretch e)
{
    const updates *u = s->impl;
    const tg__wtensor *x = &s->tensor[i];
    const tg_optimizer *o = tg__strategy_optimizer(s, i);
    const float decay = o->decoupled ? 0 : (float)tg__optimizer_decay(o, x->ndim);
    float *d = u->direction + u->start[x->bucket] + x->offset + e.at;
    const float *g = x->g + e.at;
    if (s->clip != 1 || decay != 0) {
        memcpy(u->decayed, g, e.n * sizeof *g);
        if (s->clip != 1)
            tg__kernel()->scale(u->decayed, s->clip, e.n);
        if (decay != 0)
            tg__kernel()->axpy(u->decayed, decay, x->w + e.at, e.n);
        g = u->decayed;
    }
    memset(d, 0, e.n * sizeof *d);
    tg__strategy_update_at(s, 0, i, e, 1, d, g);
}

/* A gradient that is not finite leaves the optimizer's memory of its bucket as it is. */
static void exchange(tg__strategy *s, uint64_t t, uint32_t bucket, bool finite, tg__actions *out)
{
    const updates *u = s->impl;
    float *d = u->direction + u->start[bucket];
    for (size_t i = 0; i < s->ntensors; i++) {
        const tg__wtensor *x = &s->tensor[i];
        if (x->bucket != bucket)
            continue;
        if (!finite)
            memset(d + x->offset, 0, x->n * sizeof *d);
        for (tg__stretch e = tg__stretch_first(s, i); finite && e.n > 0;
             e = tg__stretch_next(s, i, e))
            direct(s, i, e);
    }
    tg__actions_add(out, bucket, true, t)->buffer = d;
}

static void ready(tg__strategy *s, uint64_t t, uint32_t bucket, tg__actions *out)
{
    if (!s->optimizer->needs_all)
        exchange(s, t, bucket, s->finite, out);
}

static void step(tg__strategy *s, uint64_t t, bool finite, double lr, tg__actions *out)
{
    (void)lr;
    for (uint32_t b = 0; s->optimizer->needs_all && b < s->nbuckets; b++)
        exchange(s, t, b, finite, out);
}

static void result(tg__strategy *s, const tg__result *r)
{
    for (size_t i = 0; i < s->ntensors; i++) {
        const tg__wtensor *x = &s->tensor[i];
        if (x->bucket != r->bucket)
            continue;
        if (r->agg == NULL) {
            tg__strategy_heal(s, 0, i);
            continue;
        }
        const tg_update u = {.lr = r->lr, .ndim = x->ndim};
        const float keep = tg__optimizer_keep(tg__strategy_optimizer(s, i), &u);
        if (keep != 1)
            tg__kernel()->scale(x->w, keep, x->n);
        tg__kernel()->axpy(x->w, (float)r->lr, r->agg + x->offset, x->n);
    }
}

const tg__strategy_ops tg__strategy_updates = {
    .entry =
        {"updates",
         "like ssgd, but each rank's optimizer acts first: updates are averaged, not gradients",
         "Chen et al. 2020, arXiv:2004.14180", NULL},
    .rate = &(const tg_rate_hint){.struct_size = sizeof(tg_rate_hint), .methods = true},
    .init = init,
    .ready = ready,
    .result = result,
    .step = step,
    .by_bucket = true,
};
