/* Template of quant_avx2.c and quant_avx512.c: quant_ref.c in vectors. The including file defines
 * vint with its functions, bytes_get and bytes_put for WIDTH codes, and bytes_narrow, _clamp and
 * _put_four for four vectors of them. */
#include "kernel/philox_simd.h"

/* NaN becomes high. */
static inline vec clamp_vec(vec x, vec high, vec low)
{
    return vec_max(vec_min(x, high), low);
}

/* One vector of a group; draws are 0 .. 65535. */
static inline vint round_random(const float *x, vec scale, vint draws)
{
    return int_floor_half(int_add(int_round(vec_mul(vec_get(x, WIDTH), scale)), draws));
}

static inline void random_group(int8_t *codes, const float *x, float factor, int levels,
                                const tg__philox_keys *keys, uint32_t block)
{
    const vec scale = vec_splat(factor);
    const vint low_half = int_splat(0xffff), limit = bytes_splat((int8_t)levels);
    for (uint32_t begin = 0; begin < 16; begin += WIDTH) {
        vint word[4];
        philox(block + begin, keys, word);
        for (size_t k = 0; k < 4; k += 2) {
            size_t at = 32 * k + begin;
            vint a = word[k], b = word[k + 1];
            vint q[4] = {round_random(x + at, scale, int_and(a, low_half)),
                         round_random(x + at + 16, scale, int_upper_half(a)),
                         round_random(x + at + 32, scale, int_and(b, low_half)),
                         round_random(x + at + 48, scale, int_upper_half(b))};
            bytes_put_four(codes + at, bytes_clamp(bytes_narrow(q), limit));
        }
    }
}

static void quant_nearest(int8_t *codes, const float *x, size_t n, float inverse, int levels)
{
    const vec scale = vec_splat(inverse), high = vec_splat((float)levels);
    const vec low = vec_splat(-(float)levels);
    EACH_VEC(n, vec y = clamp_vec(vec_mul(vec_get(x + i, left), scale), high, low);
             bytes_put(codes + i, left, int_round(y)););
}

static void quant_random(int8_t *codes, const float *x, size_t n, float inverse, int levels,
                         const tg__draws *draws)
{
    tg__quant_groups(codes, x, n, inverse, levels, draws, random_group);
}

static void quant_decode(float *dst, const int8_t *codes, size_t n, float unit)
{
    const vec scale = vec_splat(unit);
    EACH_VEC(n, vec_put(dst + i, left, vec_mul(bytes_get(codes + i, left), scale)););
}

static void quant_decode_add(float *dst, const int8_t *codes, size_t n, float unit)
{
    const vec scale = vec_splat(unit);
    EACH_VEC(n, vec y = vec_mul(bytes_get(codes + i, left), scale);
             vec_put(dst + i, left, vec_add(vec_get(dst + i, left), y)););
}

static void clamp(float *dst, const float *src, size_t n, float limit)
{
    const vec high = vec_splat(limit), low = vec_splat(-limit);
    EACH_VEC(n, vec_put(dst + i, left, clamp_vec(vec_get(src + i, left), high, low)););
}

static void fill(tg__kernels *table)
{
    table->quant_nearest = quant_nearest;
    table->quant_random = quant_random;
    table->quant_decode = quant_decode;
    table->quant_decode_add = quant_decode_add;
    table->clamp = clamp;
}
