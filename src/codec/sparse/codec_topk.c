/* Top-k: the k elements of largest magnitude, ties to the lower index, never zeros;
 *
 *     k = min(n, max(1, floor(density * n + 0.5)))
 *
 * of the whole vector or (scope=tensor) of each tensor, in one frame with coded values and indices
 * (topk_frame.h). All parts share one selection over the whole vector; values are rounded frame by
 * frame.
 *
 * With lookahead=A (by default 2, with select=trimmed 0), those of the largest scores |x + A * g|,
 * where g is the gradient (of DGC: the velocity) that was added last: as if it came A times more.
 * An element that the last gradient moves on is sent earlier than one whose residual has only
 * wandered far. AdaComp compares |x + g| with the maximum of a bin (Chen et al. 2018,
 * arXiv:1712.02679); to rank by it is our addition. What is sent is x, which may be 0 here.
 *
 * With select=trimmed, k to 2 k elements above a threshold that is searched (trimmed_select.h).
 *
 * Source: Aji and Heafield 2017, arXiv:1704.05021; Lin et al. 2018, arXiv:1712.01887, sec. 3 */
#include "codec/sparse/topk_select.h"
#include "base/mem.h"
#include "codec/lookahead.h"
#include "codec/sparse/topk_frame.h"
#include "codec/sparse/trimmed_select.h"
#include "kernel/kernel.h"
#include "wire/index.h"
#include "telegrad/spec.h"
#include <string.h>

typedef struct topk {
    double density;
    float ahead;
    bool by_tensor, trimmed;
    int values, index;
    tg__topk select;
    tg__topk_hint *hints; /* one per competition */
    uint32_t *rebased;
} topk;

/* The words of the key `values`, in the order of TG__VALUES_*. */
static const char *const value_words[] = {"f32", "fp16", "int8", "4bit", "2bit", "1bit"};

static tg_status init(tg_codec *c)
{
    topk *own = c->impl;
    own->density = tg_spec_real(c->spec, "density");
    own->by_tensor = strcmp(tg_spec_word(c->spec, "scope"), "tensor") == 0;
    own->trimmed = strcmp(tg_spec_word(c->spec, "select"), "trimmed") == 0;
    while (strcmp(value_words[own->values], tg_spec_word(c->spec, "values")) != 0)
        own->values++;
    own->index = tg__index_named(tg_spec_word(c->spec, "index"));
    own->ahead = tg__lookahead(c->spec);
    if (own->trimmed && own->ahead != 0)
        return tg_fail(TG_E_SPEC, "top-k: select=trimmed with lookahead=%g: allowed: 0 or auto",
                       (double)own->ahead);
    return TG_OK;
}

static void fini(tg_codec *c)
{
    tg__topk_free(&((topk *)c->impl)->select);
}

/* The next set of elements that compete with each other: all, or those of one tensor. Returns false
 * after the last. */
static bool next_competition(const topk *own, const tg_encode_context *ctx, size_t n, size_t i,
                             size_t *lo_p, size_t *n_p, size_t *k_p)
{
    double density = ctx->density != 0 ? ctx->density : own->density;
    bool by_tensor = own->by_tensor && ctx->segments;
    if (i >= (by_tensor ? ctx->nsegments : 1))
        return false;
    *lo_p = by_tensor ? ctx->segments[i].begin : 0;
    *n_p = by_tensor ? ctx->segments[i].n : n;
    *k_p = tg__topk_count(density, *n_p);
    return true;
}

/* Check the context and allocate scratch, before anything is changed. */
static tg_status begin(tg_codec *c, const tg_encode_context *ctx, size_t n)
{
    topk *own = c->impl;
    double density = ctx->density != 0 ? ctx->density : own->density;
    if (!(density > 0 && density <= 1))
        return tg_fail(TG_E_ARG, "top-k: density=%g: allowed: 0 < density <= 1", density);
    own->select.pool = c->pool;
    size_t i = 0, lo, m, k, total = 0, room = 0;
    for (; next_competition(own, ctx, n, i, &lo, &m, &k); i++) {
        room = TG__MAX(room, total + tg__topk_room(&own->select, m, k));
        total += own->trimmed ? tg__trimmed_most(m, k) : k;
    }
    TG_TRY(tg__topk_reserve(&own->select, room));
    TG_TRY(tg__scratch(c, &own->hints, i, sizeof(*own->hints)));
    return tg__scratch(c, &own->rebased, total, sizeof(*own->rebased));
}

