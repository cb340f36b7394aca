/* Codecs over vectors on a device. What the backend cannot code is copied to the host and coded
 * there, which gives the same frames. */
#include "codec/on_gpu.h"
#include "base/arg.h"
#include "base/mem.h"
#include "base/sized.h"
#include "codec/codec_impl.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static _Atomic(const tg_device_ops *) backend;

const tg_device_ops *tg__device(void)
{
    return atomic_load_explicit(&backend, memory_order_acquire);
}

tg_status tg_device_register(const tg_device_ops *ops)
{
    TG__ARG(ops);
    TG_TRY(tg__sized_check("tg_device_register: ops", ops, sizeof *ops,
                           TG__FIRST_SIZE(tg_device_ops, decodes)));
    const tg_device_ops *none = NULL;
    if (!atomic_compare_exchange_strong(&backend, &none, ops) && none != ops)
        return tg_fail(TG_E_STATE, "tg_device_register: \"%s\" is registered already: allowed: one",
                       none->name);
    return TG_OK;
}

/* ---- encoding -------------------------------------------------------------------------------- */

struct tg__device_side {
    tg_queue *queue;
    int device;
    tg_coder *coder;      /* NULL with segments: the backend has none */
    size_t n, nsegments;  /* that the coder is for */
    tg_segment *segments; /* (nsegments) */
    float *host;          /* (host_n) a copy of the vector */
    size_t host_n;
};

static void drop_coder(tg__device_side *side)
{
    const tg_device_ops *ops = tg__device();
    ops->coder_destroy(side->coder);
    free(side->segments);
    side->coder = NULL;
    side->segments = NULL;
}

static void reset(tg__device_side *side)
{
    if (side->queue != NULL) {
        drop_coder(side);
        tg__device()->queue_destroy(side->queue);
    }
    free(side->host);
    *side = (tg__device_side){0};
}

void tg__device_side_free(tg__device_side *side)
{
    if (side != NULL)
        reset(side);
    free(side);
}

static tg_status room_on_host(tg__device_side *side, size_t n)
{
    if (side->host_n >= n && side->host != NULL)
        return TG_OK;
    free(side->host);
    side->host = NULL;
    TG_TRY(tg_alloc(n, sizeof *side->host, &side->host));
    side->host_n = n;
    return TG_OK;
}

static tg_status open_queue(tg__device_side *side, int device)
{
    if (side->queue != NULL && side->device == device)
        return TG_OK;
    reset(side);
    TG_TRY(tg__device()->queue_create(device, &side->queue));
    side->device = device;
    return TG_OK;
}

static bool same_segments(const tg__device_side *side, const tg_segment *s, size_t count)
{
    return side->nsegments == count &&
           memcmp(side->segments, s, count * sizeof *side->segments) == 0;
}

/* Have a coder for n elements in these segments, unless the backend has none. */
static tg_status have_coder(tg__device_side *side, const tg_codec *c, size_t n,
                            const tg_encode_context *ctx)
{
    tg_segment whole;
    memset(&whole, 0, sizeof whole); /* it is compared with its padding */
    whole.n = whole.rows = n;
    whole.cols = 1;
    const tg_segment *segments = ctx->segments == NULL ? &whole : ctx->segments;
    const size_t count = ctx->segments == NULL ? 1 : ctx->nsegments;
    if (side->segments != NULL && side->n == n && same_segments(side, segments, count))
        return TG_OK;
    drop_coder(side);
    TG_TRY(tg_alloc(count, sizeof *side->segments, &side->segments));
    memcpy(side->segments, segments, count * sizeof *segments);
    side->n = n;
    side->nsegments = count;
    const tg_coder_setup setup = {.struct_size = sizeof setup,
                                  .codec = c->ops->entry.name,
                                  .spec = c->spec,
                                  .feedback = "none",
                                  .n = n,
                                  .segments = side->segments,
                                  .nsegments = count};
    const tg_status status = tg__device()->coder_create(side->queue, &setup, &side->coder);
    if (status != TG_OK)
        side->coder = NULL;
    if (status != TG_OK && status != TG_E_UNSUPPORTED)
        drop_coder(side); /* so that the next call tries again */
    return status == TG_E_UNSUPPORTED ? TG_OK : status;
}

