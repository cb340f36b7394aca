/* Error feedback: p = r + g, send C(p), r = p - D(C(p)); with a decay: p = decay * r + g.
 *
 * r is the accumulator: compensate adds g to it in place and p is r itself, so a step costs one
 * pass over the vector and the sparse `sent` touches k elements only. Sum of all that was sent
 * plus r is the sum of the gradients: exactly on dyadic data, for every codec. A decay forgets what
 * has waited long.
 *
 * Source: Seide et al. 2014; Aji and Heafield 2017, arXiv:1704.05021, alg. 1; decay: Peng et al.
 * 2024, arXiv:2411.19870, alg. 1 */
#include "feedback/feedback.h"
#include "kernel/parallel.h"

enum { R };

static bool compensate(tg__feedback *f, const float *g, size_t n, float *scratch, const float **p_p)
{
    (void)scratch;
    *p_p = f->vec[R];
    if (f->params.decay > 0 && f->params.decay != 1)
        return tg__parallel_scale_add_finite(f->pool, f->vec[R], (float)f->params.decay, g, n);
    return tg__parallel_add_finite(f->pool, f->vec[R], g, n);
}

static void sent(tg__feedback *f, const float *p, size_t n, const uint32_t *idx, const float *val,
                 size_t k)
{
    (void)p; /* is r */
    float *r = f->vec[R];
    if (!idx) {
        tg__parallel_sub(f->pool, r, val, n);
        return;
    }
    for (size_t i = 0; i < k; i++)
        r[idx[i]] -= val[i];
}

/* A dense step sends g alone: r is neither added nor cleared (CD-SGD). */
static bool bypass(tg__feedback *f, const float *g, size_t n, float *scratch, const float **p_p)
{
    (void)f;
    (void)n;
    (void)scratch;
    *p_p = g;
    return true;
}

const tg__feedback_ops tg__feedback_residual = {
    .entry = {"residual", "what was not sent is added to the next gradient",
              "Seide et al. 2014, Interspeech", NULL},
    .vectors = 1,
    .names = {"residual"},
    .pending = R,
    .compensate = compensate,
    .sent = sent,
    .bypass = bypass,
};
