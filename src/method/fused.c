/* Fused passes: compensate + encode + sent at once, for pairs (feedback, codec). The stepwise path
 * is the specification: frames and state have the same bits (fused_test.c).
 *
 *     residual, topk     one pass: r += g, and the candidates of top-k; then r[idx] -= decoded
 *     velocity, topk     one pass: u, v and the candidates; then v[idx] -= decoded, u[idx] = 0
 *     residual, twobit   one pass: r += g, the codes of r, r -= decoded
 *     residual, int8     the same, bucket by bucket
 *     residual, qsgd     the same, bucket by bucket
 *     residual, sign     row by row: r += g, mean |r| and the signs; r -= decoded while cached
 *     residual, onebit   some columns at a time: r += g and their sums; r -= decoded while cached
 *
 * If r + g (or v) is infinite somewhere, the pass returns TG_E_NONFINITE, and the state is spoilt.
 * A pass never runs twice: what it misses is found by looking at r or v as they are then. */
#include "base/mem.h"
#include "codec/sign/codec_onebit.h"
#include "codec/sign/codec_sign.h"
#include "codec/sparse/codec_strom.h"
#include "codec/sparse/codec_topk.h"
#include "codec/quant/codec_twobit.h"
#include "codec/quant/quant.h"
#include "kernel/kernel.h"
#include "method/method.h"
#include <string.h>

/* Check that all frames will fit before touching anything, so that a failure leaves the state
 * unchanged. */
static tg_status room(const tg_codec *c, const tg__part *parts, size_t nparts)
{
    for (size_t i = 0; i < nparts; i++)
        TG_TRY(tg__part_room(&parts[i], tg__codec_bound(c, parts[i].hi - parts[i].lo)));
    return TG_OK;
}

/* ---- top-k ----------------------------------------------------------------------------------- */

