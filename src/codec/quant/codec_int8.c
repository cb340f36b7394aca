/* 8-bit integers with one scale per 512 elements:
 *
 *     scale = max |x| / 127, rounded up to 8 significant bits
 *     q = round to nearest even (x / scale), computed as x * (1 / scale)      decoded = q * scale
 *
 * aux 0; the payload is that of quant.h with buckets of 512 and codes of 8 bits.
 *
 * Source: block-wise quantisation as in Dettmers 2016, arXiv:1511.04561, with a linear code */
#include "base/mem.h"
#include "codec/quant/quant.h"

static const tg__quant_layout layout = {.width = 8, .bucket = 512};

static tg_status init(tg_codec *c)
{
    TG_TRY(tg_alloc(1, sizeof(tg__quant), &c->impl));
    *(tg__quant *)c->impl =
        (tg__quant){.layout = layout, .wire_id = TG__ID_int8, .levels = 127, .rounds = 7};
    return TG_OK;
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

static tg_status check(const tg__frame *f)
{
    if (f->aux != 0)
        return tg_fail(TG_E_CORRUPT, "int8 frame: aux=%#x: must be 0", f->aux);
    return tg__quant_check("int8", f, &layout);
}

static void decode(const tg__frame *f, size_t lo, size_t hi, float *dst, bool add)
{
    tg__quant_decode(f, &layout, lo, hi, dst, add);
}

const tg__codec_ops tg__codec_int8 = {
    .entry = {"int8", "8-bit integers, one scale per 512 elements", "", NULL},
    .wire_id = TG__ID_int8,
    .properties = TG__CUTS,
    .init = init,
    .fini = fini,
    .bound = bound,
    .encode = encode,
    .check = check,
    .decode = decode,
};
