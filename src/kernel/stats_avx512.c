/* Statistics of a vector, AVX-512. The histogram of the level below is kept, because it is not
 * vector work. */
#include "kernel/simd_avx512.h"
#include "kernel/stats.h"
#include "kernel/variants.h"

/* max returns its second operand if one is a NaN, so the maximum so far is the second. */
static float abs_max(const float *x, size_t n)
{
    __m512 max[4] = {_mm512_setzero_ps(), _mm512_setzero_ps(), _mm512_setzero_ps(),
                     _mm512_setzero_ps()};
    size_t i = 0;
    for (; i + 64 <= n; i += 64)
        for (size_t j = 0; j < 4; j++)
            max[j] = _mm512_max_ps(_mm512_abs_ps(_mm512_loadu_ps(x + i + 16 * j)), max[j]);
    for (; i < n; i += 16)
        max[0] = _mm512_max_ps(_mm512_abs_ps(vec_get(x + i, n - i)), max[0]);
    max[0] = _mm512_max_ps(_mm512_max_ps(max[0], max[1]), _mm512_max_ps(max[2], max[3]));
    return _mm512_reduce_max_ps(max[0]);
}

static inline __m512i larger_bits(__m512i max, __m512 x)
{
    return _mm512_max_epi32(_mm512_castps_si512(_mm512_abs_ps(x)), max);
}

/* Magnitudes have the same order as their bits; those of NaNs are above infinity's. */
static bool all_finite(const float *x, size_t n)
{
    __m512i a = _mm512_setzero_si512(), b = a, c = a, d = a;
    size_t i = 0;
    for (; i + 64 <= n; i += 64) {
        a = larger_bits(a, _mm512_loadu_ps(x + i));
        b = larger_bits(b, _mm512_loadu_ps(x + i + 16));
        c = larger_bits(c, _mm512_loadu_ps(x + i + 32));
        d = larger_bits(d, _mm512_loadu_ps(x + i + 48));
    }
    for (; i < n; i += 16)
        a = larger_bits(a, vec_get(x + i, n - i));
    a = _mm512_max_epi32(_mm512_max_epi32(a, b), _mm512_max_epi32(c, d));
    return _mm512_reduce_max_epi32(a) < (int)TG__F32_INF;
}

static void copy_stats(float *dst, const float *src, size_t n, tg__stats *stats)
{
    double sum_sq = 0, sum_abs = 0;
    for (size_t begin = 0; begin < n; begin += TG__CHUNK) {
        size_t end = TG__MIN(n, begin + TG__CHUNK);
        __m512d sq0 = _mm512_setzero_pd(), sq1 = sq0, abs0 = sq0, abs1 = sq0;
        /* Lanes beyond the end add +0 to sums that are never -0. */
        for (size_t i = begin; i < end; i += 16) {
            __m512 x = vec_get(src + i, end - i);
            if (dst)
                vec_put(dst + i, end - i, x);
            x = _mm512_abs_ps(x);
            __m512d x0 = _mm512_cvtps_pd(_mm512_castps512_ps256(x));
            __m512d x1 = _mm512_cvtps_pd(_mm512_extractf32x8_ps(x, 1));
            sq0 = _mm512_add_pd(sq0, _mm512_mul_pd(x0, x0));
            sq1 = _mm512_add_pd(sq1, _mm512_mul_pd(x1, x1));
            abs0 = _mm512_add_pd(abs0, x0);
            abs1 = _mm512_add_pd(abs1, x1);
        }
        tg__stats_lanes lanes;
        _mm512_storeu_pd(lanes.sq, sq0);
        _mm512_storeu_pd(lanes.sq + 8, sq1);
        _mm512_storeu_pd(lanes.abs, abs0);
        _mm512_storeu_pd(lanes.abs + 8, abs1);
        tg__stats_sum(&lanes, &sum_sq, &sum_abs);
    }
    tg__stats_finish(sum_sq, sum_abs, stats);
}

static void moments(const float *x, size_t n, float from, tg__moments *sums)
{
    const __m512d center = _mm512_set1_pd((double)from);
    *sums = (tg__moments){0, 0};
    for (size_t begin = 0; begin < n; begin += TG__CHUNK) {
        size_t end = TG__MIN(n, begin + TG__CHUNK), i = begin;
        __m512d sum0 = _mm512_setzero_pd(), sum1 = sum0, sq0 = sum0, sq1 = sum0;
        for (; i + 16 <= end; i += 16) {
            __m512d d0 = _mm512_sub_pd(_mm512_cvtps_pd(_mm256_loadu_ps(x + i)), center);
            __m512d d1 = _mm512_sub_pd(_mm512_cvtps_pd(_mm256_loadu_ps(x + i + 8)), center);
            sum0 = _mm512_add_pd(sum0, d0);
            sum1 = _mm512_add_pd(sum1, d1);
            sq0 = _mm512_add_pd(sq0, _mm512_mul_pd(d0, d0));
            sq1 = _mm512_add_pd(sq1, _mm512_mul_pd(d1, d1));
        }
        tg__moment_lanes lanes;
        _mm512_storeu_pd(lanes.sum, sum0);
        _mm512_storeu_pd(lanes.sum + 8, sum1);
        _mm512_storeu_pd(lanes.sq, sq0);
        _mm512_storeu_pd(lanes.sq + 8, sq1);
        tg__moments_add(&lanes, x + begin, i - begin, end - begin, (double)from);
        tg__moments_sum(&lanes, sums);
    }
    tg__moments_finish(sums);
}

void tg__stats_avx512(tg__kernels *table)
{
    table->abs_max = abs_max;
    table->all_finite = all_finite;
    table->copy_stats = copy_stats;
    table->moments = moments;
}
