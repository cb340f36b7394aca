/* Quantisers, the specification. */
#include "kernel/quant_group.h"
#include "kernel/simd_ref.h"
#include "kernel/variants.h"

#define vec_round(x) ((int32_t)lrintf(x))
#define bytes_get(p, left) ((void)(left), (float)*(p))
#define bytes_put(p, left, x) ((void)(left), (void)(*(p) = (int8_t)(x)))

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

#include "kernel/quant_simd.h"

void tg__quant_ref(tg__kernels *table)
{
    fill(table);
}
