#include "codec/block/block_values.h"
#include "base/mem.h"
#include "codec/codec_impl.h"
#include "kernel/kernel.h"
#include <math.h>
#include <string.h>

enum { LEVELS = 4, TABLE_BYTES = 4 * LEVELS };

#define SIGMAS 6.0 /* width of the four bins together */

size_t tg__block_values_len(int coding, size_t k)
{
    return coding == TG__BLOCK_F32    ? 4 * k
           : coding == TG__BLOCK_FP16 ? 2 * k
                                      : TABLE_BYTES + (2 * k + 7) / 8;
}

/* ---- writing --------------------------------------------------------------------------------- */

static double spread(const float *val, size_t k, double mean)
{
    double sum = 0;
    for (size_t i = 0; i < k; i++)
        sum += ((double)val[i] - mean) * ((double)val[i] - mean);
    return sqrt(sum / (k > 1 ? (double)(k - 1) : 1));
}

static void put_2bit(float *val, size_t k, uint8_t *dst)
{
    double mean = 0, sum[LEVELS] = {0};
    size_t count[LEVELS] = {0};
    float table[LEVELS];
    uint8_t *codes = dst + TABLE_BYTES;
    for (size_t i = 0; i < k; i++)
        mean += (double)val[i];
    mean /= (double)k;
    const double width = SIGMAS * spread(val, k, mean) / LEVELS;
    memset(codes, 0, (2 * k + 7) / 8);
    for (size_t i = 0; i < k; i++) {
        double at = rint((width > 0 ? ((double)val[i] - mean) / width : 0) + LEVELS / 2);
        at = at < 0 ? 0 : at > LEVELS - 1 ? LEVELS - 1 : at;
        const unsigned code = (unsigned)at;
        codes[i / 4] |= (uint8_t)(code << 2 * (i % 4));
        sum[code] += (double)val[i];
        count[code]++;
    }
    for (size_t c = 0; c < LEVELS; c++)
        table[c] = count[c] == 0 ? 0 : (float)(sum[c] / (double)count[c]);
    tg__floats_put(dst, table, LEVELS);
    for (size_t i = 0; i < k; i++)
        val[i] = table[codes[i / 4] >> 2 * (i % 4) & 3];
}

void tg__block_values_put(int coding, float *val, size_t k, uint8_t *dst)
{
    if (coding == TG__BLOCK_F32) {
        tg__floats_put(dst, val, k);
    } else if (coding == TG__BLOCK_FP16) {
        tg__kernel()->f16_encode(dst, val, k);
        tg__kernel()->f16_decode(val, dst, k);
    } else {
        put_2bit(val, k, dst);
    }
}

/* ---- reading --------------------------------------------------------------------------------- */

tg_status tg__block_values_check(int coding, const uint8_t *src, size_t k)
{
    const size_t floats = coding == TG__BLOCK_F32 ? k : coding == TG__BLOCK_2BIT ? LEVELS : 0;
    for (size_t i = 0; i < floats; i++)
        if ((tg__get32(src + 4 * i) & 0x7f800000) == 0x7f800000)
            return tg_fail(TG_E_CORRUPT, "frame of blocks: value %zu is not finite", i);
    for (size_t i = 0; coding == TG__BLOCK_FP16 && i < k; i++)
        if ((tg__get16(src + 2 * i) & 0x7c00) == 0x7c00)
            return tg_fail(TG_E_CORRUPT, "frame of blocks: value %zu is not finite", i);
    if (coding == TG__BLOCK_2BIT && k % 4 > 0 && src[TABLE_BYTES + k / 4] >> 2 * (k % 4) != 0)
        return tg_fail(TG_E_CORRUPT, "frame of blocks: padding bits of values are not zero");
    return TG_OK;
}

void tg__block_values_get(int coding, const uint8_t *src, size_t first, size_t n, float *dst)
{
    float table[LEVELS];
    if (coding == TG__BLOCK_F32) {
        tg__floats_get(dst, src + 4 * first, n);
    } else if (coding == TG__BLOCK_FP16) {
        tg__kernel()->f16_decode(dst, src + 2 * first, n);
    } else {
        tg__floats_get(table, src, LEVELS);
        for (size_t i = first; i < first + n; i++)
            dst[i - first] = table[src[TABLE_BYTES + i / 4] >> 2 * (i % 4) & 3];
    }
}
