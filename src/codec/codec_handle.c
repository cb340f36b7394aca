/* Codec handles, and what all codecs share: checks of arguments, forms of frames. */
#include "codec/codec_impl.h"
#include "base/arg.h"
#include "base/mem.h"
#include "base/sized.h"
#include "codec/array.h"
#include "kernel/kernel.h"
#include "telegrad/spec.h"
#include <stdlib.h>
#include <string.h>

static const tg_encode_context no_context = {.struct_size = sizeof(tg_encode_context)};

tg_status tg_codec_create(const char *spec, tg_codec **codec_p)
{
    TG__ARG(spec);
    TG__ARG(codec_p);
    TG_TRY(tg__kernel_check());
    size_t count;
    const tg_entry *const *entries = tg__codec_entries(&count);
    tg_spec *parsed;
    TG_TRY(tg_spec_parse("codec", entries, count, spec, &parsed));
    tg_codec *c;
    tg_status status = tg_alloc(1, sizeof(*c), &c);
    if (status != TG_OK) {
        tg_spec_free(parsed);
        return status;
    }
    c->spec = parsed;
    const tg__codec_ops *const *all = tg__codecs(&count);
    for (size_t i = 0; i < count; i++)
        if (&all[i]->entry == tg_spec_entry(parsed))
            c->ops = all[i];
    if (c->ops->init)
        status = c->ops->init(c);
    if (status != TG_OK) {
        tg_codec_destroy(c);
        return status;
    }
    *codec_p = c;
    return TG_OK;
}

void tg_codec_destroy(tg_codec *c)
{
    if (!c)
        return;
    if (c->ops->fini)
        c->ops->fini(c);
    tg__pool_destroy(c->own_pool);
    tg_spec_free((tg_spec *)(uintptr_t)c->spec); /* const for codecs; the handle owns it */
    free(c);
}

size_t tg_codec_memory(const tg_codec *codec)
{
    if (!codec)
        return 0;
    return codec->ops->memory ? codec->ops->memory(codec) : 0;
}

tg_status tg_codec_set_threads(tg_codec *codec, unsigned threads)
{
    TG__ARG(codec);
    tg__pool *pool = NULL;
    TG_TRY(tg__pool_create(threads, &pool));
    tg__pool_destroy(codec->own_pool);
    codec->pool = codec->own_pool = pool;
    return TG_OK;
}

size_t tg__codec_bound(const tg_codec *c, size_t n)
{
    return c->ops->bound(c, n);
}

size_t tg_codec_bound(const tg_codec *codec, size_t n)
{
    if (!codec)
        return 0;
    return tg__codec_bound(codec, n);
}

tg_status tg__codec_encode(tg_codec *c, const tg_encode_context *ctx, const float *x, size_t n,
                           tg__part *parts, size_t nparts, tg__view *view_p)
{
    return c->ops->encode(c, ctx ? ctx : &no_context, x, n, parts, nparts, view_p);
}

tg_status tg__array_check(const tg_array *x)
{
    if (!x || x->struct_size != sizeof(*x))
        return tg_fail(TG_E_ARG, "array: struct_size=%zu: sizeof(tg_array) is %zu",
                       x ? x->struct_size : 0, sizeof(*x));
    if (x->dtype != TG_F32)
        return tg_fail(TG_E_UNSUPPORTED, "array: dtype=%d: this build has TG_F32", (int)x->dtype);
    if (x->memory != TG_HOST)
        return tg_fail(TG_E_UNSUPPORTED, "array: memory=%d: this build has TG_HOST",
                       (int)x->memory);
    if (x->n > TG_MAX_ELEMENTS)
        return tg_fail(TG_E_ARG, "array: n=%zu: at most %zu", x->n, TG_MAX_ELEMENTS);
    if (x->n > 0 && !x->data)
        return tg_fail(TG_E_ARG, "array: data=NULL with n=%zu", x->n);
    if ((uintptr_t)x->data % sizeof(float) != 0)
        return tg_fail(TG_E_ARG, "array: data=%p: must be aligned to %zu bytes", x->data,
                       sizeof(float));
    return TG_OK;
}

static tg_status check_segments(const tg_encode_context *ctx, size_t n)
{
    size_t at = 0;
    for (size_t i = 0; i < ctx->nsegments; i++) {
        const tg_segment *s = &ctx->segments[i];
        if (s->begin != at || s->n > n - at)
            return tg_fail(TG_E_ARG, "encode context: segment %zu is [%zu, +%zu) of n=%zu: %s", i,
                           s->begin, s->n, n, "segments ascend without gaps");
        if (s->n > 0 && (s->rows == 0 || s->n % s->rows != 0 || s->cols != s->n / s->rows))
            return tg_fail(TG_E_ARG, "encode context: segment %zu is %zu x %zu of %zu elements", i,
                           s->rows, s->cols, s->n);
        at += s->n;
    }
    if (at != n)
        return tg_fail(TG_E_ARG, "encode context: segments end at %zu of n=%zu", at, n);
    return TG_OK;
}

