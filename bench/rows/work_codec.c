/* A codec alone, without error feedback. */
#include "bench/rows/bench_impl.h"
#include "base/mem.h"
#include "telegrad/random.h"
#include <stdlib.h>

static tg_status encode(work_codec *w)
{
    const tg_encode_context ctx = {
        .struct_size = sizeof ctx,
        .rng = {.seed = 1, .purpose = TG_PURPOSE_CODEC, .step = w->step}};
    const float *x = w->b->g[w->step++ % 2];
    return tg__codec_encode(w->c, &ctx, x, w->b->n, &w->part, 1, NULL);
}

static tg_status make(work_codec *w, const char *spec)
{
    bench *b = w->b;
    TG_TRY(tg_codec_create(spec, &w->c));
    w->c->pool = b->pool;
    size_t cap = tg__codec_bound(w->c, b->n);
    TG_TRY(tg_alloc(cap, 1, &w->part.dst));
    w->part.cap = cap;
    w->part.hi = b->n;
    TG_TRY(encode(w));
    TG_TRY(tg__frame_check(w->part.dst, w->part.len, b->n, -1));
    tg__frame_decode(w->part.dst, w->part.len, b->out, b->pool);
    w->error_norm = bench_error_norm(b->g[0], b->out, b->n);
    w->bits = 8 * (double)w->part.len / (double)b->n;
    return TG_OK;
}

tg_status work_codec_open(work_codec *w, bench *b, const char *spec)
{
    *w = (work_codec){.b = b};
    return make(w, spec);
}

void work_codec_close(work_codec *w)
{
    tg_codec_destroy(w->c);
    free(w->part.dst);
    *w = (work_codec){0};
}

tg_status work_codec_encode(void *arg, int64_t *ns_p)
{
    work_codec *w = arg;
    int64_t begin = bench_now(w->b);
    TG_TRY(encode(w));
    *ns_p += bench_now(w->b) - begin;
    return TG_OK;
}

tg_status work_codec_decode(void *arg, int64_t *ns_p)
{
    work_codec *w = arg;
    int64_t begin = bench_now(w->b);
    TG_TRY(tg__frame_check(w->part.dst, w->part.len, w->b->n, -1));
    tg__frame_decode_add(w->part.dst, w->part.len, w->b->out, w->b->pool);
    *ns_p += bench_now(w->b) - begin;
    return TG_OK;
}
