/* TernGrad: every element becomes -s, 0 or s, at random and unbiased, for each tensor:
 *
 *     c = x clipped to -clip * sigma .. clip * sigma, with sigma the tensor's standard deviation
 *     s = max |c|, or the value that the ranks agreed on
 *     decoded = s * sign(c) * b, b = 1 with probability |c| / s, else 0      E[decoded] = c
 *
 * payload: u32 number of runs; for each u32 elements, f32 s; then codes of 2 bits (kernel/pack.h).
 * A run is the intersection of a tensor and the part. Tensors with an agreed s are not clipped
 * here, because the ranks clipped them before they agreed.
 *
 * Source: Wen et al. 2017, arXiv:1705.07878, sec. 3 */
#include "codec/quant/codec_terngrad.h"
#include "base/mem.h"
#include "base/philox.h"
#include "codec/quant/quant.h"
#include <float.h>
#include <math.h>
#include <string.h>

enum { BLOCK = TG__PACK_BLOCK, WIDTH = 2, RUN_BYTES = 8 };

typedef struct terngrad {
    double clip;
    unsigned rounds;
    float *scale;   /* of each segment */
    uint8_t *table; /* of a part's runs */
    float *dense;   /* the content of a dense frame, unless there is a view */
} terngrad;

static tg_status init(tg_codec *c)
{
    terngrad *t = c->impl;
    t->clip = tg_spec_real(c->spec, "clip");
    t->rounds = strcmp(tg_spec_word(c->spec, "rounds"), "10") == 0 ? 10 : 7;
    return TG_OK;
}

/* ---- scales ---------------------------------------------------------------------------------- */

float tg__terngrad_limit(const float *x, size_t n, double clip)
{
    if (clip == 0 || n == 0)
        return INFINITY;
    /* Shifted by an element of x, not by 0: the square of the mean can be far larger than the
     * variance, but that of an element's distance from the mean is at most n times as large. */
    tg__moments s;
    tg__kernel()->moments(x, n, x[0], &s);
    double variance = (s.sum_sq - s.sum * s.sum / (double)n) / (double)n;
    return variance <= 0 ? INFINITY : (float)(clip * sqrt(variance));
}

typedef struct scaling {
    terngrad *t;
    const float *x;
    size_t n;
    const tg_encode_context *ctx;
} scaling;

static void scale_segment(void *arg, size_t i)
{
    const scaling *s = arg;
    const tg_segment whole = {.begin = 0, .n = s->n}, *of = &whole;
    if (s->ctx->segments)
        of = &s->ctx->segments[i];
    const float *x = s->x + of->begin;
    float scale = s->ctx->scale ? s->ctx->scale[i]
                                : TG__MIN(tg__kernel()->abs_max(x, of->n),
                                          tg__terngrad_limit(x, of->n, s->t->clip));
    if (!(scale >= TG__UNIT_MIN)) /* includes NaN */
        scale = 0;
    s->t->scale[i] = TG__MIN(scale, FLT_MAX);
}

/* ---- runs in a payload ----------------------------------------------------------------------- */

/* Finds the run that an element belongs to. */
typedef struct cursor {
    const uint8_t *row; /* of the following run */
    size_t lo, hi;
    float scale;
} cursor;

static cursor first_run(const uint8_t *table)
{
    return (cursor){.row = table + 4};
}

static void move_to(cursor *c, size_t at)
{
    while (at >= c->hi) {
        c->lo = c->hi;
        c->hi += tg__get32(c->row);
        tg__floats_get(&c->scale, c->row + 4, 1);
        c->row += RUN_BYTES;
    }
}

static size_t table_bytes(size_t runs)
{
    return 4 + runs * RUN_BYTES;
}

/* ---- encode ---------------------------------------------------------------------------------- */

/* Pointers are to the part's first element. */
typedef struct job {
    const float *x;
    const uint8_t *table;
    uint8_t *packed; /* or NULL */
    float *decoded;  /* or NULL */
    tg__draws draws;
} job;

static void encode_range(void *arg, size_t lo, size_t hi)
{
    const job *j = arg;
    const tg__kernels *k = tg__kernel();
    cursor run = first_run(j->table);
    for (size_t begin = lo; begin < hi; begin += BLOCK) {
        size_t end = TG__MIN(hi, begin + BLOCK);
        int8_t codes[BLOCK] = {0};
        for (size_t at = begin, m; at < end; at += m) {
            move_to(&run, at);
            m = TG__MIN(end, run.hi) - at;
            tg__draws draws = j->draws;
            float clipped[BLOCK];
            draws.first += at;
            k->clamp(clipped, j->x + at, m, run.scale);
            if (run.scale > 0)
                k->quant_random(codes + (at - begin), clipped, m, 1 / run.scale, 1, &draws);
            if (j->decoded)
                k->quant_decode(j->decoded + at, codes + (at - begin), m, run.scale);
        }
        if (j->packed)
            k->pack(j->packed + tg__packed_bytes(begin, WIDTH), codes, end - begin, WIDTH);
    }
}

