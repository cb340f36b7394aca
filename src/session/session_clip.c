/* Clipping by the global norm: g * min(1, clip / (|g| + 1e-6)), where g is the averaged gradient
 * of all trained tensors together.
 *
 * The norm is the root of the tensors' sums of squares. Each sum is f64 in the kernels' fixed
 * order; they are added in the order of the tensors. All ranks get the same norm, whatever the
 * buckets are.
 *
 * Source: Pascanu et al. 2013, arXiv:1211.5063, sec. 3.2, in the form of PyTorch's
 * clip_grad_norm_ */
#include "session/session_impl.h"
#include "base/mem.h"
#include "kernel/parallel.h"

#include <math.h>
#include <string.h>

tg_status tg__session_clip_make(tg_session *s)
{
    size_t most = 0;
    for (size_t b = 0; b < s->nbuckets; b++)
        most = TG__MAX(most, s->bucket[b].n);
    s->clip_factor = 1;
    return s->optimizer->clip > 0 ? tg__owned_alloc(&s->owned, most, sizeof(float), &s->clipped)
                                  : TG_OK;
}

const float *tg__session_aggregate(const tg_session *s, const lane_op *o)
{
    const bucket *b = &s->bucket[o->bucket];
    return o->loaded ? o->inbox : b->method->def->program->aggregate(b->method, &o->op.task);
}

/* The exchange of bucket b that delivers step of_step; NULL: none is waiting. */
static const lane_op *brings(const tg_session *s, size_t b, uint64_t of_step)
{
    for (size_t l = 0; l < s->lanes; l++)
        if (s->bucket[b].lane[l].waiting && s->bucket[b].lane[l].op.task.step == of_step &&
            !s->bucket[b].lane[l].update)
            return &s->bucket[b].lane[l];
    return NULL;
}

/* The clipping factor for a gradient of this norm. */
static float factor_of(const tg_session *s, double norm)
{
    const double factor = s->optimizer->clip / (norm + 1e-6);
    return factor < 1 ? (float)factor : 1; /* also if the mean overflowed */
}

/* If both the mean and the own gradient are clipped, report the mean. */
static void tell(tg_session *s, double norm)
{
    if (s->since.mean_norm != 0)
        return;
    s->since.mean_norm = norm;
    s->since.clipped = s->optimizer->clip / (norm + 1e-6) < 1;
}

void tg__session_clip_measure(tg_session *s, uint64_t of_step)
{
    double sum = 0;
    bool any = false;
    s->clip_factor = 1;
    if (!(s->optimizer->clip > 0))
        return;
    for (size_t i = 0; i < s->ntrained; i++) {
        const tensor *t = &s->tensor[s->trained[i]];
        const lane_op *o = brings(s, t->bucket, of_step);
        tg__stats stats = {0};
        if (o != NULL)
            tg__parallel_copy_stats(s->pool, NULL, tg__session_aggregate(s, o) + t->offset, t->n,
                                    &stats);
        any = any || o != NULL;
        sum += stats.sum_sq;
    }
    if (!any)
        return;
    s->clip_factor = factor_of(s, sqrt(sum));
    tell(s, sqrt(sum));
}

void tg__session_clip_own(tg_session *s, double norm)
{
    s->strategy->clip = s->strategy->clipped != NULL ? factor_of(s, norm) : 1;
}

void tg__session_clip_own_told(tg_session *s, double norm)
{
    if (s->strategy->clipped != NULL)
        tell(s, norm);
}

const float *tg__session_clip(tg_session *s, const float *aggregate, size_t n)
{
    if (s->clip_factor == 1)
        return aggregate;
    tg__parallel_copy(s->pool, s->clipped, aggregate, n);
    tg__kernel()->scale(s->clipped, s->clip_factor, n);
    return s->clipped;
}
