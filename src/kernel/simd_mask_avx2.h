/* Comparisons, selections and f64 sums for the templates of 1-bit kernels (AVX2). Same names as
 * simd_mask_avx512.h. */
#ifndef TG_KERNEL_SIMD_MASK_AVX2_H
#define TG_KERNEL_SIMD_MASK_AVX2_H

#include "kernel/simd_avx2.h"

typedef __m256 vmask; /* all bits of a lane, or none; selections use only the sign bit */

static inline vmask vec_less(vec a, vec b)
{
    return _mm256_cmp_ps(a, b, _CMP_LT_OQ);
}

static inline uint32_t mask_bits(vmask m)
{
    return (uint32_t)_mm256_movemask_ps(m);
}

static inline vmask mask_from(uint32_t bits)
{
    const __m256i to_sign = _mm256_setr_epi32(31, 30, 29, 28, 27, 26, 25, 24);
    return _mm256_castsi256_ps(_mm256_sllv_epi32(_mm256_set1_epi32((int)bits), to_sign));
}

static inline vec vec_abs(vec x)
{
    return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), x);
}

static inline vec vec_pick(vmask m, vec yes, vec no)
{
    return _mm256_blendv_ps(no, yes, m);
}

/* WIDTH doubles. */
typedef struct wide {
    __m256d a, b;
} wide;

static inline wide wide_zero(void)
{
    return (wide){_mm256_setzero_pd(), _mm256_setzero_pd()};
}

static inline void wide_add(wide *sum, vec x)
{
    sum->a = _mm256_add_pd(sum->a, _mm256_cvtps_pd(_mm256_castps256_ps128(x)));
    sum->b = _mm256_add_pd(sum->b, _mm256_cvtps_pd(_mm256_extractf128_ps(x, 1)));
}

/* low += x where m, high += x elsewhere: the other lanes add +0 to sums that are never -0. m comes
 * from vec_less. */
static inline void wide_split(wide *low, wide *high, vmask m, vec x)
{
    const __m256i bits = _mm256_castps_si256(m);
    __m256d a = _mm256_cvtps_pd(_mm256_castps256_ps128(x));
    __m256d b = _mm256_cvtps_pd(_mm256_extractf128_ps(x, 1));
    __m256d ma = _mm256_castsi256_pd(_mm256_cvtepi32_epi64(_mm256_castsi256_si128(bits)));
    __m256d mb = _mm256_castsi256_pd(_mm256_cvtepi32_epi64(_mm256_extracti128_si256(bits, 1)));
    low->a = _mm256_add_pd(low->a, _mm256_and_pd(ma, a));
    low->b = _mm256_add_pd(low->b, _mm256_and_pd(mb, b));
    high->a = _mm256_add_pd(high->a, _mm256_andnot_pd(ma, a));
    high->b = _mm256_add_pd(high->b, _mm256_andnot_pd(mb, b));
}

static inline void wide_put(double *dst, wide x)
{
    _mm256_storeu_pd(dst, x.a);
    _mm256_storeu_pd(dst + 4, x.b);
}

static inline void wide_put_sum(double *dst, wide x)
{
    _mm256_storeu_pd(dst, _mm256_add_pd(_mm256_loadu_pd(dst), x.a));
    _mm256_storeu_pd(dst + 4, _mm256_add_pd(_mm256_loadu_pd(dst + 4), x.b));
}

/* WIDTH counters. */
typedef __m256i counts;

static inline counts counts_zero(void)
{
    return _mm256_setzero_si256();
}

static inline counts counts_add(counts c, vmask m)
{
    return _mm256_sub_epi32(c, _mm256_castps_si256(m));
}

static inline void counts_put(uint32_t *dst, counts c)
{
    _mm256_storeu_si256((__m256i *)(void *)dst, c);
}

static inline void counts_put_sum(uint32_t *dst, counts c)
{
    counts old = _mm256_loadu_si256((const __m256i *)(const void *)dst);
    counts_put(dst, _mm256_add_epi32(old, c));
}

/* A wide word of bits. */
typedef __m256i word;
enum { WORD_BYTES = 32 };

static inline word word_get(const void *p)
{
    return _mm256_loadu_si256((const __m256i *)p);
}

static inline void word_put(void *p, word x)
{
    _mm256_storeu_si256((__m256i *)p, x);
}

static inline word word_zero(void)
{
    return _mm256_setzero_si256();
}

static inline word word_and(word a, word b)
{
    return _mm256_and_si256(a, b);
}

static inline word word_or(word a, word b)
{
    return _mm256_or_si256(a, b);
}

static inline word word_xor(word a, word b)
{
    return _mm256_xor_si256(a, b);
}

/* b without the bits of a */
static inline word word_without(word b, word a)
{
    return _mm256_andnot_si256(a, b);
}

#endif