/* Write the table of the part's runs to t->table. */
static tg_status put_table(tg_codec *c, const tg_encode_context *ctx, const tg__part *part,
                           size_t *bytes_p)
{
    terngrad *t = c->impl;
    size_t runs = 0;
    for (tg__run r = tg__run_first(ctx, part); r.lo < part->hi; r = tg__run_next(&r))
        runs++;
    TG_TRY(tg__scratch(c, &t->table, table_bytes(runs), 1));
    tg__put32(t->table, (uint32_t)runs);
    uint8_t *row = t->table + 4;
    for (tg__run r = tg__run_first(ctx, part); r.lo < part->hi; r = tg__run_next(&r)) {
        tg__put32(row, (uint32_t)(r.hi - r.lo));
        tg__floats_put(row + 4, &t->scale[r.segment], 1);
        row += RUN_BYTES;
    }
    *bytes_p = table_bytes(runs);
    return TG_OK;
}

/* The number of codes that are not 0; the padding is 0. */
static size_t count_codes(const uint8_t *packed, size_t bytes)
{
    const uint64_t ones = UINT64_C(0x5555555555555555), pairs = UINT64_C(0x3333333333333333);
    size_t count = 0;
    for (size_t i = 0; i < bytes; i += 8) {
        uint64_t w = bytes - i >= 8 ? tg__get64(packed + i) : tg__get32(packed + i);
        w = (w | w >> 1) & ones;
        w = (w & pairs) + (w >> 2 & pairs);
        w = (w + (w >> 4)) & UINT64_C(0x0f0f0f0f0f0f0f0f);
        count += w * UINT64_C(0x0101010101010101) >> 56;
    }
    return count;
}

static tg_status encode_part(tg_codec *c, const tg_encode_context *ctx, const float *x,
                             tg__part *part, float *decoded)
{
    terngrad *t = c->impl;
    size_t n = part->hi - part->lo, table, bytes = tg__packed_bytes(n, WIDTH);
    TG_TRY(put_table(c, ctx, part, &table));
    bool dense = table + bytes >= n * sizeof(float);
    uint8_t *payload = part->dst + TG__FRAME_HEAD;
    job j = {.x = x + part->lo,
             .table = t->table,
             .packed = dense ? NULL : payload + table,
             .decoded = decoded,
             .draws = {.rounds = t->rounds, .first = part->lo}};
    tg__rng_derive(&ctx->rng, j.draws.key);
    if (dense && !decoded) {
        TG_TRY(tg__scratch(c, &t->dense, n, sizeof(float)));
        j.decoded = t->dense;
    }
    tg__pool_chunks(c->pool, n, TG__CHUNK, encode_range, &j);
    size_t kept = 0;
    for (size_t i = 0; dense && i < n; i++)
        kept += j.decoded[i] != 0;
    if (!dense)
        kept = count_codes(j.packed, bytes);
    if (kept == 0) {
        tg__part_zero(part, TG__ID_terngrad);
    } else if (dense) {
        tg__part_dense(part, TG__ID_terngrad, j.decoded);
    } else {
        memcpy(payload, t->table, table);
        tg__part_coded(part, TG__ID_terngrad, 0, table + bytes);
        part->kept = kept;
    }
    return TG_OK;
}

static tg_status encode(tg_codec *c, const tg_encode_context *ctx, const float *x, size_t n,
                        tg__part *parts, size_t nparts, tg__view *view_p)
{
    terngrad *t = c->impl;
    size_t nsegments = ctx->segments ? ctx->nsegments : 1;
    TG_TRY(tg__scratch(c, &t->scale, nsegments, sizeof(float)));
    scaling s = {.t = t, .x = x, .n = n, .ctx = ctx};
    tg__pool_run(c->pool, nsegments, scale_segment, &s);
    return tg__encode_parts(c, ctx, x, n, parts, nparts, view_p);
}

/* ---- check and decode ------------------------------------------------------------------------ */

static const uint8_t *packed_of(const tg__frame *f)
{
    return f->payload + table_bytes(tg__get32(f->payload));
}

/* The codes of the block of m elements that starts at `begin`. */
static void get_block(const tg__frame *f, size_t begin, size_t m, int8_t codes[BLOCK])
{
    tg__kernel()->unpack(codes, packed_of(f) + tg__packed_bytes(begin, WIDTH), m, WIDTH);
}

