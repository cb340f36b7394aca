/* Error feedback: p = r + g, send C(p), r = p - D(C(p)); with a decay: p = decay * r + g; with a
 * low-pass filter: r = (1 - beta) * r + beta * (p - D(C(p))).
 *
 * r is the accumulator: compensate adds g to it in place and p is r itself, so a step costs one
 * pass over the vector, and the sparse `sent` touches k elements only. The sum of everything sent
 * plus r is the sum of the gradients: exactly on dyadic data, for every codec. A decay reduces what
 * has waited long.
 *
 * The filter computes r = r + beta * (g - D(C(p))): one pass forms p, which is scratch in this
 * case, and r as if nothing were sent; `sent` then subtracts beta * D(C(p)). The sum of everything
 * sent plus r / beta is the sum of the gradients. With beta = 1 the bits are those of the plain
 * residual. The filter has no decay.
 *
 * Source: Seide et al. 2014; Aji and Heafield 2017, arXiv:1704.05021, alg. 1; decay: Peng et al.
 * 2024, arXiv:2411.19870, alg. 1; filter: Chen et al. 2020, arXiv:2104.11125, eq. 5 */
#include "feedback/feedback.h"
#include "kernel/parallel.h"

enum { R };

static bool compensate(tg__feedback *f, const float *g, size_t n, float *scratch, const float **p_p)
{
    *p_p = f->vec[R];
    if (tg__feedback_filters(f)) {
        *p_p = scratch;
        return tg__parallel_filter_finite(f->pool, scratch, f->vec[R], tg__feedback_share(f), g, n);
    }
    if (f->params.decay > 0 && f->params.decay != 1)
        return tg__parallel_scale_add_finite(f->pool, f->vec[R], (float)f->params.decay, g, n);
    return tg__parallel_add_finite(f->pool, f->vec[R], g, n);
}

static void sent(tg__feedback *f, const float *p, size_t n, const uint32_t *idx, const float *val,
                 size_t k)
{
    (void)p;
    float *r = f->vec[R];
    const float share = tg__feedback_share(f);
    if (idx)
        for (size_t i = 0; i < k; i++)
            r[idx[i]] -= share * val[i];
    else if (tg__feedback_filters(f))
        tg__kernel()->axpy(r, -share, val, n);
    else
        tg__parallel_sub(f->pool, r, val, n);
}

/* A dense step sends only g: r is neither added nor cleared (CD-SGD). */
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
    .forms = TG__FORMS_SUM,
    .compensate = compensate,
    .sent = sent,
    .bypass = bypass,
};
