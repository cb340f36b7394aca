/* Codec handles, and what all codecs share: checks of arguments, forms of frames. */
#include "codec/codec_impl.h"
#include "base/arg.h"
#include "base/floats.h"
#include "base/mem.h"
#include "base/sized.h"
#include "base/spec_value.h"
#include "codec/array.h"
#include "codec/on_gpu.h"
#include "codec/segments.h"
#include "kernel/kernel.h"
#include "telegrad/spec.h"
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const tg_encode_context no_context = {.struct_size = sizeof(tg_encode_context)};

/* Create a codec from a spec, which belongs to the handle from now on; on failure it is freed. */
static tg_status create(tg_spec *spec, tg_codec **codec_p)
{
    tg_codec *c;
    size_t count, i = 0;
    const tg__codec_ops *const *all = tg__codecs(&count);
    tg_status status = tg_alloc(1, sizeof(*c), &c);
    if (status != TG_OK) {
        tg_spec_free(spec);
        return status;
    }
    while (&all[i]->entry != tg_spec_entry(spec))
        i++;
    c->spec = spec;
    c->ops = all[i];
    status = tg__owned_alloc(&c->owned, c->ops->impl_bytes, 1, &c->impl);
    if (status == TG_OK && c->ops->init)
        status = c->ops->init(c);
    if (status == TG_OK)
        *codec_p = c;
    else
        tg_codec_destroy(c);
    return status;
}

tg_status tg_codec_create(const char *spec, tg_codec **codec_p)
{
    TG__OWN_FLOATS;
    TG__ARGS(spec, codec_p);
    TG_TRY(tg__kernel_check());
    size_t count;
    const tg_entry *const *entries = tg__codec_entries(&count);
    tg_spec *parsed;
    TG_TRY(tg_spec_parse("codec", entries, count, spec, &parsed));
    return create(parsed, codec_p);
}

tg_status tg__codec_derive(const char *name, const tg_spec *settings, tg_codec **codec_p)
{
    size_t count;
    const tg_entry *const *entries = tg__codec_entries(&count);
    for (size_t i = 0; i < count; i++) {
        tg_spec *spec;
        if (strcmp(entries[i]->name, name) != 0)
            continue;
        TG_TRY(tg__spec_derive("codec", entries[i], settings, &spec));
        return create(spec, codec_p);
    }
    return tg_fail(TG_E_SPEC, "unknown codec \"%s\"", name);
}

void tg_codec_destroy(tg_codec *c)
{
    if (!c)
        return;
    if (c->ops->fini && c->impl)
        c->ops->fini(c);
    tg__device_side_free(c->device);
    tg__owned_free(&c->owned);
    tg__pool_destroy(c->own_pool);
    tg_spec_free((tg_spec *)(uintptr_t)c->spec); /* const for codecs; the handle owns it */
    free(c);
}

size_t tg_codec_memory(const tg_codec *codec)
{
    TG__OWN_FLOATS;
    if (!codec)
        return 0;
    return codec->ops->memory ? codec->ops->memory(codec) : 0;
}

tg_status tg_codec_set_threads(tg_codec *codec, unsigned threads)
{
    TG__ARG(codec);
    tg__pool *pool = NULL;
    if (threads < 1 || threads > TG__POOL_MAX)
        return tg_fail(TG_E_ARG, "tg_codec_set_threads: threads=%u: allowed: 1 to %u", threads,
                       TG__POOL_MAX);
    TG_TRY(tg__pool_create(threads, &pool));
    tg__pool_destroy(codec->own_pool);
    codec->pool = codec->own_pool = pool;
    return TG_OK;
}

size_t tg__codec_bound(const tg_codec *c, size_t n)
{
    return c->ops->bound ? c->ops->bound(c, n) : TG__FRAME_HEAD + n * sizeof(float);
}

size_t tg_codec_bound(const tg_codec *codec, size_t n)
{
    TG__OWN_FLOATS;
    return codec && n <= TG_MAX_ELEMENTS ? tg__codec_bound(codec, n) : 0;
}

tg_status tg__encode_parts(tg_codec *c, const tg_encode_context *ctx, const float *x, size_t n,
                           tg__part *parts, size_t nparts, tg__view *view_p)
{
    if (view_p)
        TG_TRY(tg__scratch(c, &c->decoded, n, sizeof(float)));
    for (size_t i = 0; i < nparts; i++) {
        tg__part *part = &parts[i];
        TG_TRY(tg__part_room(part, tg__codec_bound(c, part->hi - part->lo)));
        TG_TRY(c->ops->encode_part(c, ctx, x, part, view_p ? c->decoded + part->lo : NULL));
    }
    if (view_p)
        *view_p = (tg__view){.dense = c->decoded, .k = n};
    return TG_OK;
}

tg_status tg__codec_encode(tg_codec *c, const tg_encode_context *ctx, const float *x, size_t n,
                           tg__part *parts, size_t nparts, tg__view *view_p)
{
    return (c->ops->encode ? c->ops->encode : tg__encode_parts)(c, ctx ? ctx : &no_context, x, n,
                                                                parts, nparts, view_p);
}

