#include "codec/sign/strips.h"
#include "base/mem.h"
#include <math.h>
#include <string.h>

enum { AT_STRIPS = 4, STRIP_BYTES = 8, PLAIN_SHARE = 32 };

static size_t elements_of(tg__strip s)
{
    return TG__MAX(s.rows, (size_t)1) * s.cols;
}

/* Whether the vectors among the tensors are so few that they may be sent as they are. */
static bool vectors_are_few(const tg_encode_context *ctx)
{
    size_t all = 0, vectors = 0;
    for (size_t i = 0; i < ctx->nsegments; i++) {
        all += ctx->segments[i].n;
        vectors += ctx->segments[i].cols == 1 ? ctx->segments[i].n : 0;
    }
    return vectors <= all / PLAIN_SHARE;
}

tg__strips tg__strips_of(const tg_encode_context *ctx, const tg__part *part, size_t min_rows,
                         bool plain)
{
    tg__run run = tg__run_first(ctx, part);
    return (tg__strips){.run = run,
                        .at = run.lo,
                        .min_rows = min_rows,
                        .plain = plain && ctx->segments && vectors_are_few(ctx)};
}

bool tg__strips_next(tg__strips *s, tg__strip *strip)
{
    const tg__part *part = s->run.part;
    while (s->at >= s->run.hi && s->at < part->hi)
        s->run = tg__run_next(&s->run);
    if (s->at >= part->hi)
        return false;
    size_t cols = s->run.of.cols, left = s->run.hi - s->at, n = left;
    *strip = (tg__strip){.lo = s->at, .rows = s->plain && cols == 1 ? 0 : 1};
    if (cols > 1 && s->min_rows < SIZE_MAX) {
        size_t inside = (s->at - s->run.of.begin) % cols;
        if (inside > 0)
            n = TG__MIN(left, cols - inside);
        else if (left >= cols)
            n = left / cols * cols;
        if (inside == 0 && n % cols == 0 && n / cols >= s->min_rows)
            strip->rows = n / cols;
    }
    strip->cols = n / TG__MAX(strip->rows, (size_t)1);
    s->at += n;
    return true;
}

/* ---- writing --------------------------------------------------------------------------------- */

static tg__strips strips_for(const tg__strip_coder *o, const tg_encode_context *ctx,
                             const tg__part *part)
{
    return tg__strips_of(ctx, part, o->min_rows, o->plain);
}

static tg__strip_layout layout_of(const tg__strip_coder *o, const tg_encode_context *ctx,
                                  const tg__part *part)
{
    tg__strip_layout l = {0};
    tg__strip strip;
    size_t count = 0, bytes = 0;
    for (tg__strips s = strips_for(o, ctx, part); tg__strips_next(&s, &strip);) {
        l.strips++;
        count += o->values(strip.rows, strip.cols);
        bytes += strip.rows * tg__strip_row_bytes(strip.cols);
    }
    l.values = AT_STRIPS + STRIP_BYTES * l.strips;
    l.bits = l.values + sizeof(float) * count;
    l.len = l.bits + bytes;
    return l;
}

/* Write the list of strips. */
static void put_strips(uint8_t *payload, const tg_encode_context *ctx, const tg__part *part,
                       const tg__strip_coder *o)
{
    tg__strip strip;
    uint32_t count = 0;
    for (tg__strips s = strips_for(o, ctx, part); tg__strips_next(&s, &strip); count++) {
        uint8_t *at = payload + AT_STRIPS + STRIP_BYTES * (size_t)count;
        tg__put32(at, (uint32_t)strip.rows);
        tg__put32(at + 4, (uint32_t)strip.cols);
    }
    tg__put32(payload, count);
}