/* Check that no code is -2, and that all are 0 if the scale is 0. */
static tg_status check_codes(const tg__frame *f)
{
    const uint8_t *packed = packed_of(f);
    size_t bytes = tg__packed_bytes(f->n, WIDTH);
    for (size_t i = 0; i < bytes; i += 4) {
        uint32_t w = tg__get32(packed + i);
        if (w >> 1 & ~w & UINT32_C(0x55555555))
            return tg_fail(TG_E_CORRUPT, "terngrad frame: a code is -2: allowed: -1, 0, 1");
    }
    cursor run = first_run(f->payload);
    for (size_t at = 0; at < f->n; at = run.hi) {
        move_to(&run, at);
        for (size_t begin = at / BLOCK * BLOCK; run.scale == 0 && begin < run.hi; begin += BLOCK) {
            int8_t codes[BLOCK];
            get_block(f, begin, TG__MIN(f->n - begin, (size_t)BLOCK), codes);
            for (size_t i = TG__MAX(at, begin); i < TG__MIN(run.hi, begin + BLOCK); i++)
                if (codes[i - begin] != 0)
                    return tg_fail(TG_E_CORRUPT, "terngrad frame: scale=0: a code is not 0");
        }
    }
    return TG_OK;
}

static tg_status check(const tg__frame *f)
{
    if (f->aux != 0)
        return tg_fail(TG_E_CORRUPT, "terngrad frame: aux=%#x: must be 0", f->aux);
    size_t runs = f->payload_len >= 4 ? tg__get32(f->payload) : 0, total = 0;
    if (runs < 1 || runs > f->n)
        return tg_fail(TG_E_CORRUPT, "terngrad frame: runs=%zu: must be 1 to n, which is %u", runs,
                       f->n);
    size_t want = table_bytes(runs) + tg__packed_bytes(f->n, WIDTH);
    if (f->payload_len != want)
        return tg_fail(TG_E_CORRUPT,
                       "terngrad frame: payload length=%zu: must be %zu for n=%u, runs=%zu",
                       f->payload_len, want, f->n, runs);
    for (size_t i = 0; i < runs; i++) {
        const uint8_t *row = f->payload + table_bytes(i);
        size_t n = tg__get32(row);
        float scale;
        tg__floats_get(&scale, row + 4, 1);
        if (n < 1 || n > f->n - total)
            return tg_fail(TG_E_CORRUPT,
                           "terngrad frame: run %zu has %zu elements: must be 1 to %zu", i, n,
                           f->n - total);
        if (!tg__quant_unit_valid(scale))
            return tg_fail(TG_E_CORRUPT, "terngrad frame: scale=%g: must be 0, or at least %g",
                           (double)scale, (double)TG__UNIT_MIN);
        total += n;
    }
    if (total != f->n)
        return tg_fail(TG_E_CORRUPT,
                       "terngrad frame: the runs have %zu elements in all: must be n, which is %u",
                       total, f->n);
    if (!tg__pack_clean(packed_of(f), f->n, WIDTH))
        return tg_fail(TG_E_CORRUPT, "terngrad frame: the padding is not 0");
    return check_codes(f);
}

static void decode(const tg__frame *f, size_t lo, size_t hi, float *dst, bool add)
{
    const tg__kernels *k = tg__kernel();
    void (*put)(float *, const int8_t *, size_t, float) =
        add ? k->quant_decode_add : k->quant_decode;
    cursor run = first_run(f->payload);
    for (size_t begin = lo; begin < hi; begin += BLOCK) {
        size_t end = TG__MIN(hi, begin + BLOCK);
        int8_t codes[BLOCK];
        get_block(f, begin, end - begin, codes);
        for (size_t at = begin, m; at < end; at += m) {
            move_to(&run, at);
            m = TG__MIN(end, run.hi) - at;
            put(dst + at, codes + (at - begin), m, run.scale);
        }
    }
}

static const tg_key keys[] = {TG__TERNGRAD_KEYS, {.name = NULL}};

static const char *const settings[] = {"clip=0", "clip=1,rounds=10", NULL};

const tg__codec_ops tg__codec_terngrad = {
    .entry = {"terngrad", "-s, 0 or s at random, one s per tensor",
              "Wen et al. 2017, arXiv:1705.07878", keys},
    .wire_id = TG__ID_terngrad,
    .properties = TG__TO_ZERO,
    .promise = {.relative = 1, .share = 1, .settings = settings, .unbiased = "clip=0"},
    .impl_bytes = sizeof(terngrad),
    .init = init,
    .encode = encode,
    .encode_part = encode_part,
    .check = check,
    .decode = decode,
};