tg_status tg__array_check(const char *call, const tg_array *x)
{
    if (x->struct_size != sizeof(*x))
        return tg_fail(TG_E_ARG, "%s: x->struct_size=%zu: sizeof(tg_array) is %zu", call,
                       x->struct_size, sizeof(*x));
    if (x->dtype != TG_F32)
        return tg_fail(TG_E_UNSUPPORTED, "%s: x->dtype=%d: this build has TG_F32", call,
                       (int)x->dtype);
    if (x->memory != TG_HOST && x->memory != TG_CUDA)
        return tg_fail(TG_E_ARG, "%s: x->memory=%d: allowed: TG_HOST, TG_CUDA", call,
                       (int)x->memory);
    if (x->memory == TG_CUDA && tg__device() == NULL)
        return tg_fail(TG_E_UNSUPPORTED,
                       "%s: x->memory=TG_CUDA: no GPU is attached: call tg_cuda_attach first "
                       "(libtelegrad-cuda)",
                       call);
    if (x->n > TG_MAX_ELEMENTS)
        return tg_fail(TG_E_ARG, "%s: x->n=%zu: at most %zu", call, x->n, TG_MAX_ELEMENTS);
    if (x->n > 0 && !x->data)
        return tg_fail(TG_E_ARG, "%s: x->data is NULL with n=%zu", call, x->n);
    if ((uintptr_t)x->data % sizeof(float) != 0)
        return tg_fail(TG_E_ARG, "%s: x->data=%p: must be aligned to %zu bytes", call, x->data,
                       sizeof(float));
    return TG_OK;
}

/* Check n values of the context; NULL: there are none. */
static tg_status check_values(const char *name, const float *v, size_t n, float least)
{
    if ((uintptr_t)v % sizeof(float) != 0)
        return tg_fail(TG_E_ARG, "tg_codec_encode: ctx->%s=%p: must be aligned to %zu bytes", name,
                       (const void *)v, sizeof(float));
    for (size_t i = 0; v && i < n; i++)
        if (!(v[i] >= least && v[i] <= FLT_MAX))
            return tg_fail(TG_E_ARG, "tg_codec_encode: ctx->%s[%zu]=%g: allowed: %s", name, i,
                           (double)v[i], least < 0 ? "finite numbers" : "finite numbers >= 0");
    return TG_OK;
}

static tg_status check_context(const tg_codec *c, const tg_encode_context *ctx, size_t n)
{
    const size_t segments = ctx->segments ? ctx->nsegments : 1;
    TG_TRY(check_values("gradient", ctx->gradient, n, -FLT_MAX));
    TG_TRY(check_values("scale", ctx->scale, segments, 0));
    TG_TRY(check_values("memory", ctx->memory, segments * tg_codec_memory(c), 0));
    if (!(ctx->density >= 0 && ctx->density <= 1))
        return tg_fail(TG_E_ARG, "tg_codec_encode: ctx->density=%g: allowed: 0 <= density <= 1",
                       ctx->density);
    if (ctx->segments)
        return tg__segments_check("tg_codec_encode: ctx->", ctx->segments, ctx->nsegments, n, 0);
    if (ctx->nsegments > 0)
        return tg_fail(TG_E_ARG,
                       "tg_codec_encode: ctx->segments is NULL with nsegments=%zu: allowed: "
                       "nsegments=0",
                       ctx->nsegments);
    return TG_OK;
}

static tg_status refuse_nonfinite(const float *x, size_t n)
{
    size_t i = 0;
    while (i + 1 < n && isfinite(x[i]))
        i++;
    return tg_fail(TG_E_NONFINITE,
                   "tg_codec_encode: element %zu of x is %g: allowed: finite numbers", i,
                   (double)x[i]);
}

tg_status tg_codec_encode(tg_codec *codec, const tg_encode_context *ctx, const tg_array *x,
                          void *dst, size_t dst_cap, size_t *len_p)
{
    TG__OWN_FLOATS;
    TG__ARGS(codec, x, dst, len_p);
    tg_encode_context given = no_context;
    if (ctx)
        TG_TRY(tg__sized_in("tg_codec_encode: ctx", &given, sizeof given,
                            TG__FIRST_SIZE(tg_encode_context, memory), ctx));
    ctx = &given;
    TG_TRY(tg__array_check("tg_codec_encode", x));
    TG_TRY(check_context(codec, ctx, x->n));
    if (x->memory == TG_CUDA)
        return tg__device_encode(codec, ctx, x, dst, dst_cap, len_p);
    if (tg__overlap(x->data, x->n * sizeof(float), dst,
                    TG__MIN(dst_cap, tg__codec_bound(codec, x->n))))
        return tg_fail(TG_E_ARG,
                       "tg_codec_encode: dst=%p overlaps x->data=%p: allowed: memory of its own",
                       dst, x->data);
    tg__stats stats;
    tg__kernel()->copy_stats(NULL, x->data, x->n, &stats);
    if (!stats.finite)
        return refuse_nonfinite(x->data, x->n);
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

tg_status tg__scratch(tg_codec *c, void *ptr_p, size_t n, size_t size)
{
    return tg__owned_room(&c->owned, ptr_p, n, size);
}
