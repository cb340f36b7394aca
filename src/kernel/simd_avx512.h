/* Vectors of 16 floats for the templates *_simd.h (AVX-512). Same names as simd_avx2.h. */
#ifndef TG_KERNEL_SIMD_AVX512_H
#define TG_KERNEL_SIMD_AVX512_H

#include "kernel/element.h"
#include <immintrin.h>

#define WIDTH 16
#define MM(operation) _mm512_##operation
#define MM_INT(operation) _mm512_##operation##_si512

typedef __m512 vec;
typedef __m512i vint;
typedef __m512d vdouble;
typedef __mmask16 vmask;

#define vec_compare(a, b, how) _mm512_cmp_ps_mask(a, b, how)

#define vec_low _mm512_castps512_ps256
#define vec_high(x) _mm512_extractf32x8_ps(x, 1)
#define half_get _mm256_loadu_ps

/* A mask of the first `left` < WIDTH lanes. */
static inline __mmask16 vec_lanes(size_t left)
{
    return (__mmask16)((1u << left) - 1);
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

#define vec_abs _mm512_abs_ps
#define vec_pick(m, yes, no) _mm512_mask_blend_ps(m, no, yes)
#define vec_largest _mm512_reduce_max_ps /* of numbers that are not NaN */

/* A mask as a number. A plain conversion is miscompiled by gcc 12 when the mask has to be spilled:
 * 16 bits are stored, 32 are read back. */
#define mask_bits _cvtmask16_u32
#define mask_from _cvtu32_mask16
#define mask_and _kand_mask16

#define int_any_above(x, limit) (_mm512_cmpgt_epi32_mask(x, int_splat(limit)) != 0)
#define int_count(count, m) _mm512_mask_add_epi32(count, m, count, int_splat(1)) /* + 1 where m */

/* The virtual lanes, of which the upper half is added to the lower. */
static inline __m256 lanes_halved(const vec lanes[1])
{
    return vec_low(lanes[0]) + vec_high(lanes[0]);
}

#include "kernel/simd_x86.h"

/* low += x where m, high += x elsewhere */
static inline void wide_split(wide *low, wide *high, vmask m, vec x)
{
    const wide w = wide_from(x);
    __mmask8 ma = (__mmask8)m, mb = (__mmask8)_kshiftri_mask16(m, 8);
    low->a = _mm512_mask_add_pd(low->a, ma, low->a, w.a);
    low->b = _mm512_mask_add_pd(low->b, mb, low->b, w.b);
    high->a = _mm512_mask_add_pd(high->a, _knot_mask8(ma), high->a, w.a);
    high->b = _mm512_mask_add_pd(high->b, _knot_mask8(mb), high->b, w.b);
}

#include "kernel/simd_each.h"

#endif
