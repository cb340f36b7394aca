/* 8-bit integers with one scale per 512 elements:
 *
 *     scale = max |x| / 127, rounded up to 8 significant bits
 *     q = round to nearest even (x / scale), computed as x * (1 / scale)      decoded = q * scale
 *
 * aux 0; the payload is that of quant.h with buckets of 512 and codes of 8 bits.
 *
 * Source: block-wise quantisation as in Dettmers 2016, arXiv:1511.04561, with a linear code */
#include "codec/quant/quant.h"

static tg_status init(tg_codec *c)
{
    *(tg__quant *)c->impl = (tg__quant){.layout = TG__QUANT_INT8, .levels = 127, .rounds = 7};
    return TG_OK;
}

const tg__codec_ops tg__codec_int8 = {
    .entry = {"int8", "8-bit integers, one scale per 512 elements", "", NULL},
    .wire_id = TG__ID_int8,
    .properties = TG__CUTS,
    .promise = {.share = 1.0 / 253},
    .init = init,
    TG__QUANT_OPS,
};
