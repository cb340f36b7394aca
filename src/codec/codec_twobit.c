/* 2-bit quantisation with a fixed threshold:
 *
 *     decoded = +threshold where x >= threshold, -threshold where x <= -threshold, else 0
 *
 * payload: threshold as f32, then the bit planes of kernel.h. What is not sent is the feedback's to
 * remember.
 *
 * Source: MXNet, kvstore gradient compression type 2bit (threshold 0.5 by default); its bytes are
 * laid out otherwise, and its unit is the gradient summed over the batch. */
#include "codec/codec_twobit.h"
#include "base/mem.h"
#include "kernel/kernel.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { AT_PLANES = 4 };

typedef struct twobit {
    float threshold;
    float *decoded; /* the view */
    size_t cap;
} twobit;

static tg_status init(tg_codec *c)
{
    double wish = tg_spec_real(c->spec, "threshold");
    float threshold = (float)wish;
    if (!(threshold > 0) || !isfinite(threshold))
        return tg_fail(TG_E_SPEC, "codec \"2bit\": threshold=%g: must be a positive f32", wish);
    TG_TRY(tg__alloc(1, sizeof(twobit), &c->impl));
    ((twobit *)c->impl)->threshold = threshold;
    return TG_OK;
}

static void fini(tg_codec *c)
{
    twobit *own = c->impl;
    if (own)
        free(own->decoded);
    free(own);
}

float tg__twobit_threshold(const tg_codec *c)
{
    return ((const twobit *)c->impl)->threshold;
}

static bool is_dense(size_t n)
{
    return AT_PLANES + tg__twobit_bytes(n) >= n * sizeof(float); /* n < 2 */
}

static size_t bound(const tg_codec *c, size_t n)
{
    (void)c;
    return TG__FRAME_HEAD + (is_dense(n) ? n * sizeof(float) : AT_PLANES + tg__twobit_bytes(n));
}

uint8_t *tg__twobit_place(const tg__part *part, uint8_t small[TG__TWOBIT_SMALL])
{
    return is_dense(part->hi - part->lo) ? small : part->dst + TG__FRAME_HEAD + AT_PLANES;
}

void tg__twobit_finish(tg__part *part, float threshold, const uint8_t *planes)
{
    size_t n = part->hi - part->lo, bytes = tg__twobit_bytes(n);
    if (tg__all_zero(planes, bytes)) {
        tg__part_zero(part, TG__ID_twobit);
    } else if (is_dense(n)) {
        float decoded[1];
        tg__kernel()->twobit_decode(decoded, planes, n, threshold);
        tg__part_dense(part, TG__ID_twobit, decoded);
    } else {
        tg__floats_put(part->dst + TG__FRAME_HEAD, &threshold, 1);
        tg__part_coded(part, TG__ID_twobit, 0, AT_PLANES + bytes);
    }
}

static tg_status encode(tg_codec *c, const tg_encode_context *ctx, const float *x, size_t n,
                        tg__part *parts, size_t nparts, tg__view *view_p)
{
    (void)ctx;
    twobit *own = c->impl;
    const tg__kernels *kernel = tg__kernel();
    if (view_p)
        TG_TRY(tg__scratch(&own->decoded, &own->cap, n, sizeof(float)));
    for (size_t i = 0; i < nparts; i++) {
        tg__part *part = &parts[i];
        size_t m = part->hi - part->lo;
        uint8_t small[TG__TWOBIT_SMALL];
        TG_TRY(tg__part_room(part, bound(c, m)));
        uint8_t *planes = tg__twobit_place(part, small);
        kernel->twobit_encode(x + part->lo, m, own->threshold, planes);
        if (view_p)
            kernel->twobit_decode(own->decoded + part->lo, planes, m, own->threshold);
        tg__twobit_finish(part, own->threshold, planes);
    }
    if (view_p)
        *view_p = (tg__view){.sparse = false, .dense = own->decoded, .k = n};
    return TG_OK;
}

static float threshold_of(const tg__frame *f)
{
    float threshold;
    tg__floats_get(&threshold, f->payload, 1);
    return threshold;
}

static tg_status check(const tg__frame *f)
{
    size_t want = AT_PLANES + tg__twobit_bytes(f->n);
    if (f->aux != 0)
        return tg_fail(TG_E_CORRUPT, "2bit frame: aux=%#x: must be 0", f->aux);
    if (f->payload_len != want)
        return tg_fail(TG_E_CORRUPT, "2bit frame: payload length=%zu: %zu for n=%u", f->payload_len,
                       want, f->n);
    float threshold = threshold_of(f);
    if (!(threshold > 0) || !isfinite(threshold))
        return tg_fail(TG_E_CORRUPT, "2bit frame: threshold=%g: must be > 0 and finite",
                       (double)threshold);
    if (!tg__kernel()->twobit_valid(f->payload + AT_PLANES, f->n))
        return tg_fail(TG_E_CORRUPT, "2bit frame: a bit is set in both planes or in the padding");
    return TG_OK;
}

static void decode(const tg__frame *f, size_t lo, size_t hi, float *dst, bool add)
{
    const tg__kernels *k = tg__kernel();
    (add ? k->twobit_decode_add : k->twobit_decode)(
        dst + lo, f->payload + AT_PLANES + tg__twobit_bytes(lo), hi - lo, threshold_of(f));
}

static const tg_key keys[] = {
    {.name = "threshold",
     .type = TG_KEY_REAL,
     .def = "0.5",
     .min = 0,
     .max = 1e30,
     .min_open = true,
     .help = "what is sent, in units of the gradient (mean over the batch; MXNet's is of the sum)"},
    {.name = NULL},
};

const tg__codec_ops tg__codec_twobit = {
    .entry = {"2bit", "three levels: -threshold, 0, threshold",
              "MXNet kvstore two-bit gradient compression", keys},
    .wire_id = TG__ID_twobit,
    .init = init,
    .fini = fini,
    .bound = bound,
    .encode = encode,
    .check = check,
    .decode = decode,
};
