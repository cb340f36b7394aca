/* The encoder: bucket by bucket. Each bucket is read twice while it is cached, so the next one is
 * prefetched. */
#include "codec/quant/quant.h"
#include "base/philox.h"
#include "codec/quant/quant_elias.h"
#include "kernel/element.h"
#include <float.h>
#include <math.h>
#include <stdatomic.h>

enum { BLOCK = TG__PACK_BLOCK, PIECE = 256, SMALL = 8, LINE = 16 /* floats */ };

/* The bits of a float that bf16 keeps; up: round up to the next such float if others are set. */
static float to_bf16(float x, bool up)
{
    return tg__f32_from((tg__f32_bits(x) + (up ? 0xffff : 0)) & UINT32_C(0xffff0000));
}

float tg__quant_unit(double norm, int levels)
{
    float unit = (float)(norm / levels), largest = to_bf16(FLT_MAX / (float)levels, false);
    if (!(unit >= TG__UNIT_MIN)) /* includes NaN */
        return 0;
    return unit > largest ? largest : TG__MIN(to_bf16(unit, true), largest);
}

bool tg__quant_unit_valid(float unit)
{
    return (unit == 0 && !signbit(unit)) || (unit >= TG__UNIT_MIN && isfinite(unit));
}

static size_t units_bytes(const tg__quant *q, size_t n)
{
    return (n + q->layout.bucket - 1) / q->layout.bucket * TG__UNIT_BYTES;
}

static size_t fixed_bytes(const tg__quant *q, size_t n)
{
    return units_bytes(q, n) + tg__packed_bytes(n, q->layout.width);
}

/* True for so few elements that the coded form is not smaller. */
static bool is_dense(const tg__quant *q, size_t n)
{
    return n < SMALL && fixed_bytes(q, n) >= n * sizeof(float);
}

size_t tg__quant_bound(const tg_codec *c, size_t n)
{
    const tg__quant *q = c->impl;
    return TG__FRAME_HEAD + (is_dense(q, n) ? n * sizeof(float) : fixed_bytes(q, n));
}

/* ---- one part -------------------------------------------------------------------------------- */

/* Pointers are to the part's first element. */
typedef struct job {
    const tg__quant *q;
    const tg__kernels *k;
    const float *x;
    size_t n;
    float *r; /* NULL, or x itself, with g: r += g first, r -= decoded afterwards */
    const float *g;
    float *decoded; /* the view; may be NULL */
    uint8_t *units;
    uint8_t *packed; /* may be NULL */
    int8_t *codes;   /* may be NULL */
    tg__draws draws;
    atomic_bool *spoilt; /* [out] some x is not finite; NULL: not wanted */
} job;

static void prefetch(const float *x, size_t n)
{
    for (size_t i = 0; i < n; i += LINE)
        __builtin_prefetch(x + i, 0);
}

static float unit_of(const job *j, const float *x, size_t n)
{
    tg__stats stats;
    double norm;
    if (j->q->l2) {
        j->k->copy_stats(NULL, x, n, &stats);
        norm = sqrt(stats.sum_sq);
    } else {
        norm = (double)j->k->abs_max(x, n);
    }
    if (j->spoilt && !isfinite(norm))
        atomic_store(j->spoilt, true);
    return tg__quant_unit(norm, j->q->levels);
}

/* Round a piece, and meanwhile prefetch elements [at, at + m) of the next bucket. */
static void round_piece(const job *j, size_t at, size_t m, float unit, int8_t *codes)
{
    size_t ahead = at + j->q->layout.bucket;
    if (ahead + m <= j->n) {
        prefetch(j->x + ahead, m);
        if (j->g)
            prefetch(j->g + ahead, m);
    }
    if (unit == 0) {
        memset(codes, 0, m);
    } else if (j->q->random) {
        tg__draws draws = j->draws;
        draws.first += at;
        j->k->quant_random(codes, j->x + at, m, 1 / unit, j->q->levels, &draws);
    } else {
        j->k->quant_nearest(codes, j->x + at, m, 1 / unit, j->q->levels);
    }
}

static void encode_block(const job *j, size_t at, size_t m, float unit)
{
    const unsigned width = j->q->layout.width;
    int8_t block[BLOCK], *codes = block;
    if (j->codes)
        codes = j->codes + at;
    else if (width == 8)
        codes = (int8_t *)j->packed + at;
    for (size_t i = 0; i < m; i += PIECE)
        round_piece(j, at + i, TG__MIN(m - i, (size_t)PIECE), unit, codes + i);
    if (j->packed && width != 8)
        j->k->pack(j->packed + tg__packed_bytes(at, width), codes, m, width);
    if (j->r)
        j->k->quant_decode_add(j->r + at, codes, m, -unit); /* - code * unit, exactly */
    if (j->decoded)
        j->k->quant_decode(j->decoded + at, codes, m, unit);
}

static void encode_range(void *arg, size_t lo, size_t hi)
{
    const job *j = arg;
    const size_t bucket = j->q->layout.bucket;
    for (size_t at = lo; at < hi; at += bucket) {
        size_t end = TG__MIN(hi, at + bucket);
        if (j->g)
            j->k->add(j->r + at, j->g + at, end - at);
        float unit = unit_of(j, j->x + at, end - at);
        tg__put16(j->units + at / bucket * TG__UNIT_BYTES, (uint16_t)(tg__f32_bits(unit) >> 16));
        for (size_t i = at; i < end; i += BLOCK)
            encode_block(j, i, TG__MIN(end - i, (size_t)BLOCK), unit);
    }
}

