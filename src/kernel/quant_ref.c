/* Quantisers, the specification. */
#include "kernel/quant_group.h"
#include "kernel/variants.h"
#include <math.h>

/* Minimum and maximum as the instruction sets define them: b if a is NaN. */
static float min_of(float a, float b)
{
    return a < b ? a : b;
}

static float max_of(float a, float b)
{
    return a > b ? a : b;
}

static float clamp_of(float x, float limit)
{
    return max_of(min_of(x, limit), -limit);
}

static void quant_nearest(int8_t *codes, const float *x, size_t n, float inverse, int levels)
{
    for (size_t i = 0; i < n; i++)
        codes[i] = (int8_t)lrintf(clamp_of(x[i] * inverse, (float)levels));
}

/* Conversion as the instruction sets define it. */
static int32_t int_of(float y)
{
    return y >= -0x1p31f && y < 0x1p31f ? (int32_t)lrintf(y) : INT32_MIN;
}

static void random_group(int8_t *codes, const float *x, float scale, int levels,
                         const tg__philox_keys *keys, uint32_t block)
{
    const uint32_t key[2] = {keys->k0[0], keys->k1[0]};
    for (uint32_t lane = 0; lane < 16; lane++) {
        const uint32_t counter[4] = {block + lane, 0, 0, 0};
        uint32_t word[4];
        tg__philox_rounds(counter, key, keys->rounds, word);
        for (uint32_t j = 0; j < 8; j++) {
            uint32_t draw = word[j / 2] >> 16 * (j % 2) & 0xffff;
            uint32_t sum = (uint32_t)int_of(x[16 * j + lane] * scale) + draw;
            int32_t code = (int32_t)sum >> 16; /* rounds towards minus infinity */
            codes[16 * j + lane] = (int8_t)TG__MAX(TG__MIN(code, levels), -levels);
        }
    }
}

static void quant_random(int8_t *codes, const float *x, size_t n, float inverse, int levels,
                         const tg__draws *draws)
{
    tg__quant_groups(codes, x, n, inverse, levels, draws, random_group);
}

static void quant_decode(float *dst, const int8_t *codes, size_t n, float unit)
{
    for (size_t i = 0; i < n; i++)
        dst[i] = (float)codes[i] * unit;
}

static void quant_decode_add(float *dst, const int8_t *codes, size_t n, float unit)
{
    for (size_t i = 0; i < n; i++)
        dst[i] += (float)codes[i] * unit;
}

static void clamp(float *dst, const float *src, size_t n, float limit)
{
    for (size_t i = 0; i < n; i++)
        dst[i] = clamp_of(src[i], limit);
}

void tg__quant_ref(tg__kernels *table)
{
    table->quant_nearest = quant_nearest;
    table->quant_random = quant_random;
    table->quant_decode = quant_decode;
    table->quant_decode_add = quant_decode_add;
    table->clamp = clamp;
}
