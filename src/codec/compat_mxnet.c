/* MXNet's 2-bit codes. */
#include "base/arg.h"
#include "base/floats.h"
#include "base/mem.h"
#include "codec/compat_check.h"
#include "telegrad/compat.h"
#include <string.h>

enum { PLUS = 3, MINUS = 2, NEITHER = 1 };

size_t tg_mxnet_2bit_bytes(size_t n)
{
    return (n / 16 + (n % 16 != 0)) * 4;
}

static unsigned shift(size_t i)
{
    return 6 - 2 * (unsigned)(i % 4);
}

tg_status tg_mxnet_2bit_encode(float *residual, const float *g, size_t n, float threshold,
                               void *dst, size_t dst_cap)
{
    TG__OWN_FLOATS;
    size_t len = tg_mxnet_2bit_bytes(n);
    if (n > 0)
        TG__ARGS(residual, g, dst);
    TG_TRY(tg__compat_check("tg_mxnet_2bit_encode", n, threshold));
    if (dst_cap < len)
        return tg_fail(TG_E_SPACE, "tg_mxnet_2bit_encode: %zu bytes: %zu are needed for n=%zu",
                       dst_cap, len, n);
    uint8_t *bytes = dst;
    if (len > 0)
        memset(bytes, 0, len);
    for (size_t i = 0; i < n; i++) {
        float r = residual[i] + g[i];
        unsigned code = r >= threshold ? PLUS : r <= -threshold ? MINUS : 0;
        residual[i] = code == PLUS ? r - threshold : code == MINUS ? r + threshold : r;
        bytes[i / 4] |= (uint8_t)(code << shift(i));
    }
    return TG_OK;
}

tg_status tg_mxnet_2bit_decode_add(const void *src, size_t len, size_t n, float threshold,
                                   float *dst)
{
    TG__OWN_FLOATS;
    const uint8_t *bytes = src;
    if (n > 0)
        TG__ARGS(src, dst);
    TG_TRY(tg__compat_check("tg_mxnet_2bit_decode_add", n, threshold));
    if (len != tg_mxnet_2bit_bytes(n))
        return tg_fail(TG_E_CORRUPT, "2-bit words: %zu bytes: must be %zu for n=%zu", len,
                       tg_mxnet_2bit_bytes(n), n);
    for (size_t i = 0; i < 4 * len; i++) {
        unsigned code = bytes[i / 4] >> shift(i) & 3;
        if (code == NEITHER || (i >= n && code != 0))
            return tg_fail(TG_E_CORRUPT,
                           "2-bit words: code %u of element %zu (n=%zu): must be 0, 2 or 3, and 0 "
                           "beyond the last element",
                           code, i, n);
    }
    for (size_t i = 0; i < n; i++) {
        unsigned code = bytes[i / 4] >> shift(i) & 3;
        if (code != 0)
            dst[i] += code == PLUS ? threshold : -threshold;
    }
    return TG_OK;
}