/* Write the dense form, which is no larger. */
static void encode_small(const tg_codec *c, job *j, tg__part *part)
{
    int8_t codes[SMALL];
    uint8_t unit[TG__UNIT_BYTES] = {0};
    float x[SMALL];
    j->codes = codes;
    j->units = unit;
    encode_range(j, 0, j->n);
    j->k->quant_decode(x, codes, j->n, tg__quant_unit_get(unit));
    if (tg__all_zero((const uint8_t *)codes, j->n))
        tg__part_zero(part, c->ops->wire_id);
    else
        tg__part_dense(part, c->ops->wire_id, x);
}

/* Write the part's codes in Elias coding; false if the fixed coding is no larger. */
static bool put_elias(const tg__quant *q, const job *j, tg__part *part)
{
    const size_t limit = fixed_bytes(q, j->n), units = units_bytes(q, j->n);
    uint8_t *payload = part->dst + TG__FRAME_HEAD;
    size_t chunks = (j->n + TG__CHUNK - 1) / TG__CHUNK, len = 4 * chunks;
    for (size_t i = 0; i < chunks; i++) {
        size_t at = i * TG__CHUNK;
        if (units + len >= limit)
            return false;
        size_t bytes = tg__elias_put(q->stream + len, limit - units - len, j->codes + at,
                                     TG__MIN(j->n - at, (size_t)TG__CHUNK));
        if (bytes == 0)
            return false;
        tg__put32(q->stream + 4 * i, (uint32_t)bytes);
        len += bytes;
    }
    if (units + len >= limit)
        return false;
    memcpy(payload + units, q->stream, len);
    tg__part_coded(part, TG__ID_qsgd, q->aux | TG__QUANT_AUX_ELIAS, units + len);
    return true;
}

/* Scratch memory for Elias codes. */
static tg_status reserve(tg_codec *c, tg__quant *q, size_t n)
{
    const size_t len = 4 * (n / TG__CHUNK + 1) + fixed_bytes(q, n) + TG__ELIAS_SLACK;
    TG_TRY(tg__scratch(c, &q->codes, n, 1));
    return tg__scratch(c, &q->stream, len, 1);
}

static void encode_part(tg_codec *c, const tg__quant *q, job *j, tg__part *part)
{
    const uint8_t id = c->ops->wire_id;
    if (is_dense(q, j->n)) {
        encode_small(c, j, part);
        return;
    }
    uint8_t *packed = part->dst + TG__FRAME_HEAD + units_bytes(q, j->n);
    j->units = part->dst + TG__FRAME_HEAD;
    if (q->layout.elias)
        j->codes = q->codes;
    else
        j->packed = packed;
    tg__pool_chunks(c->pool, j->n, TG__CHUNK, encode_range, j);
    const size_t bytes = j->codes ? j->n : tg__packed_bytes(j->n, q->layout.width);
    if (tg__all_zero(j->codes ? (const uint8_t *)j->codes : packed, bytes)) {
        tg__part_zero(part, id);
    } else if (!j->codes || !put_elias(q, j, part)) {
        if (j->codes)
            j->k->pack(packed, j->codes, j->n, q->layout.width);
        tg__part_coded(part, id, q->aux, fixed_bytes(q, j->n));
    }
}

/* j: pointers to the vector */
static tg_status encode(tg_codec *c, const tg_encode_context *ctx, job j, tg__part *part)
{
    tg__quant *q = c->impl;
    const size_t lo = part->lo;
    j.q = q;
    j.k = tg__kernel();
    j.n = part->hi - lo;
    j.x += lo;
    j.r = j.r ? j.r + lo : NULL;
    j.g = j.g ? j.g + lo : NULL;
    j.draws = (tg__draws){.rounds = q->rounds, .first = lo};
    tg__rng_derive(&ctx->rng, j.draws.key);
    if (q->layout.elias)
        TG_TRY(reserve(c, q, j.n));
    encode_part(c, q, &j, part);
    return TG_OK;
}

tg_status tg__quant_encode(tg_codec *c, const tg_encode_context *ctx, const float *x,
                           tg__part *part, float *decoded)
{
    return encode(c, ctx, (job){.x = x, .decoded = decoded}, part);
}

tg_status tg__quant_settle(tg_codec *c, const tg_encode_context *ctx, float *r, const float *g,
                           size_t n, tg__part *parts, size_t nparts)
{
    tg__quant *q = c->impl;
    atomic_bool spoilt = false;
    (void)n;
    for (size_t i = 0; q->layout.elias && i < nparts; i++)
        TG_TRY(reserve(c, q, parts[i].hi - parts[i].lo)); /* so that encode cannot fail */
    for (size_t i = 0; i < nparts; i++)
        TG_TRY(encode(c, ctx, (job){.x = r, .r = r, .g = g, .spoilt = &spoilt}, &parts[i]));
    return spoilt ? tg__encode_spoilt(c) : TG_OK;
}
