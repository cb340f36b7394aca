/* Comparisons, selections and f64 sums for the templates of 1-bit kernels (AVX-512). Same names as
 * simd_mask_avx2.h. */
#ifndef TG_KERNEL_SIMD_MASK_AVX512_H
#define TG_KERNEL_SIMD_MASK_AVX512_H

#include "kernel/simd_avx512.h"

typedef __mmask16 vmask;

static inline vmask vec_less(vec a, vec b)
{
    return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ);
}

static inline uint32_t mask_bits(vmask m)
{
    return vec_bits(m);
}

static inline vmask mask_from(uint32_t bits)
{
    return _cvtu32_mask16(bits);
}

static inline vec vec_abs(vec x)
{
    return _mm512_abs_ps(x);
}

static inline vec vec_pick(vmask m, vec yes, vec no)
{
    return _mm512_mask_blend_ps(m, no, yes);
}

/* WIDTH doubles. */
typedef struct wide {
    __m512d a, b;
} wide;

static inline wide wide_zero(void)
{
    return (wide){_mm512_setzero_pd(), _mm512_setzero_pd()};
}

static inline void wide_add(wide *sum, vec x)
{
    sum->a = _mm512_add_pd(sum->a, _mm512_cvtps_pd(_mm512_castps512_ps256(x)));
    sum->b = _mm512_add_pd(sum->b, _mm512_cvtps_pd(_mm512_extractf32x8_ps(x, 1)));
}

/* low += x where m, high += x elsewhere */
static inline void wide_split(wide *low, wide *high, vmask m, vec x)
{
    __m512d a = _mm512_cvtps_pd(_mm512_castps512_ps256(x));
    __m512d b = _mm512_cvtps_pd(_mm512_extractf32x8_ps(x, 1));
    __mmask8 ma = (__mmask8)m, mb = (__mmask8)_kshiftri_mask16(m, 8);
    low->a = _mm512_mask_add_pd(low->a, ma, low->a, a);
    low->b = _mm512_mask_add_pd(low->b, mb, low->b, b);
    high->a = _mm512_mask_add_pd(high->a, _knot_mask8(ma), high->a, a);
    high->b = _mm512_mask_add_pd(high->b, _knot_mask8(mb), high->b, b);
}

static inline void wide_put(double *dst, wide x)
{
    _mm512_storeu_pd(dst, x.a);
    _mm512_storeu_pd(dst + 8, x.b);
}

static inline void wide_put_sum(double *dst, wide x)
{
    _mm512_storeu_pd(dst, _mm512_add_pd(_mm512_loadu_pd(dst), x.a));
    _mm512_storeu_pd(dst + 8, _mm512_add_pd(_mm512_loadu_pd(dst + 8), x.b));
}

/* WIDTH counters. */
typedef __m512i counts;

static inline counts counts_zero(void)
{
    return _mm512_setzero_si512();
}

static inline counts counts_add(counts c, vmask m)
{
    return _mm512_mask_add_epi32(c, m, c, _mm512_set1_epi32(1));
}

static inline void counts_put(uint32_t *dst, counts c)
{
    _mm512_storeu_si512(dst, c);
}

static inline void counts_put_sum(uint32_t *dst, counts c)
{
    _mm512_storeu_si512(dst, _mm512_add_epi32(_mm512_loadu_si512(dst), c));
}

/* A wide word of bits. */
typedef __m512i word;
enum { WORD_BYTES = 64 };

static inline word word_get(const void *p)
{
    return _mm512_loadu_si512(p);
}

static inline void word_put(void *p, word x)
{
    _mm512_storeu_si512(p, x);
}

static inline word word_zero(void)
{
    return _mm512_setzero_si512();
}

static inline word word_and(word a, word b)
{
    return _mm512_and_si512(a, b);
}

static inline word word_or(word a, word b)
{
    return _mm512_or_si512(a, b);
}

static inline word word_xor(word a, word b)
{
    return _mm512_xor_si512(a, b);
}

/* b without the bits of a */
static inline word word_without(word b, word a)
{
    return _mm512_andnot_si512(a, b);
}

#endif
