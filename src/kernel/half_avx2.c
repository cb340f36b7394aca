/* 16-bit floats, AVX2 and F16C. */
#include "kernel/simd_avx2.h"
#include "kernel/variants.h"

typedef __m128i vec16; /* WIDTH of them */

/* Finite magnitudes are limited to `largest`, NaNs become a single one (tg__narrow_clamp); signs
 * are kept. */
static inline vec narrow_clamp(vec x, uint32_t largest)
{
    const __m256i inf = _mm256_set1_epi32((int)TG__F32_INF);
    __m256i bits = _mm256_castps_si256(x);
    __m256i a = _mm256_and_si256(bits, _mm256_set1_epi32((int)TG__F32_MAGNITUDE));
    __m256i sign = _mm256_xor_si256(bits, a);
    __m256i clamped = _mm256_min_epu32(a, _mm256_set1_epi32((int)largest));
    clamped = _mm256_blendv_epi8(clamped, inf, _mm256_cmpeq_epi32(a, inf));
    clamped = _mm256_blendv_epi8(clamped, _mm256_set1_epi32((int)TG__F32_NAN),
                                 _mm256_cmpgt_epi32(a, inf));
    return _mm256_castsi256_ps(_mm256_or_si256(clamped, sign));
}

/* True if no magnitude exceeds `largest`; this excludes NaN and infinity. */
static inline bool all_within(const vec x[4], uint32_t largest)
{
    __m256i max = _mm256_setzero_si256();
    for (size_t j = 0; j < 4; j++) {
        __m256i a =
            _mm256_and_si256(_mm256_castps_si256(x[j]), _mm256_set1_epi32((int)TG__F32_MAGNITUDE));
        max = _mm256_max_epu32(max, a);
    }
    __m256i above = _mm256_cmpgt_epi32(max, _mm256_set1_epi32((int)largest));
    return _mm256_testz_si256(above, above);
}

static inline vec16 get16(const uint16_t *p, size_t left)
{
    if (left >= WIDTH)
        return _mm_loadu_si128((const __m128i *)(const void *)p);
    uint16_t part[WIDTH] = {0};
    memcpy(part, p, left * sizeof(*p));
    return _mm_loadu_si128((const __m128i *)(const void *)part);
}

static inline void put16(uint16_t *p, size_t left, vec16 h)
{
    if (left >= WIDTH) {
        _mm_storeu_si128((__m128i *)(void *)p, h);
        return;
    }
    uint16_t part[WIDTH];
    _mm_storeu_si128((__m128i *)(void *)part, h);
    memcpy(p, part, left * sizeof(*p));
}

static inline void stream16(uint16_t *p, vec16 h)
{
    _mm_stream_si128((__m128i *)(void *)p, h);
}

static inline void stream_end(void)
{
    _mm_sfence();
}

static inline vec f16_get(const uint16_t *p, size_t left)
{
    return _mm256_cvtph_ps(get16(p, left));
}

/* The instruction by itself would return infinity on overflow, so x is clamped. */
static inline vec16 f16_from(vec x)
{
    return _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

static inline vec bf16_get(const uint16_t *p, size_t left)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(get16(p, left)), 16));
}

static inline vec16 bf16_from(vec x)
{
    __m256i bits = _mm256_castps_si256(x);
    __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    __m256i sum = _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd);
    sum = _mm256_srli_epi32(sum, 16);
    return _mm_packus_epi32(_mm256_castsi256_si128(sum), _mm256_extracti128_si256(sum, 1));
}

#include "kernel/half_simd.h"

void tg__half_avx2(tg__kernels *table)
{
    fill(table);
}
