/* AdaComp: every tensor is cut into bins of T elements. With x = residual + g, g this step's
 * gradient, an element is sent if adding g once more would lift it to the bin's maximum:
 *
 *     sent if |x + g| >= M, M = max |x| of the bin;  decoded = sign(x) * mean of M over the bins
 *
 * Bins of zeros send nothing and do not count in the mean. The number sent depends on the data:
 * many if the gradient is large compared with the residual.
 *
 * Source: Chen et al. 2018, "AdaComp: adaptive residual gradient compression for data-parallel
 * distributed training", AAAI, arXiv:1712.02679, sec. 3, alg. 2 */
#include "base/mem.h"
#include "codec/sparse/level_frame.h"
#include "kernel/kernel.h"
#include "telegrad/spec.h"
#include <math.h>

/* The paper uses 50 for convolutions, 500 for fully connected and recurrent layers. A matrix view
 * does not distinguish them, but their size nearly does: in the paper's networks, the layers with
 * 500 are larger. */
enum { BIN_CONVOLUTION = 50, BIN_OTHERS = 500 };

typedef struct adacomp {
    size_t bin; /* 0: by kind */
    tg__levels list;
} adacomp;

static tg_status init(tg_codec *c)
{
    adacomp *own = c->impl;
    own->bin = (size_t)tg_spec_int(c->spec, "bin");
    tg__levels_init(&own->list, c);
    return TG_OK;
}

static size_t bin_of(const adacomp *own, const tg_segment *s)
{
    if (own->bin > 0)
        return own->bin;
    return s->dims >= 3 ? BIN_CONVOLUTION : BIN_OTHERS;
}

/* Append the elements that one tensor sends; beyond the list's room, only count them. */
static void tensor(adacomp *own, const tg_segment *s, const float *x, const float *g)
{
    tg__levels *l = &own->list;
    size_t at = TG__MIN(l->k, l->room);
    tg__bins bins;
    size_t count = tg__kernel()->adacomp_select(x + s->begin, g + s->begin, s->n, bin_of(own, s),
                                                l->idx + at, l->val + at, l->room - at, &bins);
    l->k += count;
    if (l->k > l->room)
        return;
    float scale = (float)(bins.sum / (double)TG__MAX(bins.count, (size_t)1));
    for (size_t i = at; i < l->k; i++) {
        l->idx[i] += (uint32_t)s->begin;
        l->val[i] = copysignf(scale, l->val[i]);
    }
}

static void choose(adacomp *own, const tg_encode_context *ctx, const float *x, size_t n)
{
    const tg__part all = {.lo = 0, .hi = n};
    own->list.k = 0;
    for (tg__run r = tg__run_first(ctx, &all); r.lo < n; r = tg__run_next(&r))
        tensor(own, &r.of, x, ctx->gradient ? ctx->gradient : x);
}

static tg_status encode(tg_codec *c, const tg_encode_context *ctx, const float *x, size_t n,
                        tg__part *parts, size_t nparts, tg__view *view_p)
{
    adacomp *own = c->impl;
    TG_TRY(tg__levels_reserve(c, &own->list, n / 16));
    choose(own, ctx, x, n);
    if (own->list.k > own->list.room) {
        TG_TRY(tg__levels_reserve(c, &own->list, own->list.k));
        choose(own, ctx, x, n);
    }
    return tg__levels_write(&own->list, TG__ID_adacomp, parts, nparts, view_p);
}

static const tg_key keys[] = {
    TG__KEY_BIN,
    TG__KEY_INDEX,
    {.name = NULL},
};

static const char *const settings[] = {"bin=1", "bin=500,index=raw", "bin=7,index=bitmap", NULL};

const tg__codec_ops tg__codec_adacomp = {
    .entry = {"adacomp", "the elements that this gradient lifts to the maximum of their bin",
              "Chen et al. 2018, arXiv:1712.02679, alg. 2", keys},
    .wire_id = TG__ID_adacomp,
    .properties = TG__SPARSE | TG__WHOLE | TG__TO_ZERO,
    .promise = {.relative = 1, .share = 1, .settings = settings},
    .impl_bytes = sizeof(adacomp),
    .init = init,
    .encode = encode,
    .check = tg__levels_check,
    .decode = tg__sparse_decode,
};
