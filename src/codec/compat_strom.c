/* Strom's 32-bit words. */
#include "base/arg.h"
#include "base/floats.h"
#include "codec/compat_check.h"
#include "telegrad/compat.h"

#define NEGATIVE UINT32_C(0x80000000)

tg_status tg_strom_encode(float *residual, const float *g, size_t n, float threshold, uint32_t *dst,
                          size_t dst_cap, size_t *count_p)
{
    TG__OWN_FLOATS;
    size_t count = 0;
    TG__ARG(count_p);
    if (n > 0) {
        TG__ARGS(residual, g);
        if (dst_cap > 0)
            TG__ARG(dst);
    }
    TG_TRY(tg__compat_check("tg_strom_encode", n, threshold));
    for (size_t i = 0; i < n; i++) {
        float r = residual[i] + g[i];
        count += r >= threshold || r <= -threshold;
    }
    if (count > dst_cap)
        return tg_fail(TG_E_SPACE, "tg_strom_encode: room for %zu words: %zu are needed", dst_cap,
                       count);
    count = 0;
    for (size_t i = 0; i < n; i++) {
        float r = residual[i] + g[i];
        if (r >= threshold)
            dst[count++] = (uint32_t)i;
        else if (r <= -threshold)
            dst[count++] = (uint32_t)i | NEGATIVE;
        residual[i] = r >= threshold ? r - threshold : r <= -threshold ? r + threshold : r;
    }
    *count_p = count;
    return TG_OK;
}

tg_status tg_strom_decode_add(const uint32_t *words, size_t count, size_t n, float threshold,
                              float *dst)
{
    TG__OWN_FLOATS;
    if (count > 0)
        TG__ARG(words);
    if (n > 0)
        TG__ARG(dst);
    TG_TRY(tg__compat_check("tg_strom_decode_add", n, threshold));
    for (size_t j = 0; j < count; j++)
        if ((words[j] & ~NEGATIVE) >= n)
            return tg_fail(TG_E_CORRUPT,
                           "Strom's words: index %u in word %zu: must be below n, which is %zu",
                           words[j] & ~NEGATIVE, j, n);
    for (size_t j = 0; j < count; j++)
        dst[words[j] & ~NEGATIVE] += words[j] & NEGATIVE ? -threshold : threshold;
    return TG_OK;
}