static tg_status encode_on_host(tg__device_side *side, tg_codec *c, const tg_encode_context *ctx,
                                const tg_array *x, void *dst, size_t dst_cap, size_t *len_p)
{
    TG_TRY(room_on_host(side, x->n));
    TG_TRY(tg__device()->copy_out(side->queue, side->host, x->data, x->n * sizeof(float)));
    TG_TRY(tg__device()->finish(side->queue));
    const tg_array copy = tg_array_f32(side->host, x->n);
    return tg_codec_encode(c, ctx, &copy, dst, dst_cap, len_p);
}

static tg_status refuse_nonfinite(const tg__device_side *side, const tg_array *x, size_t bad)
{
    float value = 0;
    TG_TRY(tg__device()->copy_out(side->queue, &value, (const float *)x->data + bad, sizeof value));
    TG_TRY(tg__device()->finish(side->queue));
    return tg_fail(TG_E_NONFINITE,
                   "tg_codec_encode: element %zu of x is %g: allowed: finite numbers", bad,
                   (double)value);
}

tg_status tg__device_encode(tg_codec *c, const tg_encode_context *ctx, const tg_array *x, void *dst,
                            size_t dst_cap, size_t *len_p)
{
    if (c->device == NULL)
        TG_TRY(tg_alloc(1, sizeof *c->device, &c->device));
    tg__device_side *side = c->device;
    TG_TRY(open_queue(side, x->device));
    TG_TRY(tg__device()->wait_for(side->queue, x->stream));
    const bool plain = x->n > 0 && ctx->gradient == NULL && ctx->scale == NULL;
    if (plain)
        TG_TRY(have_coder(side, c, x->n, ctx));
    /* A coder wants room for any frame of its vector. */
    if (!plain || side->coder == NULL || dst_cap < tg__codec_bound(c, x->n))
        return encode_on_host(side, c, ctx, x, dst, dst_cap, len_p);
    tg_coded coded = {.struct_size = sizeof coded};
    const tg_status status = tg__device()->encode(side->coder, ctx, x->data, dst, dst_cap, &coded);
    if (status == TG_E_NONFINITE && coded.bad < x->n)
        return refuse_nonfinite(side, x, coded.bad);
    TG_TRY(status);
    *len_p = coded.len;
    return TG_OK;
}

/* ---- decoding -------------------------------------------------------------------------------- */

static tg_status decode_on_host(tg_queue *q, const void *frame, size_t len, const tg_array *x,
                                bool add)
{
    const size_t bytes = x->n * sizeof(float);
    TG__FREED float *host = NULL;
    TG_TRY(tg_alloc(x->n, sizeof *host, &host));
    if (add) {
        TG_TRY(tg__device()->copy_out(q, host, x->data, bytes));
        TG_TRY(tg__device()->finish(q));
        tg__frame_decode_add(frame, len, host, NULL);
    } else {
        tg__frame_decode(frame, len, host, NULL);
    }
    TG_TRY(tg__device()->copy_in(q, x->data, host, bytes));
    return tg__device()->finish(q);
}

/* A queue that no call uses at present, so that not each one creates its own. */
typedef struct spare {
    tg_queue *queue;
    int device;
} spare;
static _Atomic(spare *) spare_queue;

static tg_status take_queue(int device, spare **own_p)
{
    spare *own = atomic_exchange(&spare_queue, NULL);
    if (own != NULL && own->device == device) {
        *own_p = own;
        return TG_OK;
    }
    if (own != NULL)
        tg__device()->queue_destroy(own->queue);
    free(own);
    TG_TRY(tg_alloc(1, sizeof *own, &own));
    const tg_status status = tg__device()->queue_create(device, &own->queue);
    if (status != TG_OK) {
        free(own);
        return status;
    }
    own->device = device;
    *own_p = own;
    return TG_OK;
}

static void return_queue(spare *own)
{
    spare *none = NULL;
    if (atomic_compare_exchange_strong(&spare_queue, &none, own))
        return;
    tg__device()->queue_destroy(own->queue);
    free(own);
}

tg_status tg__device_decode(const void *frame, size_t len, const tg_array *x, bool add)
{
    const tg_device_ops *ops = tg__device();
    const uint8_t *bytes = frame;
    spare *own = NULL;
    if (x->n == 0)
        return TG_OK;
    TG_TRY(take_queue(x->device, &own));
    tg_status status = ops->wait_for(own->queue, x->stream);
    if (status == TG_OK) /* both wait until x is valid */
        status = ops->decodes(tg__codec_by_id(bytes[0])->entry.name)
                     ? ops->decode(own->queue, &bytes, &len, 1, x->data, x->n, add, 1, NULL)
                     : decode_on_host(own->queue, frame, len, x, add);
    return_queue(own);
    return status;
}
