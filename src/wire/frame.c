/* The head of a frame. */
#include "wire/frame.h"
#include "base/mem.h"

void tg__frame_head(uint8_t *dst, uint8_t codec, uint8_t form, uint16_t aux, size_t n,
                    size_t payload_len)
{
    dst[0] = codec;
    dst[1] = form;
    tg__put16(dst + 2, aux);
    tg__put32(dst + 4, (uint32_t)n);
    tg__put32(dst + 8, (uint32_t)payload_len);
}

tg_status tg__frame_split(const uint8_t *src, size_t len, size_t n, tg__frame *f_p)
{
    if (len < TG__FRAME_HEAD)
        return tg_fail(TG_E_CORRUPT, "frame: length=%zu: must be at least %u", len, TG__FRAME_HEAD);
    tg__frame f = {.codec = src[0],
                   .form = src[1],
                   .aux = tg__get16(src + 2),
                   .n = tg__get32(src + 4),
                   .payload = src + TG__FRAME_HEAD,
                   .payload_len = len - TG__FRAME_HEAD};
    uint32_t stated = tg__get32(src + 8);
    if (stated != f.payload_len)
        return tg_fail(TG_E_CORRUPT, "frame: payload length=%u, but %zu bytes arrived", stated,
                       f.payload_len);
    if (f.form > TG__FORM_ZERO)
        return tg_fail(TG_E_CORRUPT, "frame: form=%u: allowed: 0, 1, 2", f.form);
    if (f.n != n)
        return tg_fail(TG_E_MISMATCH, "frame: n=%u elements: expected %zu", f.n, n);
    if (f.form == TG__FORM_CODED) {
        *f_p = f;
        return TG_OK;
    }
    size_t want = f.form == TG__FORM_DENSE ? n * sizeof(float) : 0;
    if (f.payload_len != want)
        return tg_fail(TG_E_CORRUPT, "frame: form=%u: payload length=%zu: must be %zu for n=%zu",
                       f.form, f.payload_len, want, n);
    if (f.aux != 0)
        return tg_fail(TG_E_CORRUPT, "frame: form=%u: aux=%#x: must be 0", f.form, f.aux);
    *f_p = f;
    return TG_OK;
}
