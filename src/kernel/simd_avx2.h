/* Vectors of 8 floats for the templates *_simd.h (AVX2). Same names as simd_avx512.h. */
#ifndef TG_KERNEL_SIMD_AVX2_H
#define TG_KERNEL_SIMD_AVX2_H

#include "kernel/element.h"
#include "kernel/simd_each.h"
#include <immintrin.h>

#define WIDTH 8

typedef __m256 vec;

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

static inline vec vec_splat(float a)
{
    return _mm256_set1_ps(a);
}

static inline vec vec_add(vec a, vec b)
{
    return _mm256_add_ps(a, b);
}

static inline vec vec_sub(vec a, vec b)
{
    return _mm256_sub_ps(a, b);
}

static inline vec vec_mul(vec a, vec b)
{
    return _mm256_mul_ps(a, b);
}

static inline vec vec_div(vec a, vec b)
{
    return _mm256_div_ps(a, b);
}

static inline vec vec_sqrt(vec a)
{
    return _mm256_sqrt_ps(a);
}

#endif
