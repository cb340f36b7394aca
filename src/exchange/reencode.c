#include "exchange/message.h"
#include "base/mem.h"
#include "kernel/parallel.h"

/* Cut the tensors to [lo, lo + n), with positions counted from lo. */
static tg_status cut_segments(tg__exchange *x, size_t lo, size_t n, tg_encode_context *ctx)
{
    TG_TRY(tg__owned_room(&x->owned, &x->cut, ctx->nsegments, sizeof *x->cut));
    size_t count = 0;
    for (size_t i = 0; i < x->context.nsegments; i++) {
        const tg_segment *s = &x->context.segments[i];
        const size_t begin = TG__MAX(s->begin, lo), end = TG__MIN(s->begin + s->n, lo + n);
        if (begin < end)
            x->cut[count++] =
                (tg_segment){.begin = begin - lo, .n = end - begin, .rows = end - begin, .cols = 1};
    }
    ctx->segments = x->cut;
    ctx->nsegments = count;
    return TG_OK;
}

tg_status tg__reencode(tg__exchange *x, float *sum, size_t lo, size_t n, uint8_t *frame,
                       size_t *len_p)
{
    tg_encode_context ctx = x->context;
    tg__part part = {.dst = frame, .cap = tg__codec_bound(x->codec, n), .lo = 0, .hi = n};
    tg__view view = {0};
    ctx.struct_size = sizeof ctx;
    if (!tg__parallel_finite(x->pool, sum, n)) {
        x->overflow = true;
        tg__part_zero(&part, x->codec->ops->wire_id);
        *len_p = part.len;
        return TG_OK;
    }
    if (ctx.segments && n < x->n)
        TG_TRY(cut_segments(x, lo, n, &ctx));
    TG_TRY(tg__codec_encode(x->codec, &ctx, sum, n, &part, 1, &view));
    for (size_t i = 0; view.sparse && i < view.k; i++)
        sum[view.idx[i]] -= view.val[i];
    if (!view.sparse && n > 0)
        tg__parallel_sub(x->pool, sum, view.dense, n);
    *len_p = part.len;
    return TG_OK;
}
