/* Fused passes: compensate + encode + sent at once. What the feedback forms and what the codec can
 * do decide which. The stepwise path is the specification: frames and state have the same bits
 * (fused_test.c).
 *
 *     feedback forms  the codec has
 *     a sum           settle           the codec's own pass
 *     a sum           encode_formed    one pass: r += g, and the candidates of top-k; then
 *                                      r[idx] -= decoded
 *     the velocity    encode_formed    one pass: u, v and the candidates; then v[idx] -= decoded,
 *                                      u[idx] = 0
 *
 * If r + g (or v) is infinite somewhere, the pass returns TG_E_NONFINITE, and the state is spoilt.
 * A pass never runs twice: what it misses is found by looking at r or v as they are then. */
#include "base/mem.h"
#include "codec/codec_impl.h"
#include "kernel/kernel.h"
#include "method/method.h"

/* Check that all frames will fit before touching anything, so that a failure leaves the state
 * unchanged. */
static tg_status room(const tg_codec *c, const tg__part *parts, size_t nparts)
{
    for (size_t i = 0; i < nparts; i++)
        TG_TRY(tg__part_room(&parts[i], tg__codec_bound(c, parts[i].hi - parts[i].lo)));
    return TG_OK;
}

static tg_status residual(tg__feedback *f, tg_codec *c, const tg_encode_context *ctx,
                          const float *g, size_t n, tg__part *parts, size_t nparts)
{
    TG_TRY(room(c, parts, nparts));
    return c->ops->settle(c, ctx, tg__feedback_pending(f), g, n, parts, nparts);
}

/* ---- codecs that select ---------------------------------------------------------------------- */

/* The vector that a pass forms: r, or v with u. */
typedef struct accumulated {
    tg__source source; /* first member: the selector passes it back */
    float *u, *x;
    const float *g;
    float momentum;
    bool nesterov;
} accumulated;

/* The elements sent are far apart, so they are prefetched. */
enum { AHEAD = 32 };

static void subtract(float *x, const tg__view *view)
{
    for (size_t i = 0; i < view->k; i++) {
        if (i + AHEAD < view->k)
            __builtin_prefetch(&x[view->idx[i + AHEAD]], 1);
        x[view->idx[i]] -= view->val[i];
    }
}

static void clear(float *x, const tg__view *view)
{
    for (size_t i = 0; i < view->k; i++) {
        if (i + AHEAD < view->k)
            __builtin_prefetch(&x[view->idx[i + AHEAD]], 1);
        x[view->idx[i]] = 0;
    }
}

static float residual_peek(const tg__source *s, size_t i)
{
    const accumulated *a = (const accumulated *)s;
    return (a->x[i] + a->g[i]) + s->ahead * a->g[i];
}

static size_t residual_pass(const tg__source *s, size_t begin, size_t m, float threshold,
                            uint32_t *idx, float *val, size_t cap)
{
    const accumulated *a = (const accumulated *)s;
    return tg__kernel()->add_select(a->x + begin, a->g + begin, m, s->ahead, threshold, idx, val,
                                    cap);
}

static size_t residual_again(const tg__source *s, size_t begin, size_t m, float threshold,
                             uint32_t *idx, float *val, size_t cap)
{
    const accumulated *a = (const accumulated *)s;
    return tg__kernel()->ahead_select(a->x + begin, a->g + begin, m, s->ahead, threshold, idx, val,
                                      cap);
}

static float velocity_peek(const tg__source *s, size_t i)
{
    const accumulated *a = (const accumulated *)s;
    const float u =
        a->nesterov ? a->momentum * (a->u[i] + a->g[i]) : a->momentum * a->u[i] + a->g[i];
    const float v = a->nesterov ? (a->x[i] + u) + a->g[i] : a->x[i] + u;
    return v + s->ahead * u;
}

static size_t velocity_pass(const tg__source *s, size_t begin, size_t m, float threshold,
                            uint32_t *idx, float *val, size_t cap)
{
    const accumulated *a = (const accumulated *)s;
    return tg__kernel()->dgc_select(a->u + begin, a->x + begin, a->g + begin, m, a->momentum,
                                    a->nesterov, s->ahead, threshold, idx, val, cap);
}

static size_t velocity_again(const tg__source *s, size_t begin, size_t m, float threshold,
                             uint32_t *idx, float *val, size_t cap)
{
    const accumulated *a = (const accumulated *)s;
    return tg__kernel()->ahead_select(a->x + begin, a->u + begin, m, s->ahead, threshold, idx, val,
                                      cap);
}

static tg_status selecting(tg__feedback *f, tg_codec *c, const tg_encode_context *ctx,
                           const float *g, size_t n, tg__part *parts, size_t nparts)
{
    const bool velocity = f->ops->forms == TG__FORMS_VELOCITY;
    float *x = tg__feedback_pending(f);
    tg__view view;
    accumulated a = {.source = {.x = x,
                                .peek = velocity ? velocity_peek : residual_peek,
                                .pass = velocity ? velocity_pass : residual_pass,
                                .again = velocity ? velocity_again : residual_again},
                     .u = f->vec[0],
                     .x = x,
                     .g = g,
                     .momentum = (float)f->params.momentum,
                     .nesterov = f->params.nesterov};
    TG_TRY(room(c, parts, nparts));
    TG_TRY(c->ops->encode_formed(c, ctx, &a.source, n, parts, nparts, &view));
    subtract(x, &view);
    if (velocity && f->params.masking)
        clear(a.u, &view);
    return TG_OK;
}

tg__fused_fn tg__fused_find(const tg__feedback *f, const tg_codec *c)
{
    const double decay = f->params.decay;
    if (f->params.clip != 0 || (decay > 0 && decay != 1)) /* these rewrite a vector first */
        return NULL;
    if (tg__feedback_filters(f)) /* compensation yields two vectors */
        return NULL;
    if (f->ops->forms != TG__FORMS_OTHERWISE && c->ops->encode_formed)
        return selecting;
    return f->ops->forms == TG__FORMS_SUM && c->ops->settle ? residual : NULL;
}
