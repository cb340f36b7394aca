/* QSGD: levels between 0 and the norm of a bucket, with unbiased random rounding:
 *
 *     unit = norm / levels, rounded up to 8 significant bits
 *     code = floor(x / unit + u), u uniform in [0, 1)
 *     decoded = code * unit      E[decoded] = x
 *
 * So |x| is rounded up with the probability of its fraction, for either sign. u has 16 bits, so
 * E[decoded] is off by less than 2^-16 of a level. The payload is that of quant.h.
 *
 *     aux bits 0..3 width, 4..6 log2(bucket / 512), 7 Elias coding
 *
 * Source: Alistarh et al. 2017, arXiv:1610.02132, sec. 3 and app. A.2 */
#include "codec/quant/codec_qsgd.h"
#include "base/mem.h"
#include "codec/quant/quant.h"
#include "telegrad/spec.h"
#include <string.h>

enum { AUX_BUCKET = 4, AUX_ELIAS = 1 << 7 };

static tg_status settings(const tg_spec *spec, tg__quant *q)
{
    int64_t bucket = tg_spec_int(spec, "bucket"), levels = tg_spec_int(spec, "levels");
    unsigned width = (unsigned)tg_spec_int(spec, "bits"), log = 0;
    const int most = (1 << (width - 1)) - 1;
    while (bucket >> (log + 9) > 1)
        log++;
    if (bucket != (int64_t)512 << log)
        return tg_fail(TG_E_SPEC, "codec \"qsgd\": bucket=%lld: allowed: 512, 1024, ..., 65536",
                       (long long)bucket);
    if (levels > most)
        return tg_fail(TG_E_SPEC, "codec \"qsgd\": levels=%lld: allowed with bits=%u: 0 to %d",
                       (long long)levels, width, most);
    uint16_t aux = (uint16_t)(width | log << AUX_BUCKET);
    *q = (tg__quant){
        .layout = {.width = width,
                   .bucket = (size_t)bucket,
                   .elias = strcmp(tg_spec_word(spec, "coding"), "elias") == 0},
        .wire_id = TG__ID_qsgd,
        .aux = aux,
        .aux_elias = aux | AUX_ELIAS,
        .levels = levels > 0 ? (int)levels : most,
        .l2 = strcmp(tg_spec_word(spec, "norm"), "l2") == 0,
        .random = true,
        .rounds = strcmp(tg_spec_word(spec, "rounds"), "10") == 0 ? 10 : 7,
    };
    return TG_OK;
}

static tg_status init(tg_codec *c)
{
    TG_TRY(tg_alloc(1, sizeof(tg__quant), &c->impl));
    return settings(c->spec, c->impl);
}

static void fini(tg_codec *c)
{
    tg__quant_free(c->impl);
}

static size_t bound(const tg_codec *c, size_t n)
{
    return tg__quant_bound(c->impl, n);
}

static tg_status encode(tg_codec *c, const tg_encode_context *ctx, const float *x, size_t n,
                        tg__part *parts, size_t nparts, tg__view *view_p)
{
    return tg__quant_encode(c, c->impl, ctx, x, n, parts, nparts, view_p);
}

static tg__quant_layout layout_of(const tg__frame *f)
{
    return (tg__quant_layout){.width = f->aux & 15,
                              .bucket = (size_t)512 << (f->aux >> AUX_BUCKET & 7),
                              .elias = (f->aux & AUX_ELIAS) != 0};
}

static tg_status check(const tg__frame *f)
{
    const tg__quant_layout layout = layout_of(f);
    if (f->aux >> 8 != 0 || layout.width < 2 || layout.width > 8)
        return tg_fail(TG_E_CORRUPT, "qsgd frame: aux=%#x: width=%u: 2 to 8; upper byte 0", f->aux,
                       layout.width);
    return tg__quant_check("qsgd", f, &layout);
}

static void decode(const tg__frame *f, size_t lo, size_t hi, float *dst, bool add)
{
    const tg__quant_layout layout = layout_of(f);
    tg__quant_decode(f, &layout, lo, hi, dst, add);
}

static const tg_key keys[] = {TG__QSGD_KEYS, {.name = NULL}};

const tg__codec_ops tg__codec_qsgd = {
    .entry = {"qsgd", "levels of a bucket's norm, rounded at random without bias",
              "Alistarh et al. 2017, arXiv:1610.02132", keys},
    .wire_id = TG__ID_qsgd,
    .properties = TG__UNBIASED | TG__CUTS,
    .init = init,
    .fini = fini,
    .bound = bound,
    .encode = encode,
    .check = check,
    .decode = decode,
};
