/* f32: the vector itself, in dense frames. Payloads may be summed unread. */
#include "codec/codec_impl.h"

static size_t bound(const tg_codec *c, size_t n)
{
    (void)c;
    return TG__FRAME_HEAD + n * sizeof(float);
}

static tg_status encode(tg_codec *c, const tg_encode_context *ctx, const float *x, size_t n,
                        tg__part *parts, size_t nparts, tg__view *view_p)
{
    (void)ctx;
    for (size_t i = 0; i < nparts; i++) {
        TG_TRY(tg__part_room(&parts[i], bound(c, parts[i].hi - parts[i].lo)));
        tg__part_dense(&parts[i], TG__ID_f32, x + parts[i].lo);
    }
    if (view_p)
        *view_p = (tg__view){.sparse = false, .dense = x, .k = n};
    return TG_OK;
}

/* The dense form is the only one that is ever written. */
static tg_status check(const tg__frame *f)
{
    return tg_fail(TG_E_CORRUPT, "f32 frame: form=%u: allowed: 1, 2", f->form);
}

static void decode(const tg__frame *f, size_t lo, size_t hi, float *dst, bool add)
{
    (add ? tg__floats_add : tg__floats_get)(dst + lo, f->payload + lo * sizeof(float), hi - lo);
}

const tg__codec_ops tg__codec_f32 = {
    .entry = {"f32", "no compression", "", NULL},
    .wire_id = TG__ID_f32,
    .properties = TG__LINEAR | TG__LOSSLESS,
    .bound = bound,
    .encode = encode,
    .check = check,
    .decode = decode,
};
