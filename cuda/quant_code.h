/* Units and codes of one element; for .cu files, after gpu.h. */
#ifndef TG_CUDA_QUANT_CODE_H
#define TG_CUDA_QUANT_CODE_H

#include <stddef.h>
#include <stdint.h>

constexpr uint32_t tg__full_warp = 0xffffffffu;
constexpr uint32_t tg__infinity_bits = 0x7f800000u;

static __device__ __forceinline__ bool tg__is_finite(double x)
{
    return x - x == 0;
}

static __device__ __forceinline__ uint32_t tg__largest_in_warp(uint32_t x)
{
#if !defined __CUDA_ARCH__ || __CUDA_ARCH__ >= 800
    return __reduce_max_sync(tg__full_warp, x);
#else
    for (int with = 16; with > 0; with /= 2)
        x = max(x, __shfl_xor_sync(tg__full_warp, x, with));
    return x;
#endif
}

/* As the host's tg__quant_unit. */
static __device__ __forceinline__ float tg__unit_of(double norm, int levels)
{
    const float unit = __double2float_rn(__ddiv_rn(norm, (double)levels));
    const float most = __fdiv_rn(0x1.fffffep127f, (float)levels);
    const float largest = __uint_as_float(__float_as_uint(most) & 0xffff0000u);
    if (!(unit >= 0x1p-100f))
        return 0;
    if (unit > largest)
        return largest;
    const float up = __uint_as_float((__float_as_uint(unit) + 0xffffu) & 0xffff0000u);
    return up < largest ? up : largest;
}

static __device__ __forceinline__ void tg__unit_put(uint8_t *units, size_t bucket, float unit)
{
    ((uint16_t *)units)[bucket] = (uint16_t)(__float_as_uint(unit) >> 16);
}

static __device__ __forceinline__ float tg__unit_get(const uint8_t *units, size_t bucket)
{
    return __uint_as_float((uint32_t)((const uint16_t *)units)[bucket] << 16);
}

static __device__ __forceinline__ int tg__clamp_code(int code, int levels)
{
    return max(min(code, levels), -levels);
}

static __device__ __forceinline__ int tg__code_nearest(float x, float inverse, int levels)
{
    const float high = (float)levels;
    float y = __fmul_rn(x, inverse);
    y = y < high ? y : high;
    y = y > -high ? y : -high;
    return __float2int_rn(y);
}

/* scale = 65536 / unit; draw < 65536 */
static __device__ __forceinline__ int tg__code_random(float x, float scale, uint32_t draw,
                                                      int levels)
{
    const float y = __fmul_rn(x, scale);
    const int whole = y >= -0x1p31f && y < 0x1p31f ? __float2int_rn(y) : INT32_MIN;
    return tg__clamp_code((int)((uint32_t)whole + draw) >> 16, levels);
}

/* What is left of p. */
static __device__ __forceinline__ float tg__left_of(float p, int code, float unit)
{
    return __fadd_rn(p, __fmul_rn((float)code, -unit));
}

#endif