tg_status tg_codec_encode(tg_codec *codec, const tg_encode_context *ctx, const tg_array *x,
                          void *dst, size_t dst_cap, size_t *len_p)
{
    TG__ARG(codec);
    TG__ARG(x);
    TG__ARG(dst);
    TG__ARG(len_p);
    tg_encode_context given = no_context;
    if (ctx)
        TG_TRY(tg__sized_in("tg_codec_encode: ctx", &given, sizeof given,
                            TG__FIRST_SIZE(tg_encode_context, memory), ctx));
    ctx = &given;
    if (!(ctx->density >= 0 && ctx->density <= 1))
        return tg_fail(TG_E_ARG, "encode context: density=%g: allowed: 0 <= density <= 1",
                       ctx->density);
    TG_TRY(tg__array_check(x));
    if (!ctx->segments && ctx->nsegments > 0)
        return tg_fail(TG_E_ARG,
                       "encode context: segments is NULL with nsegments=%zu: allowed: nsegments=0",
                       ctx->nsegments);
    if (ctx->segments)
        TG_TRY(check_segments(ctx, x->n));
    tg__stats stats;
    tg__kernel()->copy_stats(NULL, x->data, x->n, &stats);
    if (!stats.finite)
        return tg_fail(TG_E_NONFINITE, "encode: the vector of %zu holds NaN or infinity", x->n);
    static const float none[1];
    tg__part part = {.dst = dst, .cap = dst_cap, .lo = 0, .hi = x->n};
    TG_TRY(tg__codec_encode(codec, ctx, x->n > 0 ? x->data : none, x->n, &part, 1, NULL));
    *len_p = part.len;
    return TG_OK;
}

/* ---- for codecs ------------------------------------------------------------------------------ */

tg_status tg__encode_spoilt(const tg_codec *c)
{
    return tg_fail(TG_E_NONFINITE, "%s: the vector holds infinity", c->ops->entry.name);
}

tg_status tg__part_room(const tg__part *part, size_t len)
{
    if (len > part->cap)
        return tg_fail(TG_E_SPACE, "frame of elements [%zu, %zu): %zu bytes: %zu are needed",
                       part->lo, part->hi, part->cap, len);
    return TG_OK;
}

static void put_frame(tg__part *part, uint8_t wire_id, uint8_t form, uint16_t aux, size_t len)
{
    tg__frame_head(part->dst, wire_id, form, aux, part->hi - part->lo, len);
    part->len = TG__FRAME_HEAD + len;
    part->kept = form == TG__FORM_ZERO ? 0 : part->hi - part->lo;
}

void tg__part_zero(tg__part *part, uint8_t wire_id)
{
    put_frame(part, wire_id, TG__FORM_ZERO, 0, 0);
}

void tg__part_dense_placed(tg__part *part, uint8_t wire_id)
{
    put_frame(part, wire_id, TG__FORM_DENSE, 0, (part->hi - part->lo) * sizeof(float));
}

void tg__part_dense(tg__part *part, uint8_t wire_id, const float *x)
{
    tg__floats_put(part->dst + TG__FRAME_HEAD, x, part->hi - part->lo);
    tg__part_dense_placed(part, wire_id);
}

void tg__part_coded(tg__part *part, uint8_t wire_id, uint16_t aux, size_t payload_len)
{
    put_frame(part, wire_id, TG__FORM_CODED, aux, payload_len);
}

static tg__run run_at(const tg_encode_context *ctx, const tg__part *part, size_t lo, size_t segment)
{
    tg__run r = {.lo = lo, .hi = part->hi, .segment = segment, .ctx = ctx, .part = part};
    if (!ctx->segments) {
        r.of = (tg_segment){.n = part->hi, .rows = part->hi, .cols = 1};
        return r;
    }
    if (lo >= part->hi)
        return r;
    while (ctx->segments[r.segment].begin + ctx->segments[r.segment].n <= lo)
        r.segment++;
    r.of = ctx->segments[r.segment];
    r.hi = TG__MIN(part->hi, r.of.begin + r.of.n);
    return r;
}

tg__run tg__run_first(const tg_encode_context *ctx, const tg__part *part)
{
    return run_at(ctx, part, part->lo, 0);
}

tg__run tg__run_next(const tg__run *r)
{
    return run_at(r->ctx, r->part, r->hi, r->segment);
}

bool tg__all_zero(const uint8_t *p, size_t len)
{
    size_t i = 0;
    for (; i + 8 <= len; i += 8)
        if (tg__get64(p + i) != 0)
            return false;
    for (; i < len; i++)
        if (p[i] != 0)
            return false;
    return true;
}

void tg__floats_put(uint8_t *dst, const float *src, size_t n)
{
    if (n > 0)
        memcpy(dst, src, n * sizeof(*src));
}

void tg__floats_get(float *dst, const uint8_t *src, size_t n)
{
    if (n > 0)
        memcpy(dst, src, n * sizeof(*dst));
}

void tg__floats_add(float *dst, const uint8_t *src, size_t n)
{
    const tg__kernels *kernel = tg__kernel();
    if ((uintptr_t)src % sizeof(float) == 0) {
        kernel->add(dst, (const float *)(const void *)src, n);
        return;
    }
    float block[1024];
    for (size_t begin = 0; begin < n; begin += TG_COUNT(block)) {
        size_t m = TG__MIN(n - begin, TG_COUNT(block));
        tg__floats_get(block, src + begin * sizeof(float), m);
        kernel->add(dst + begin, block, m);
    }
}

tg_status tg__scratch(void *ptr_p, size_t *cap_p, size_t n, size_t size)
{
    if (n == 0)
        n = 1; /* never NULL: even adding 0 to NULL is undefined */
    if (n <= *cap_p)
        return TG_OK;
    void *old, *grown;
    TG_TRY(tg_alloc(n, size, &grown));
    memcpy(&old, ptr_p, sizeof(old)); /* ptr_p points to a pointer of any type */
    free(old);
    memcpy(ptr_p, &grown, sizeof(grown));
    *cap_p = n;
    return TG_OK;
}
