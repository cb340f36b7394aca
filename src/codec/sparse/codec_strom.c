/* Strom's threshold compression:
 *
 *     decoded = sign(x) * threshold where |x| >= threshold, else 0
 *
 * This is the rule of 2bit, also with lookahead. Here the few elements that are sent are listed
 * (level_frame.h), with one threshold for the vector, or an adapted one for each segment
 * (threshold_auto.h). If many are sent, the index coding becomes a bitmap, and apart from the heads
 * of its runs the frame is never longer than 2bit's planes.
 *
 * Source: Strom 2015, "Scalable distributed DNN training using commodity GPU cloud computing",
 * Interspeech, sec. 4; its 32-bit words: telegrad/compat.h */
#include "base/mem.h"
#include "codec/quant/ternary.h"
#include "codec/sparse/level_frame.h"
#include "codec/lookahead.h"
#include "kernel/element.h"
#include "telegrad/spec.h"

typedef struct strom {
    tg__thresholds thresholds; /* first member */
    tg__levels list;
    uint8_t *planes;
} strom;

static tg_status init(tg_codec *c)
{
    tg__levels_init(&((strom *)c->impl)->list, c);
    return tg__thresholds_init(c);
}

/* Check room in the frames, and allocate memory for the codes. */
static tg_status reserve(tg_codec *c, const tg_encode_context *ctx, size_t n, const tg__part *parts,
                         size_t nparts)
{
    strom *own = c->impl;
    const tg__part all = {.lo = 0, .hi = n};
    size_t planes = 0;
    ctx = tg__thresholds_runs(&own->thresholds, ctx);
    for (size_t i = 0; i < nparts; i++)
        TG_TRY(tg__part_room(&parts[i], tg__codec_bound(c, parts[i].hi - parts[i].lo)));
    for (tg__run r = tg__run_first(ctx, &all); r.lo < n; r = tg__run_next(&r))
        planes += tg__twobit_bytes(r.hi - r.lo);
    TG_TRY(tg__scratch(c, &own->planes, planes, 1));
    return tg__thresholds_reserve(c, ctx);
}

/* Append the planes of elements [lo, hi) to the list. */
static void append(tg__levels *l, const uint8_t *planes, size_t lo, size_t hi, float threshold)
{
    const float value[2] = {threshold, -threshold};
    size_t k = l->k;
    for (size_t begin = lo; begin < hi; begin += 64, planes += 16) {
        uint64_t plus, minus;
        tg__twobit_get(planes, TG__MIN(hi - begin, (size_t)64), &plus, &minus);
        for (uint64_t rest = plus | minus; rest != 0; rest &= rest - 1, k++) {
            unsigned bit = (unsigned)__builtin_ctzll(rest);
            l->idx[k] = (uint32_t)begin + bit;
            l->val[k] = value[minus >> bit & 1];
        }
    }
    l->k = k;
}

/* Write the frames of source. x (n) is the vector for estimates; afterwards it holds the vector
 * itself or what the frames leave of it.
 * Errors  TG_E_NOMEM (more elements are sent than ever before, and the list cannot grow) */
static tg_status write_parts(tg_codec *c, const tg_encode_context *ctx, const tg__ternary *source,
                             const float *x, size_t n, tg__part *parts, size_t nparts,
                             tg__view *view_p)
{
    strom *own = c->impl;
    tg__thresholds *t = &own->thresholds;
    const tg__part all = {.lo = 0, .hi = n};
    uint8_t *at = own->planes;
    size_t sent = 0;
    ctx = tg__thresholds_runs(t, ctx);
    tg__thresholds_begin(t, ctx, x, n);
    for (tg__run r = tg__run_first(ctx, &all); r.lo < n; r = tg__run_next(&r)) {
        sent += t->sent[r.segment] =
            tg__ternary_run(source, c->pool, r.lo, r.hi, t->now[r.segment], at);
        at += tg__twobit_bytes(r.hi - r.lo);
    }
    TG_TRY(tg__levels_reserve(c, &own->list, sent));
    own->list.k = 0;
    at = own->planes;
    for (tg__run r = tg__run_first(ctx, &all); r.lo < n; r = tg__run_next(&r)) {
        append(&own->list, at, r.lo, r.hi, t->now[r.segment]);
        at += tg__twobit_bytes(r.hi - r.lo);
    }
    tg__thresholds_end(t, ctx, x, source->g, n, source->leaves);
    return tg__levels_write(&own->list, TG__ID_strom, parts, nparts, view_p);
}

static tg_status encode(tg_codec *c, const tg_encode_context *ctx, const float *x, size_t n,
                        tg__part *parts, size_t nparts, tg__view *view_p)
{
    TG_TRY(reserve(c, ctx, n, parts, nparts));
    const tg__ternary source = tg__ternary_of(c, ctx, x, NULL);
    return write_parts(c, ctx, &source, x, n, parts, nparts, view_p);
}

static tg_status settle(tg_codec *c, const tg_encode_context *ctx, float *r, const float *g,
                        size_t n, tg__part *parts, size_t nparts)
{
    atomic_bool spoilt = false;
    TG_TRY(reserve(c, ctx, n, parts, nparts));
    const tg__ternary source = tg__ternary_settle(c, ctx, r, g, n, &spoilt);
    TG_TRY(write_parts(c, ctx, &source, r, n, parts, nparts, NULL));
    return spoilt ? tg__encode_spoilt(c) : TG_OK;
}

static const tg_key keys[] = {
    TG__KEY_THRESHOLD("auto"),   TG__KEY_START, TG__KEY_TARGET,
    TG__KEY_LOOKAHEAD_THRESHOLD, TG__KEY_INDEX, {.name = NULL},
};

static const char *const settings[] = {"threshold=0.01",
                                       "threshold=1,index=bitmap",
                                       "threshold=1e-3,index=raw",
                                       "target=0.3,index=rice",
                                       "start=0.03,index=ef",
                                       "target=0.2,lookahead=0",
                                       NULL};

const tg__codec_ops tg__codec_strom = {
    .entry = {"strom", "elements beyond a threshold, sent as the threshold with a sign",
              "Strom 2015, Interspeech, sec. 4", keys},
    .wire_id = TG__ID_strom,
    .properties = TG__SPARSE | TG__WHOLE | TG__TO_ZERO,
    .promise = {.relative = 1, .settings = settings},
    .impl_bytes = sizeof(strom),
    .init = init,
    .memory = tg__thresholds_memory,
    .encode = encode,
    .settle = settle,
    .check = tg__levels_check,
    .decode = tg__sparse_decode,
};
