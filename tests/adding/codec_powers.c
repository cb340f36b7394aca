/* Powers of two: one byte per element, with its sign and 7 bits of its exponent. */
#include "base/mem.h"
#include "codec/codec_impl.h"
#include <math.h>

enum { LOWEST = -63 }; /* code c in 1..127 is 2^(LOWEST + c - 1); code 0 is 0 */

static size_t bound(const tg_codec *c, size_t n)
{
    (void)c;
    return TG__FRAME_HEAD + n;
}

static uint8_t code_of(float x)
{
    int exponent;
    if (x == 0)
        return 0;
    (void)frexpf(x, &exponent); /* |x| >= 2^(exponent - 1) */
    const int code = TG__MIN(exponent - 1 - LOWEST + 1, 127);
    return code < 1 ? 0 : (uint8_t)(code | (signbit(x) ? 128 : 0));
}

static float value_of(uint8_t code)
{
    const int magnitude = code & 127;
    const float x = magnitude ? ldexpf(1, LOWEST + magnitude - 1) : 0;
    return code & 128 ? -x : x;
}

static tg_status encode_part(tg_codec *c, const tg_encode_context *ctx, const float *x,
                             tg__part *part, float *decoded)
{
    (void)ctx;
    (void)c;
    const size_t len = part->hi - part->lo;
    uint8_t *payload = part->dst + TG__FRAME_HEAD;
    for (size_t i = 0; i < len; i++) {
        payload[i] = code_of(x[part->lo + i]);
        if (decoded)
            decoded[i] = value_of(payload[i]);
    }
    if (tg__all_zero(payload, len))
        tg__part_zero(part, TG__ID_powers);
    else
        tg__part_coded(part, TG__ID_powers, 0, len);
    return TG_OK;
}

static tg_status check(const tg__frame *f)
{
    if (f->payload_len != f->n || f->aux != 0)
        return tg_fail(TG_E_CORRUPT, "powers: %zu bytes for %u elements", f->payload_len, f->n);
    for (size_t i = 0; i < f->n; i++)
        if (f->payload[i] == 128)
            return tg_fail(TG_E_CORRUPT, "powers: element %zu is -0", i);
    return tg__all_zero(f->payload, f->n) ? tg_fail(TG_E_CORRUPT, "powers: all zero") : TG_OK;
}

static void decode(const tg__frame *f, size_t lo, size_t hi, float *dst, bool add)
{
    for (size_t i = lo; i < hi; i++)
        dst[i] = value_of(f->payload[i]) + (add ? dst[i] : 0);
}

const tg__codec_ops tg__codec_powers = {
    .entry = {"powers", "the nearest power of two towards zero", "", NULL},
    .wire_id = TG__ID_powers,
    .promise = {.relative = 0.5, .absolute = 0x1p-63},
    .bound = bound,
    .encode_part = encode_part,
    .check = check,
    .decode = decode,
};
