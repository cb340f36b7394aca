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
#include "codec/quant/quant.h"
#include "telegrad/spec.h"
#include <string.h>

static tg_status init(tg_codec *c)
{
    const tg_spec *spec = c->spec;
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
    uint16_t aux = (uint16_t)(width | log << TG__QUANT_AUX_BUCKET);
    *(tg__quant *)c->impl = (tg__quant){
        .layout = {.width = width,
                   .bucket = (size_t)bucket,
                   .elias = strcmp(tg_spec_word(spec, "coding"), "elias") == 0},
        .aux = aux,
        .levels = levels > 0 ? (int)levels : most,
        .l2 = strcmp(tg_spec_word(spec, "norm"), "l2") == 0,
        .random = true,
        .rounds = strcmp(tg_spec_word(spec, "rounds"), "10") == 0 ? 10 : 7,
    };
    return TG_OK;
}

static const tg_key keys[] = {TG__QSGD_KEYS, {.name = NULL}};

static const char *const settings[] = {"bits=2,norm=l2",
                                       "bits=3,bucket=1024",
                                       "bits=5,levels=8,rounds=10",
                                       "bits=6,norm=l2",
                                       "bits=7,bucket=4096,norm=l2,coding=elias",
                                       "bits=8,coding=elias",
                                       "bits=4,norm=l2,levels=1,coding=elias",
                                       NULL};

const tg__codec_ops tg__codec_qsgd = {
    .entry = {"qsgd", "levels of a bucket's norm, rounded at random without bias",
              "Alistarh et al. 2017, arXiv:1610.02132", keys},
    .wire_id = TG__ID_qsgd,
    .properties = TG__UNBIASED | TG__CUTS | TG__TO_ZERO,
    .promise = {.settings = settings},
    .init = init,
    TG__QUANT_OPS,
};
