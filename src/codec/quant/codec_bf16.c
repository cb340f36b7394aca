/* bf16: bfloat16, round to nearest even, saturating. */
#include "codec/quant/half.h"
#include "kernel/kernel.h"

static tg__half_format format(void)
{
    const tg__kernels *k = tg__kernel();
    return (tg__half_format){TG__ID_bf16, k->bf16_encode, k->bf16_decode, k->bf16_decode_add};
}

static tg_status encode(tg_codec *c, const tg_encode_context *ctx, const float *x, size_t n,
                        tg__part *parts, size_t nparts, tg__view *view_p)
{
    (void)ctx;
    tg__half_format h = format();
    return tg__half_encode(c, &h, x, n, parts, nparts, view_p);
}

static void decode(const tg__frame *f, size_t lo, size_t hi, float *dst, bool add)
{
    tg__half_format h = format();
    tg__half_decode(&h, f, lo, hi, dst, add);
}

const tg__codec_ops tg__codec_bf16 = {
    .entry = {"bf16", "bfloat16, round to nearest even, saturating", "", NULL},
    .wire_id = TG__ID_bf16,
    .init = tg__half_init,
    .fini = tg__half_fini,
    .bound = tg__half_bound,
    .encode = encode,
    .check = tg__half_check,
    .decode = decode,
};
