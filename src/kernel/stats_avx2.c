/* Statistics of a vector, AVX2. */
#include "kernel/simd_avx2.h"
#include "kernel/stats.h"
#include "kernel/variants.h"

static inline __m256 magnitude(__m256 x)
{
    return _mm256_and_ps(x, _mm256_castsi256_ps(_mm256_set1_epi32((int)TG__F32_MAGNITUDE)));
}

/* max returns its second operand if one is a NaN, so the maximum so far is the second. */
static float abs_max(const float *x, size_t n)
{
    __m256 max[4] = {_mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps(),
                     _mm256_setzero_ps()};
    size_t i = 0;
    for (; i + 32 <= n; i += 32)
        for (size_t j = 0; j < 4; j++)
            max[j] = _mm256_max_ps(magnitude(_mm256_loadu_ps(x + i + 8 * j)), max[j]);
    for (; i < n; i += 8)
        max[0] = _mm256_max_ps(magnitude(vec_get(x + i, n - i)), max[0]);
    max[0] = _mm256_max_ps(_mm256_max_ps(max[0], max[1]), _mm256_max_ps(max[2], max[3]));
    float lanes[8], all = 0;
    _mm256_storeu_ps(lanes, max[0]);
    for (size_t j = 0; j < 8; j++)
        all = lanes[j] > all ? lanes[j] : all;
    return all;
}

static inline __m256i larger_bits(__m256i max, __m256 x)
{
    return _mm256_max_epi32(_mm256_castps_si256(magnitude(x)), max);
}

/* Magnitudes have the same order as their bits; those of NaNs are above infinity's. */
static bool all_finite(const float *x, size_t n)
{
    __m256i a = _mm256_setzero_si256(), b = a, c = a, d = a;
    size_t i = 0;
    for (; i + 32 <= n; i += 32) {
        a = larger_bits(a, _mm256_loadu_ps(x + i));
        b = larger_bits(b, _mm256_loadu_ps(x + i + 8));
        c = larger_bits(c, _mm256_loadu_ps(x + i + 16));
        d = larger_bits(d, _mm256_loadu_ps(x + i + 24));
    }
    for (; i < n; i += 8)
        a = larger_bits(a, vec_get(x + i, n - i));
    a = _mm256_max_epi32(_mm256_max_epi32(a, b), _mm256_max_epi32(c, d));
    const __m256i largest = _mm256_set1_epi32((int)TG__F32_INF - 1);
    return _mm256_movemask_epi8(_mm256_cmpgt_epi32(a, largest)) == 0;
}

static void copy_stats(float *dst, const float *src, size_t n, tg__stats *stats)
{
    double sum_sq = 0, sum_abs = 0;
    for (size_t begin = 0; begin < n; begin += TG__CHUNK) {
        size_t end = TG__MIN(n, begin + TG__CHUNK);
        __m256d sq[4], abs[4];
        for (size_t j = 0; j < 4; j++)
            sq[j] = abs[j] = _mm256_setzero_pd();
        size_t i = begin;
        for (; i + 16 <= end; i += 16) {
            for (size_t j = 0; j < 4; j += 2) {
                __m256 x = _mm256_loadu_ps(src + i + 4 * j);
                if (dst)
                    _mm256_storeu_ps(dst + i + 4 * j, x);
                x = magnitude(x);
                __m256d x0 = _mm256_cvtps_pd(_mm256_castps256_ps128(x));
                __m256d x1 = _mm256_cvtps_pd(_mm256_extractf128_ps(x, 1));
                sq[j] = _mm256_add_pd(sq[j], _mm256_mul_pd(x0, x0));
                sq[j + 1] = _mm256_add_pd(sq[j + 1], _mm256_mul_pd(x1, x1));
                abs[j] = _mm256_add_pd(abs[j], x0);
                abs[j + 1] = _mm256_add_pd(abs[j + 1], x1);
            }
        }
        tg__stats_lanes lanes;
        for (size_t j = 0; j < 4; j++) {
            _mm256_storeu_pd(lanes.sq + 4 * j, sq[j]);
            _mm256_storeu_pd(lanes.abs + 4 * j, abs[j]);
        }
        tg__stats_add(&lanes, src + begin, i - begin, end - begin);
        if (dst && i < end)
            memcpy(dst + i, src + i, (end - i) * sizeof(*dst));
        tg__stats_sum(&lanes, &sum_sq, &sum_abs);
    }
    tg__stats_finish(sum_sq, sum_abs, stats);
}

static void moments(const float *x, size_t n, float from, tg__moments *sums)
{
    const __m256d center = _mm256_set1_pd((double)from);
    *sums = (tg__moments){0, 0};
    for (size_t begin = 0; begin < n; begin += TG__CHUNK) {
        size_t end = TG__MIN(n, begin + TG__CHUNK), i = begin;
        __m256d sum[4], sq[4];
        for (size_t j = 0; j < 4; j++)
            sum[j] = sq[j] = _mm256_setzero_pd();
        for (; i + 16 <= end; i += 16)
            for (size_t j = 0; j < 4; j++) {
                __m256d d = _mm256_cvtps_pd(_mm_loadu_ps(x + i + 4 * j));
                d = _mm256_sub_pd(d, center);
                sum[j] = _mm256_add_pd(sum[j], d);
                sq[j] = _mm256_add_pd(sq[j], _mm256_mul_pd(d, d));
            }
        tg__moment_lanes lanes;
        for (size_t j = 0; j < 4; j++) {
            _mm256_storeu_pd(lanes.sum + 4 * j, sum[j]);
            _mm256_storeu_pd(lanes.sq + 4 * j, sq[j]);
        }
        tg__moments_add(&lanes, x + begin, i - begin, end - begin, (double)from);
        tg__moments_sum(&lanes, sums);
    }
    tg__moments_finish(sums);
}

/* Gradients concentrate in few bins, and an increment waits for the previous one of the same bin.
 * So there are four histograms in parallel, for vectors long enough to pay for adding them up. */
static void histogram(const float *x, size_t n, uint32_t *hist)
{
    enum { BINS = 2048, LONG = 16384 };
    size_t i = 0;
    if (n >= LONG) {
        uint32_t part[4][BINS];
        memset(part, 0, sizeof(part));
        for (; i + 8 <= n; i += 8) {
            __m256i bits = _mm256_loadu_si256((const __m256i *)(const void *)(x + i));
            uint64_t bins[4];
            bits = _mm256_srli_epi32(_mm256_slli_epi32(bits, 1), 21);
            _mm256_storeu_si256((__m256i *)(void *)bins, bits);
            for (size_t j = 0; j < 4; j++) {
                part[j][bins[j] & 0xffffffff]++;
                part[j][bins[j] >> 32]++;
            }
        }
        for (size_t b = 0; b < BINS; b++)
            hist[b] += part[0][b] + part[1][b] + part[2][b] + part[3][b];
    }
    for (; i < n; i++)
        hist[(tg__f32_bits(x[i]) & TG__F32_MAGNITUDE) >> 20]++;
}

void tg__stats_avx2(tg__kernels *table)
{
    table->abs_max = abs_max;
    table->all_finite = all_finite;
    table->copy_stats = copy_stats;
    table->moments = moments;
    table->histogram = histogram;
}
