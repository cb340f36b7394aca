/* 16-bit floats, round to nearest even, saturating: the payload is n little-endian words. */
#include "base/mem.h"
#include "codec/codec_impl.h"
#include "kernel/kernel.h"
#include <stdatomic.h>

enum { STEP = 8192 }; /* elements */

/* The kernels of one format. */
typedef struct format {
    void (*encode)(void *dst, const float *src, size_t n);
    void (*decode)(float *dst, const void *src, size_t n);
    void (*decode_add)(float *dst, const void *src, size_t n);
} format;

static format format_of(uint8_t wire_id)
{
    const tg__kernels *k = tg__kernel();
    return wire_id == TG__ID_fp16 ? (format){k->f16_encode, k->f16_decode, k->f16_decode_add}
                                  : (format){k->bf16_encode, k->bf16_decode, k->bf16_decode_add};
}

static size_t bound(const tg_codec *c, size_t n)
{
    (void)c;
    return TG__FRAME_HEAD + n * sizeof(uint16_t);
}

/* The encoding of one part, shared by the cores of a pool. */
typedef struct job {
    format h;
    const float *x;    /* (n) of the part */
    uint8_t *payload;  /* (2 n) */
    float *decoded;    /* (n) NULL: not wanted */
    atomic_bool coded; /* some word is not 0 */
} job;

/* In steps that stay in the cache for the passes that follow. */
static void encode_range(void *arg, size_t lo, size_t hi)
{
    job *j = arg;
    for (size_t at = lo; at < hi; at += STEP) {
        size_t m = TG__MIN(hi - at, (size_t)STEP);
        j->h.encode(j->payload + 2 * at, j->x + at, m);
        if (!atomic_load_explicit(&j->coded, memory_order_relaxed) &&
            !tg__all_zero(j->payload + 2 * at, 2 * m))
            atomic_store_explicit(&j->coded, true, memory_order_relaxed);
        if (j->decoded)
            j->h.decode(j->decoded + at, j->payload + 2 * at, m);
    }
}

static tg_status encode_part(tg_codec *c, const tg_encode_context *ctx, const float *x,
                             tg__part *part, float *decoded)
{
    (void)ctx;
    const size_t n = part->hi - part->lo;
    job j = {.h = format_of(c->ops->wire_id),
             .x = x + part->lo,
             .payload = part->dst + TG__FRAME_HEAD,
             .decoded = decoded};
    tg__pool_chunks(c->pool, n, TG__CHUNK, encode_range, &j);
    if (j.coded)
        tg__part_coded(part, c->ops->wire_id, 0, 2 * n);
    else
        tg__part_zero(part, c->ops->wire_id);
    return TG_OK;
}

static tg_status check(const tg__frame *f)
{
    if (f->aux != 0)
        return tg_fail(TG_E_CORRUPT, "16-bit frame: aux=%#x: must be 0", f->aux);
    if (f->payload_len != 2 * (size_t)f->n)
        return tg_fail(TG_E_CORRUPT, "16-bit frame: payload length=%zu: must be %zu for n=%u",
                       f->payload_len, 2 * (size_t)f->n, f->n);
    return TG_OK;
}

static void decode(const tg__frame *f, size_t lo, size_t hi, float *dst, bool add)
{
    const format h = format_of(f->codec);
    (add ? h.decode_add : h.decode)(dst + lo, f->payload + 2 * lo, hi - lo);
}

#define HALF_OPS .bound = bound, .encode_part = encode_part, .check = check, .decode = decode

const tg__codec_ops tg__codec_fp16 = {
    .entry = {"fp16", "IEEE binary16, round to nearest even, saturating at +-65504", "", NULL},
    .wire_id = TG__ID_fp16,
    .promise = {.relative = 0x1p-11, .absolute = 0x1p-25},
    HALF_OPS,
};

const tg__codec_ops tg__codec_bf16 = {
    .entry = {"bf16", "bfloat16, round to nearest even, saturating", "", NULL},
    .wire_id = TG__ID_bf16,
    .promise = {.relative = 0x1p-8},
    HALF_OPS,
};
