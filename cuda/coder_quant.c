/* int8 and qsgd, with feedback none or residual.
 *
 * There is no coder for coding=elias, whose length depends on the data and whose bits are written
 * one after another, nor for vectors so short that a frame may be dense. The host codes these.
 * Frames in Elias coding that arrive are decoded on the host. */
#include "elementwise.h"
#include "known_frame.h"
#include "philox.h"
#include "quant.h"
#include "base/mem.h"
#include "kernel/pack.h"
#include "telegrad/codec.h"
#include "telegrad/spec.h"
#include "telegrad/tools.h"
#include "wire/frame.h"

#include <stdlib.h>
#include <string.h>

/* As in codec/quant/quant.h. */
enum { ID_INT8 = 6, ID_QSGD = 7, UNIT_BYTES = 2, SMALL = 8 };
enum { AUX_BUCKET = 4, AUX_ELIAS = 1 << 7 };
_Static_assert((unsigned)TG__QUANT_BLOCK == TG__PACK_BLOCK, "the kernels pack the same blocks");

typedef struct quant {
    tg__known_frame frame;
    tg__quant_pass pass; /* all but g and key */
    uint16_t aux;
} quant;

/* ---- settings -------------------------------------------------------------------------------- */

static void read_settings(const tg_coder *c, quant *q)
{
    const tg_spec *spec = c->setup.spec;
    tg__quant_pass *p = &q->pass;
    if (strcmp(c->ops->codec, "int8") == 0) {
        p->width = 8;
        p->bucket = TG__PACK_BLOCK;
        p->levels = 127;
        return;
    }
    const int64_t bucket = tg_spec_int(spec, "bucket"), levels = tg_spec_int(spec, "levels");
    unsigned log = 0;
    while (bucket >> (log + 9) > 1)
        log++;
    p->width = (unsigned)tg_spec_int(spec, "bits");
    p->bucket = (unsigned)bucket;
    p->levels = levels > 0 ? (int)levels : (1 << (p->width - 1)) - 1;
    p->l2 = strcmp(tg_spec_word(spec, "norm"), "l2") == 0;
    p->rounds = strcmp(tg_spec_word(spec, "rounds"), "10") == 0 ? 10 : 7;
    p->random = true;
    q->aux = (uint16_t)(p->width | log << AUX_BUCKET);
}

static tg_status init(tg_coder *c)
{
    quant *q = c->impl;
    tg__quant_pass *p = &q->pass;
    const size_t n = c->setup.n;
    const bool residual = strcmp(c->setup.feedback, "residual") == 0;
    if (!residual && strcmp(c->setup.feedback, "none") != 0)
        return tg_fail(TG_E_UNSUPPORTED, "codec %s: feedback=%s: allowed: none, residual",
                       c->ops->codec, c->setup.feedback);
    read_settings(c, q);
    if (p->random && strcmp(tg_spec_word(c->setup.spec, "coding"), "elias") == 0)
        return tg_fail(TG_E_UNSUPPORTED, "codec qsgd: coding=elias: the GPU has coding=fixed");
    const size_t units = (n + p->bucket - 1) / p->bucket * UNIT_BYTES;
    const size_t len = units + tg__packed_bytes(n, p->width);
    if (n < SMALL && len >= n * sizeof(float))
        return tg_fail(TG_E_UNSUPPORTED, "codec %s: n=%zu: too few for the GPU", c->ops->codec, n);
    TG_TRY(tg__known_frame_init(c->queue, &q->frame, len, units));
    p->r = residual ? c->setup.vector[0] : NULL;
    p->n = n;
    p->units = q->frame.payload;
    p->packed = q->frame.payload + units;
    p->bad = c->bad;
    p->flags = q->frame.flags;
    return TG_OK;
}

static void fini(tg_coder *c)
{
    tg__known_frame_fini(&((quant *)c->impl)->frame);
}

/* ---- encoding -------------------------------------------------------------------------------- */

