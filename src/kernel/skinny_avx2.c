/* PowerSGD's passes over a matrix with skinny factors, AVX2. */
#include "base/mem.h"
#include "kernel/simd_avx2.h"
#include "kernel/variants.h"

enum { FOLD_ROWS = 2, GROUP = 2 };

static inline void vec_stream(float *p, vec x)
{
    _mm256_stream_ps(p, x);
}

static inline float fold_lanes(const vec lanes[2])
{
    const __m256 a = _mm256_add_ps(lanes[0], lanes[1]);
    const __m128 b = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    const __m128 c = _mm_add_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_add_ss(c, _mm_movehdup_ps(c)));
}

#include "kernel/skinny_simd.h"

static double dot(const float *x, const float *y, size_t n)
{
    double total = 0;
    for (size_t begin = 0; begin < n; begin += TG__CHUNK) {
        const size_t end = TG__MIN(n, begin + TG__CHUNK);
        __m256d quad[4];
        double lane[TG__LANES], sum = 0;
        for (size_t l = 0; l < 4; l++)
            quad[l] = _mm256_setzero_pd();
        size_t i = begin;
        for (; i + 16 <= end; i += 16)
            for (size_t l = 0; l < 4; l++) {
                const __m256d a = _mm256_cvtps_pd(_mm_loadu_ps(x + i + 4 * l));
                const __m256d b = _mm256_cvtps_pd(_mm_loadu_ps(y + i + 4 * l));
                quad[l] = _mm256_add_pd(quad[l], _mm256_mul_pd(a, b));
            }
        for (size_t l = 0; l < 4; l++)
            _mm256_storeu_pd(lane + 4 * l, quad[l]);
        for (size_t l = 0; i + l < end; l++)
            lane[l] += (double)x[i + l] * (double)y[i + l];
        for (size_t l = 0; l < TG__LANES; l++)
            sum += lane[l];
        total += sum;
    }
    return total;
}

void tg__skinny_avx2(tg__kernels *table)
{
    fill(table);
    table->dot = dot;
}