static tg_status encode_formed(tg_codec *c, const tg_encode_context *ctx, tg__source *s, size_t n,
                               tg__part *parts, size_t nparts, tg__view *view_p)
{
    topk *own = c->impl;
    size_t lo, m, k;
    TG_TRY(begin(c, ctx, n));
    for (size_t i = 0; next_competition(own, ctx, n, i, &lo, &m, &k); i++) {
        if (m == 0)
            continue;
        s->ahead = s->again && k < m ? own->ahead : 0; /* all are sent, even with a score of 0 */
        TG_TRY((own->trimmed ? tg__trimmed_select : tg__topk_select)(&own->select, &own->hints[i],
                                                                     s, lo, m, k));
    }
    tg__sparse sparse = {.idx = own->select.idx,
                         .val = own->select.val,
                         .k = own->select.count,
                         .values = own->values,
                         .index = own->index};
    for (size_t i = 0; i < nparts; i++)
        TG_TRY(tg__sparse_write(&parts[i], TG__ID_topk, &sparse, own->rebased));
    *view_p = (tg__view){.sparse = true, .idx = sparse.idx, .val = sparse.val, .k = sparse.k};
    return TG_OK;
}

/* ---- a vector that exists already ------------------------------------------------------------ */

typedef struct given {
    tg__source source; /* first member: the selector passes it back */
    const float *g;    /* NULL: not known */
} given;

static float peek(const tg__source *s, size_t i)
{
    return s->ahead == 0 ? s->x[i] : s->x[i] + s->ahead * ((const given *)s)->g[i];
}

static size_t pass(const tg__source *s, size_t begin, size_t m, float threshold, uint32_t *idx,
                   float *val, size_t cap)
{
    if (s->ahead == 0)
        return tg__kernel()->select(s->x + begin, m, threshold, idx, val, cap);
    return tg__kernel()->ahead_select(s->x + begin, ((const given *)s)->g + begin, m, s->ahead,
                                      threshold, idx, val, cap);
}

static tg_status encode(tg_codec *c, const tg_encode_context *ctx, const float *x, size_t n,
                        tg__part *parts, size_t nparts, tg__view *view_p)
{
    tg__view view;
    /* A vector that is the gradient itself is ranked as it is. */
    const float *g = ctx->gradient == x ? NULL : ctx->gradient;
    given from = {.source = {.x = x, .peek = peek, .pass = pass, .again = g ? pass : NULL}, .g = g};
    return encode_formed(c, ctx, &from.source, n, parts, nparts, view_p ? view_p : &view);
}

static const tg_key keys[] = {
    TG__KEY(REAL, "density", "0.01", 0, 1, "fraction of the elements that is sent",
            .min_open = true),
    TG__CHOICE("scope", "bucket", "bucket|tensor",
               "elements compete with all others, or within their tensor"),
    TG__CHOICE("values", "fp16", "f32|fp16|int8|4bit|2bit|1bit", "how the values are sent"),
    TG__KEY_INDEX,
    TG__CHOICE(
        "select", "exact", "exact|trimmed",
        "the k largest elements, or RedSync's: k to 2 k, above a threshold that is searched"),
    TG__KEY_LOOKAHEAD,
    {.name = NULL},
};

static const char *const settings[] = {"density=1,values=f32",
                                       "density=1",
                                       "density=0.3,index=raw",
                                       "density=0.6,values=f32,index=raw",
                                       "density=0.25,values=f32,index=bitmap",
                                       "density=0.05,index=rice",
                                       "density=1e-9",
                                       "density=0.3,values=int8",
                                       "density=0.25,values=4bit,index=bitmap",
                                       "density=0.2,values=2bit,index=rice",
                                       "density=0.3,values=1bit,index=ef",
                                       "density=0.01,index=ef",
                                       "density=0.1,scope=tensor",
                                       "density=0.1,select=trimmed",
                                       "density=0.1,lookahead=0",
                                       "density=0.9,values=f32,select=trimmed,scope=tensor",
                                       NULL};

const tg__codec_ops tg__codec_topk = {
    .entry = {"topk", "the elements of largest magnitude",
              "Aji and Heafield 2017, arXiv:1704.05021", keys},
    .wire_id = TG__ID_topk,
    .properties = TG__SPARSE | TG__WHOLE | TG__TO_ZERO,
    .promise = {.relative = 1, .settings = settings},
    .impl_bytes = sizeof(topk),
    .init = init,
    .fini = fini,
    .encode = encode,
    .encode_formed = encode_formed,
    .check = tg__sparse_check,
    .decode = tg__sparse_decode,
};