tg_status tg__strips_begin(tg_codec *c, const tg_encode_context *ctx, const tg__part *part,
                           tg__strip_layout *layout_p, uint8_t **payload_p)
{
    tg__strip_coder *o = c->impl;
    const size_t dense = (part->hi - part->lo) * sizeof(float);
    *layout_p = layout_of(o, ctx, part);
    *payload_p = part->dst + TG__FRAME_HEAD;
    if (layout_p->len >= dense) {
        TG_TRY(tg__scratch(c, &o->coded, layout_p->len, 1));
        TG_TRY(tg__scratch(c, &o->dense, dense, 1));
        *payload_p = o->coded;
    }
    put_strips(*payload_p, ctx, part, o);
    return TG_OK;
}

void tg__strips_end(tg_codec *c, tg__part *part, const tg__strip_layout *l, const uint8_t *payload,
                    uint16_t aux)
{
    const tg__strip_coder *o = c->impl;
    const size_t n = part->hi - part->lo;
    const uint8_t id = c->ops->wire_id;
    if (tg__all_zero(payload + l->values, l->bits - l->values)) {
        tg__part_zero(part, id);
    } else if (payload == o->coded) {
        const tg__frame f = {.codec = id, .aux = aux, .n = (uint32_t)n, .payload = payload};
        c->ops->decode(&f, 0, n, o->dense, false);
        tg__part_dense(part, id, o->dense);
    } else {
        tg__part_coded(part, id, aux, l->len);
    }
}

tg_status tg__strips_encode(tg_codec *c, const tg_encode_context *ctx, const float *x,
                            tg__part *part, float *decoded)
{
    const tg__strip_coder *o = c->impl;
    TG_TRY(o->write(c, ctx, (float *)(uintptr_t)x, NULL, part)); /* only read */
    if (decoded)
        tg__frame_decode(part->dst, part->len, decoded, c->pool);
    return TG_OK;
}

tg_status tg__strips_settle(tg_codec *c, const tg_encode_context *ctx, float *r, const float *g,
                            size_t n, tg__part *parts, size_t nparts)
{
    const tg__strip_coder *o = c->impl;
    (void)n;
    for (size_t i = 0; i < nparts; i++)
        TG_TRY(o->write(c, ctx, r, g, &parts[i]));
    return TG_OK;
}

/* ---- vectors as they are --------------------------------------------------------------------- */

void tg__strip_put(const tg__kernels *k, float *x, const float *g, size_t n, uint8_t *values,
                   atomic_bool *spoilt)
{
    if (!isfinite(k->sum_abs(x, g, n)))
        atomic_store(spoilt, true);
    tg__floats_put(values, x, n);
    if (g)
        memset(x, 0, n * sizeof *x);
}

void tg__strip_get(const tg__strip_piece *p, float *dst, bool add)
{
    (add ? tg__floats_add : tg__floats_get)(dst, p->values + p->col * sizeof(float), p->n);
}

/* ---- reading --------------------------------------------------------------------------------- */

tg_status tg__strip_check_floats(const char *name, const uint8_t *values, size_t n, bool positive)
{
    for (size_t i = 0; i < n; i++) {
        const uint32_t value = tg__get32(values + i * sizeof(float));
        /* as numbers, infinities and NaN come last; with their sign, also -0 and all below 0 */
        if ((positive ? value : value & INT32_MAX) >= UINT32_C(0x7f800000))
            return tg_fail(TG_E_CORRUPT, "%s frame: value=%#x: must be finite%s", name, value,
                           positive ? " and >= 0" : "");
    }
    return TG_OK;
}

tg__strip tg__strip_at(const tg__frame *f, size_t i)
{
    const uint8_t *at = f->payload + AT_STRIPS + STRIP_BYTES * i;
    return (tg__strip){.rows = tg__get32(at), .cols = tg__get32(at + 4)};
}

/* True if the bits beyond the last column are 0 in every row; bits points to those of the strip. */
static bool padding_is_zero(const uint8_t *bits, tg__strip strip)
{
    size_t row_bytes = tg__strip_row_bytes(strip.cols);
    if (strip.cols % 8 == 0)
        return true;
    uint8_t wrong = 0;
    for (size_t r = 1; r <= strip.rows; r++)
        wrong |= (uint8_t)(bits[r * row_bytes - 1] >> strip.cols % 8);
    return wrong == 0;
}

