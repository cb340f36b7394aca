/* 16-bit floats on the device, with the bits of src/kernel/half_ref.c: to nearest even; finite
 * values beyond the range become the largest ones; NaN becomes a quiet one with its sign. */
#ifndef TG_CUDA_HALF_WORDS_H
#define TG_CUDA_HALF_WORDS_H

#include "gpu.h"

/* |x| limited to `largest` if it is finite. */
static __device__ __forceinline__ uint32_t tg__clamped(uint32_t bits, uint32_t largest)
{
    const uint32_t a = bits & 0x7fffffffu, sign = bits ^ a;
    const uint32_t finite = a < largest ? a : largest, other = a > 0x7f800000u ? 0x7fc00000u : a;
    return sign | (a < 0x7f800000u ? finite : other);
}

#ifdef TG__CUDA_EMULATED
static inline uint16_t tg__f16_rounded(uint32_t bits)
{
    const uint32_t a = bits & 0x7fffffffu, sign = bits >> 16 & 0x8000u, exponent = a >> 23;
    if (a >= 0x7f800000u)
        return (uint16_t)(sign | (a == 0x7f800000u ? 0x7c00u : 0x7e00u));
    if (exponent < 102)
        return (uint16_t)sign;
    const uint32_t significand = (a & 0x7fffffu) | 0x800000u;
    const uint32_t drop = exponent < 113 ? 126 - exponent : 13;
    const uint32_t base = exponent < 113 ? 0 : (exponent - 113) << 10;
    const uint32_t lost = significand & ((1u << drop) - 1), half = 1u << (drop - 1);
    uint32_t kept = significand >> drop;
    kept += lost > half || (lost == half && (kept & 1));
    return (uint16_t)(sign | (base + kept));
}

static inline float tg__from_f16(uint16_t word)
{
    const uint32_t sign = (uint32_t)(word & 0x8000) << 16, exponent = word >> 10 & 31;
    uint32_t fraction = word & 0x3ffu, shift = 0;
    if (exponent == 31)
        return __uint_as_float(sign | (fraction ? 0x7fc00000u | fraction << 13 : 0x7f800000u));
    if (exponent > 0)
        return __uint_as_float(sign | (exponent + 112) << 23 | fraction << 13);
    if (fraction == 0)
        return __uint_as_float(sign);
    for (; !(fraction & 0x400u); shift++)
        fraction <<= 1;
    return __uint_as_float(sign | (113 - shift) << 23 | (fraction & 0x3ffu) << 13);
}
#else
/* bits: not NaN, or the quiet one */
static __device__ __forceinline__ uint16_t tg__f16_rounded(uint32_t bits)
{
    uint16_t word;
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)(bits >> 16 & 0x8000u | 0x7e00u);
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(word) : "f"(__uint_as_float(bits)));
    return word;
}

static __device__ __forceinline__ float tg__from_f16(uint16_t word)
{
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(word));
    return x;
}
#endif

static __device__ __forceinline__ uint16_t tg__to_f16(float x)
{
    return tg__f16_rounded(tg__clamped(__float_as_uint(x), 0x477fe000u)); /* 65504 */
}

static __device__ __forceinline__ uint16_t tg__to_bf16(float x)
{
    const uint32_t bits = tg__clamped(__float_as_uint(x), 0x7f7f0000u);
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
}

static __device__ __forceinline__ float tg__from_bf16(uint16_t word)
{
    return __uint_as_float((uint32_t)word << 16);
}

#endif
