/* PowerSGD's passes over a matrix with skinny factors, AVX-512. */
#include "base/mem.h"
#include "kernel/simd_avx512.h"
#include "kernel/variants.h"

enum { FOLD_ROWS = 4, GROUP = 4 };

static inline void vec_stream(float *p, vec x)
{
    _mm512_stream_ps(p, x);
}

static inline float fold_lanes(const vec lanes[1])
{
    const __m256 low = _mm512_castps512_ps256(lanes[0]), high = _mm512_extractf32x8_ps(lanes[0], 1);
    const __m256 a = _mm256_add_ps(low, high);
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
        __m512d low = _mm512_setzero_pd(), high = low;
        double lane[TG__LANES], sum = 0;
        for (size_t i = begin; i < end; i += 16) {
            const __m512 a = vec_get(x + i, end - i), b = vec_get(y + i, end - i);
            low = _mm512_add_pd(low, _mm512_mul_pd(_mm512_cvtps_pd(_mm512_castps512_ps256(a)),
                                                   _mm512_cvtps_pd(_mm512_castps512_ps256(b))));
            high =
                _mm512_add_pd(high, _mm512_mul_pd(_mm512_cvtps_pd(_mm512_extractf32x8_ps(a, 1)),
                                                  _mm512_cvtps_pd(_mm512_extractf32x8_ps(b, 1))));
        }
        _mm512_storeu_pd(lane, low);
        _mm512_storeu_pd(lane + 8, high);
        for (size_t l = 0; l < TG__LANES; l++)
            sum += lane[l];
        total += sum;
    }
    return total;
}

void tg__skinny_avx512(tg__kernels *table)
{
    fill(table);
    table->dot = dot;
}
