/* Vectors of 8 floats for the templates *_simd.h (AVX2). Same names as simd_avx512.h. */
#ifndef TG_KERNEL_SIMD_AVX2_H
#define TG_KERNEL_SIMD_AVX2_H

#include "kernel/element.h"
#include <immintrin.h>

#define WIDTH 8
#define MM(operation) _mm256_##operation
#define MM_INT(operation) _mm256_##operation##_si256

typedef __m256 vec;
typedef __m256i vint;
typedef __m256d vdouble;
typedef __m256 vmask; /* all bits of a lane, or none; selections use only the sign bit */

#define vec_compare(a, b, how) _mm256_cmp_ps(a, b, how)

#define vec_low _mm256_castps256_ps128
#define vec_high(x) _mm256_extractf128_ps(x, 1)
#define half_get _mm_loadu_ps

/* All bits in the first `left` < WIDTH lanes. */
static inline __m256i vec_lanes(size_t left)
{
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)left),
                              _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

/* The first min(left, WIDTH) floats at p, 0 in the other lanes. */
static inline vec vec_get(const float *p, size_t left)
{
    return left >= WIDTH ? _mm256_loadu_ps(p) : _mm256_maskload_ps(p, vec_lanes(left));
}

static inline void vec_put(float *p, size_t left, vec x)
{
    if (left >= WIDTH)
        _mm256_storeu_ps(p, x);
    else
        _mm256_maskstore_ps(p, vec_lanes(left), x);
}

#define vec_abs(x) _mm256_andnot_ps(vec_splat(-0.0f), x)
#define vec_pick(m, yes, no) _mm256_blendv_ps(no, yes, m)

#define mask_bits(m) ((uint32_t)_mm256_movemask_ps(m))
#define mask_and _mm256_and_ps

static inline vmask mask_from(uint32_t bits)
{
    const __m256i to_sign = _mm256_setr_epi32(31, 30, 29, 28, 27, 26, 25, 24);
    return _mm256_castsi256_ps(_mm256_sllv_epi32(_mm256_set1_epi32((int)bits), to_sign));
}

/* The largest of numbers that are not NaN. */
static inline float vec_largest(vec x)
{
    __m128 m = _mm_max_ps(vec_low(x), vec_high(x));
    m = _mm_max_ps(m, _mm_movehl_ps(m, m));
    return _mm_cvtss_f32(_mm_max_ss(m, _mm_movehdup_ps(m)));
}

static inline bool int_any_above(vint x, int32_t limit)
{
    const __m256i above = _mm256_cmpgt_epi32(x, _mm256_set1_epi32(limit));
    return !_mm256_testz_si256(above, above);
}

/* count + 1 where m, which comes from a comparison. */
static inline vint int_count(vint count, vmask m)
{
    return _mm256_sub_epi32(count, _mm256_castps_si256(m));
}

/* The virtual lanes, of which the upper half is added to the lower. */
static inline __m256 lanes_halved(const vec lanes[2])
{
    return lanes[0] + lanes[1];
}

#include "kernel/simd_x86.h"

/* low += x where m, high += x elsewhere: the other lanes add +0 to sums that are never -0. m comes
 * from a comparison. */
static inline void wide_split(wide *low, wide *high, vmask m, vec x)
{
    const __m256i bits = _mm256_castps_si256(m);
    const wide w = wide_from(x);
    __m256d ma = _mm256_castsi256_pd(_mm256_cvtepi32_epi64(_mm256_castsi256_si128(bits)));
    __m256d mb = _mm256_castsi256_pd(_mm256_cvtepi32_epi64(_mm256_extracti128_si256(bits, 1)));
    wide_add_wide(low, (wide){_mm256_and_pd(ma, w.a), _mm256_and_pd(mb, w.b)});
    wide_add_wide(high, (wide){_mm256_andnot_pd(ma, w.a), _mm256_andnot_pd(mb, w.b)});
}

#include "kernel/simd_each.h"

#endif