/* The vector that a pass forms: r, or v with u. */
typedef struct accumulated {
    tg__topk_source source; /* first member: the selector passes it back */
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

static float residual_peek(const tg__topk_source *s, size_t i)
{
    const accumulated *a = (const accumulated *)s;
    return a->x[i] + a->g[i];
}

static size_t residual_pass(const tg__topk_source *s, size_t begin, size_t m, float threshold,
                            uint32_t *idx, float *val, size_t cap)
{
    const accumulated *a = (const accumulated *)s;
    return tg__kernel()->add_select(a->x + begin, a->g + begin, m, threshold, idx, val, cap);
}

static tg_status residual_topk(tg__feedback *f, tg_codec *c, const tg_encode_context *ctx,
                               const float *g, size_t n, tg__part *parts, size_t nparts)
{
    tg__view view;
    float *r = tg__feedback_pending(f);
    accumulated a = {
        .source = {.x = r, .peek = residual_peek, .pass = residual_pass}, .x = r, .g = g};
    TG_TRY(room(c, parts, nparts));
    TG_TRY(tg__topk_begin(c, ctx, n));
    TG_TRY(tg__topk_encode(c, ctx, &a.source, n, parts, nparts, &view));
    subtract(a.x, &view);
    return TG_OK;
}

static float velocity_peek(const tg__topk_source *s, size_t i)
{
    const accumulated *a = (const accumulated *)s;
    if (a->nesterov)
        return (a->x[i] + a->momentum * (a->u[i] + a->g[i])) + a->g[i];
    return a->x[i] + (a->momentum * a->u[i] + a->g[i]);
}

static size_t velocity_pass(const tg__topk_source *s, size_t begin, size_t m, float threshold,
                            uint32_t *idx, float *val, size_t cap)
{
    const accumulated *a = (const accumulated *)s;
    return tg__kernel()->dgc_select(a->u + begin, a->x + begin, a->g + begin, m, a->momentum,
                                    a->nesterov, threshold, idx, val, cap);
}

static tg_status velocity_topk(tg__feedback *f, tg_codec *c, const tg_encode_context *ctx,
                               const float *g, size_t n, tg__part *parts, size_t nparts)
{
    tg__view view;
    float *v = tg__feedback_pending(f);
    accumulated a = {.source = {.x = v, .peek = velocity_peek, .pass = velocity_pass},
                     .u = f->vec[0],
                     .x = v,
                     .g = g,
                     .momentum = (float)f->params.momentum,
                     .nesterov = f->params.nesterov};
    TG_TRY(room(c, parts, nparts));
    TG_TRY(tg__topk_begin(c, ctx, n));
    TG_TRY(tg__topk_encode(c, ctx, &a.source, n, parts, nparts, &view));
    subtract(a.x, &view);
    if (f->params.masking)
        clear(a.u, &view);
    return TG_OK;
}

/* ---- 2-bit ----------------------------------------------------------------------------------- */

/* r += g and the codes of r in one pass. A threshold to be estimated needs r first. */
static tg_status residual_twobit(tg__feedback *f, tg_codec *c, const tg_encode_context *ctx,
                                 const float *g, size_t n, tg__part *parts, size_t nparts)
{
    float *r = tg__feedback_pending(f);
    atomic_bool spoilt = false;
    tg__ternary source = {
        .code = tg__ternary_add, .x = g, .r = r, .leaves = true, .spoilt = &spoilt};
    TG_TRY(tg__twobit_reserve(c, ctx, parts, nparts));
    if (tg__twobit_estimates(c, ctx)) {
        tg__kernel()->add(r, g, n);
        source.code = tg__ternary_left;
    }
    tg__twobit_write(c, ctx, &source, r, n, parts, nparts);
    return spoilt ? tg__encode_spoilt(c) : TG_OK;
}

/* ---- strom ----------------------------------------------------------------------------------- */

/* Like 2-bit: the rule is the same, only the frame differs. */
static tg_status residual_strom(tg__feedback *f, tg_codec *c, const tg_encode_context *ctx,
                                const float *g, size_t n, tg__part *parts, size_t nparts)
{
    float *r = tg__feedback_pending(f);
    atomic_bool spoilt = false;
    tg__ternary source = {
        .code = tg__ternary_add, .x = g, .r = r, .leaves = true, .spoilt = &spoilt};
    TG_TRY(tg__strom_reserve(c, ctx, n, parts, nparts));
    if (tg__strom_estimates(c, ctx)) {
        tg__kernel()->add(r, g, n);
        source.code = tg__ternary_left;
    }
    TG_TRY(tg__strom_write(c, ctx, &source, r, n, parts, nparts, NULL));
    return spoilt ? tg__encode_spoilt(c) : TG_OK;
}

/* ---- buckets of small integers --------------------------------------------------------------- */

static tg_status residual_int8(tg__feedback *f, tg_codec *c, const tg_encode_context *ctx,
                               const float *g, size_t n, tg__part *parts, size_t nparts)
{
    (void)n;
    TG_TRY(room(c, parts, nparts));
    return tg__quant_encode_residual(c, c->impl, ctx, tg__feedback_pending(f), g, parts, nparts);
}

static tg_status residual_qsgd(tg__feedback *f, tg_codec *c, const tg_encode_context *ctx,
                               const float *g, size_t n, tg__part *parts, size_t nparts)
{
    return residual_int8(f, c, ctx, g, n, parts, nparts);
}

/* ---- one bit per element --------------------------------------------------------------------- */

static tg_status residual_sign(tg__feedback *f, tg_codec *c, const tg_encode_context *ctx,
                               const float *g, size_t n, tg__part *parts, size_t nparts)
{
    (void)n;
    TG_TRY(room(c, parts, nparts));
    for (size_t i = 0; i < nparts; i++)
        TG_TRY(tg__sign_write(c, ctx, tg__feedback_pending(f), g, &parts[i]));
    return TG_OK;
}

static tg_status residual_onebit(tg__feedback *f, tg_codec *c, const tg_encode_context *ctx,
                                 const float *g, size_t n, tg__part *parts, size_t nparts)
{
    (void)n;
    TG_TRY(room(c, parts, nparts));
    for (size_t i = 0; i < nparts; i++)
        TG_TRY(tg__onebit_write(c, ctx, tg__feedback_pending(f), g, &parts[i]));
    return TG_OK;
}

/* ---- the table ------------------------------------------------------------------------------- */

#define FUSED_LIST             \
    TG_FUSED(residual, topk)   \
    TG_FUSED(velocity, topk)   \
    TG_FUSED(residual, twobit) \
    TG_FUSED(residual, strom)  \
    TG_FUSED(residual, int8)   \
    TG_FUSED(residual, qsgd)   \
    TG_FUSED(residual, sign)   \
    TG_FUSED(residual, onebit)

static const struct {
    const char *feedback;
    const tg__codec_ops *codec;
    tg__fused_fn fn;
} fused[] = {
#define TG_FUSED(feedback, codec) {#feedback, &tg__codec_##codec, feedback##_##codec},
    FUSED_LIST
#undef TG_FUSED
};

tg__fused_fn tg__fused_find(const tg__feedback *f, const tg_codec *c)
{
    const double decay = f->params.decay;
    if (f->params.clip != 0 || (decay > 0 && decay != 1)) /* these rewrite a vector first */
        return NULL;
    if (tg__feedback_filters(f)) /* compensation yields two vectors */
        return NULL;
    for (size_t i = 0; i < TG_COUNT(fused); i++)
        if (fused[i].codec == c->ops && strcmp(fused[i].feedback, f->ops->entry.name) == 0)
            return fused[i].fn;
    return NULL;
}