/* tg__rng_derive of the library. */
static void derive(const tg_rng_key *key, uint32_t stream[2])
{
    const uint32_t first[4] = {(uint32_t)key->step, (uint32_t)(key->step >> 32), key->purpose,
                               key->rank};
    uint32_t a[4], b[4];
    tg__gpu_philox(first, (uint32_t)key->seed, (uint32_t)(key->seed >> 32), 10, a);
    const uint32_t second[4] = {a[2], a[3], key->tensor, 1};
    tg__gpu_philox(second, a[0], a[1], 10, b);
    stream[0] = b[0];
    stream[1] = b[1];
}

static tg_status encode(tg_coder *c, const tg_encode_context *ctx, const float *g, void *dst,
                        size_t dst_cap, tg_coded *coded)
{
    const quant *q = c->impl;
    tg__quant_pass pass = q->pass;
    (void)dst_cap;
    pass.g = g;
    TG_TRY(tg__known_frame_begin(c->queue, &q->frame));
    if (pass.random) {
        derive(&ctx->rng, pass.key);
        TG__GPU(tg__quant_encode_random(&pass, c->queue->stream));
    } else {
        TG__GPU(tg__quant_encode_nearest(&pass, c->queue->stream));
    }
    return tg__known_frame_end(c, &q->frame, dst, pass.random ? ID_QSGD : ID_INT8, q->aux, coded);
}

/* ---- decoding -------------------------------------------------------------------------------- */

/* Values in host memory go through pinned memory that the kernel reads. */
static tg_status sum_of_host(tg_queue *q, const float *values, float *x, size_t n, bool first,
                             bool last, float share, uint64_t *spoilt)
{
    const size_t piece = (size_t)1 << 20; /* elements */
    TG_TRY(tg__gpu_room(q, &q->staging, piece * sizeof *values));
    for (size_t at = 0; at < n; at += piece) {
        const size_t m = TG__MIN(n - at, piece);
        TG_TRY(tg__gpu_finish(q)); /* an earlier piece, or copy, may still be read */
        memcpy(q->staging.data, values + at, m * sizeof *values);
        TG__GPU(tg__gpu_sum(q->stream, x + at, q->staging.data, m, first, last, share, spoilt));
    }
    return tg__gpu_finish(q);
}

static tg_status decode_elias(tg_queue *q, const uint8_t *host, size_t len, float *x, size_t n,
                              bool first, bool last, float share, uint64_t *spoilt)
{
    float *values;
    TG_TRY(tg_alloc(n, sizeof *values, &values));
    tg_array decoded = tg_array_f32(values, n);
    tg_status status = tg_frame_decode(host, len, &decoded);
    if (status == TG_OK)
        status = sum_of_host(q, values, x, n, first, last, share, spoilt);
    free(values);
    return status;
}

static tg_status decode(tg_queue *q, const uint8_t *host, const uint8_t *frame, size_t len,
                        float *x, size_t n, bool first, bool last, float share, uint64_t *spoilt)
{
    const unsigned aux = tg__get16(host + 2);
    const bool int8 = host[0] == ID_INT8;
    const unsigned width = int8 ? 8 : aux & 15;
    const unsigned bucket = int8 ? TG__PACK_BLOCK : TG__PACK_BLOCK << (aux >> AUX_BUCKET & 7);
    if (!int8 && (aux & AUX_ELIAS) != 0)
        return decode_elias(q, host, len, x, n, first, last, share, spoilt);
    const size_t units = (n + bucket - 1) / bucket * 2;
    if (width < 2 || width > 8 || TG__FRAME_HEAD + units + tg__packed_bytes(n, width) > len)
        return tg_fail(TG_E_CORRUPT, "a frame has changed since it was checked");
    TG__GPU(tg__quant_decode_fixed(frame + TG__FRAME_HEAD, width, bucket, x, n, first, last, share,
                                   spoilt, q->stream));
    return TG_OK;
}

#define QUANT_OPS \
    .impl_bytes = sizeof(quant), .init = init, .fini = fini, .encode = encode, .decode = decode

const tg__coder_ops tg__coder_int8 = {.codec = "int8", QUANT_OPS};
const tg__coder_ops tg__coder_qsgd = {.codec = "qsgd", QUANT_OPS};
