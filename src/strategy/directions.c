#include "strategy/directions.h"
#include "base/mem.h"
#include "kernel/kernel.h"

#include <string.h>

tg_status tg__directions_init(tg__strategy *s, tg__directions *d, const char *instead)
{
    size_t all = 0;
    if (s->optimizer->ops->whole)
        return tg_fail(
            TG_E_SPEC,
            "strategy \"%s\" averages updates, for which it needs an optimizer whose "
            "steps are proportional to its rate, not \"%s\": use sgd, adam or adamw, or %s",
            tg_spec_name(s->spec), tg_spec_name(s->optimizer->spec), instead);
    s->sends_updates = s->sends_directions = true;
    TG_TRY(tg__strategy_add_optimizer(s, TG__ROLE_RANK));
    TG_TRY(tg__owned_alloc(&s->owned, s->nbuckets, sizeof *d->start, &d->start));
    for (size_t i = 0; i < s->ntensors; i++)
        all += s->tensor[i].n;
    for (size_t i = 0; i < s->ntensors; i++)
        for (size_t b = s->tensor[i].bucket + 1; b < s->nbuckets; b++)
            d->start[b] += s->tensor[i].n;
    TG_TRY(tg__owned_alloc(&s->owned, all, sizeof *d->all, &d->all));
    return tg__owned_room(&s->owned, &d->decayed, tg__stretch_most(s), sizeof *d->decayed);
}

static float *place(const tg__strategy *s, const tg__directions *d, size_t i)
{
    return d->all + d->start[s->tensor[i].bucket] + s->tensor[i].offset;
}

const float *tg__directions_of(const tg__strategy *s, const tg__directions *d, size_t i)
{
    return place(s, d, i);
}

const float *tg__directions_of_bucket(const tg__directions *d, uint32_t bucket)
{
    return d->all + d->start[bucket];
}

/* The optimizer steps from 0, so decay that it would add is 0 as well. */
void tg__directions_make(tg__strategy *s, const tg__directions *d, size_t i, tg__stretch e,
                         bool finite)
{
    const tg__wtensor *x = &s->tensor[i];
    const tg_optimizer *o = tg__strategy_optimizer(s, i);
    const float decay = o->decoupled ? 0 : (float)tg__optimizer_decay(o, x->ndim);
    float *to = place(s, d, i) + e.at;
    const float *g = x->g + e.at;
    memset(to, 0, e.n * sizeof *to);
    if (!finite)
        return;
    if (s->clip != 1 || decay != 0) {
        memcpy(d->decayed, g, e.n * sizeof *g);
        if (s->clip != 1)
            tg__kernel()->scale(d->decayed, s->clip, e.n);
        if (decay != 0)
            tg__kernel()->axpy(d->decayed, decay, x->w + e.at, e.n);
        g = d->decayed;
    }
    tg__strategy_update_at(s, 0, i, e, 1, to, g);
}

void tg__directions_make_bucket(tg__strategy *s, const tg__directions *d, uint32_t bucket,
                                bool finite)
{
    for (size_t i = 0; i < s->ntensors; i++)
        if (s->tensor[i].bucket == bucket)
            for (tg__stretch e = tg__stretch_first(s, i); e.n > 0; e = tg__stretch_next(s, i, e))
                tg__directions_make(s, d, i, e, finite);
}

void tg__directions_apply(const tg__strategy *s, size_t i, tg__stretch e, double lr, float *w,
                          const float *d)
{
    const tg_update u = {.lr = lr, .ndim = s->tensor[i].ndim};
    const float keep = tg__optimizer_keep(tg__strategy_optimizer(s, i), &u);
    if (keep != 1)
        tg__kernel()->scale(w, keep, e.n);
    tg__kernel()->axpy(w, (float)lr, d, e.n);
}

void tg__directions_result(tg__strategy *s, const tg__result *r)
{
    for (size_t i = 0; i < s->ntensors; i++) {
        const tg__wtensor *x = &s->tensor[i];
        if (x->bucket != r->bucket)
            continue;
        if (r->agg == NULL)
            tg__strategy_heal(s, 0, i);
        else
            tg__directions_apply(s, i, (tg__stretch){0, x->n}, r->lr, tg__strategy_global(s, i),
                                 r->agg + x->offset);
    }
}