tg_status tg__strips_check(const tg__frame *f, const char *name, tg__strip_values *values,
                           bool plain, tg__strip_layout *layout_p)
{
    size_t count = f->payload_len < AT_STRIPS ? 0 : tg__get32(f->payload), covered = 0;
    if (count == 0 || count > (f->payload_len - AT_STRIPS) / STRIP_BYTES)
        return tg_fail(TG_E_CORRUPT, "%s frame: %zu strips do not fit in %zu bytes", name, count,
                       f->payload_len);
    tg__strip_layout l = {.strips = count, .values = AT_STRIPS + STRIP_BYTES * count};
    size_t nvalues = 0, bytes = 0;
    for (size_t i = 0; i < count; i++) {
        tg__strip s = tg__strip_at(f, i);
        if ((s.rows == 0 && !plain) || s.cols == 0 ||
            s.cols > (f->n - covered) / TG__MAX(s.rows, (size_t)1))
            return tg_fail(TG_E_CORRUPT,
                           "%s frame: strip %zu: rows=%zu, cols=%zu, but %zu elements are left",
                           name, i, s.rows, s.cols, f->n - covered);
        covered += elements_of(s);
        nvalues += values(s.rows, s.cols);
        bytes += s.rows * tg__strip_row_bytes(s.cols);
    }
    l.bits = l.values + sizeof(float) * nvalues;
    l.len = l.bits + bytes;
    if (covered != f->n || l.len != f->payload_len)
        return tg_fail(
            TG_E_CORRUPT,
            "%s frame: the strips have %zu elements in %zu bytes, but n=%u and %zu bytes", name,
            covered, l.len, f->n, f->payload_len);
    const uint8_t *bits = f->payload + l.bits;
    for (size_t i = 0; i < count; i++) {
        tg__strip s = tg__strip_at(f, i);
        if (!padding_is_zero(bits, s))
            return tg_fail(TG_E_CORRUPT, "%s frame: strip %zu: padding is not zero", name, i);
        bits += s.rows * tg__strip_row_bytes(s.cols);
    }
    *layout_p = l;
    return TG_OK;
}

/* Decode the rows of a strip that begins at element `begin`, as far as they lie in [lo, hi). */
static void decode_strip(tg__strip s, const uint8_t *values, const uint8_t *bits, size_t begin,
                         size_t lo, size_t hi, float *dst, bool add, tg__strip_decode *decode)
{
    size_t end = TG__MIN(hi, begin + elements_of(s)), at = TG__MAX(lo, begin), n;
    for (; at < end; at += n) {
        size_t row = (at - begin) / s.cols, col = (at - begin) % s.cols;
        n = TG__MIN(s.cols - col, end - at);
        tg__strip_piece p = {.rows = s.rows,
                             .cols = s.cols,
                             .row = row,
                             .col = col,
                             .n = n,
                             .values = values,
                             .bits = s.rows > 0 ? bits + row * tg__strip_row_bytes(s.cols) + col / 8
                                                : bits};
        decode(&p, dst + at, add);
    }
}

void tg__strips_decode(const tg__frame *f, tg__strip_values *values, size_t lo, size_t hi,
                       float *dst, bool add, tg__strip_decode *decode)
{
    size_t count = tg__get32(f->payload), begin = 0, nvalues = 0;
    const uint8_t *at = f->payload + AT_STRIPS + STRIP_BYTES * count, *bits = at;
    for (size_t i = 0; i < count; i++) {
        tg__strip s = tg__strip_at(f, i);
        nvalues += values(s.rows, s.cols);
    }
    bits += sizeof(float) * nvalues;
    for (size_t i = 0; i < count && begin < hi; i++) {
        tg__strip s = tg__strip_at(f, i);
        decode_strip(s, at, bits, begin, lo, hi, dst, add, decode);
        begin += elements_of(s);
        at += sizeof(float) * values(s.rows, s.cols);
        bits += s.rows * tg__strip_row_bytes(s.cols);
    }
}
