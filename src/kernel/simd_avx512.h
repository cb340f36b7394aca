/* Vectors of 16 floats for the templates *_simd.h (AVX-512). Same names as simd_avx2.h. */
#ifndef TG_KERNEL_SIMD_AVX512_H
#define TG_KERNEL_SIMD_AVX512_H

#include "kernel/element.h"
#include "kernel/simd_each.h"
#include <immintrin.h>

#define WIDTH 16

typedef __m512 vec;

/* A mask of the first `left` < WIDTH lanes. */
static inline __mmask16 vec_lanes(size_t left)
{
    return (__mmask16)((1u << left) - 1);
}

/* A mask as a number. A plain conversion is miscompiled by gcc 12 when the mask has to be spilled:
 * 16 bits are stored, 32 are read back. */
static inline uint32_t vec_bits(__mmask16 mask)
{
    return _cvtmask16_u32(mask);
}

/* The first min(left, WIDTH) floats at p, 0 in the other lanes. */
static inline vec vec_get(const float *p, size_t left)
{
    return left >= WIDTH ? _mm512_loadu_ps(p) : _mm512_maskz_loadu_ps(vec_lanes(left), p);
}

static inline void vec_put(float *p, size_t left, vec x)
{
    if (left >= WIDTH)
        _mm512_storeu_ps(p, x);
    else
        _mm512_mask_storeu_ps(p, vec_lanes(left), x);
}

static inline vec vec_splat(float a)
{
    return _mm512_set1_ps(a);
}

static inline vec vec_add(vec a, vec b)
{
    return _mm512_add_ps(a, b);
}

static inline vec vec_sub(vec a, vec b)
{
    return _mm512_sub_ps(a, b);
}

static inline vec vec_mul(vec a, vec b)
{
    return _mm512_mul_ps(a, b);
}

static inline vec vec_div(vec a, vec b)
{
    return _mm512_div_ps(a, b);
}

static inline vec vec_sqrt(vec a)
{
    return _mm512_sqrt_ps(a);
}

#endif
