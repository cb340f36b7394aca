/* 16-bit floats, AVX-512. */
#include "kernel/simd_avx512.h"
#include "kernel/variants.h"

typedef __m256i vec16; /* WIDTH of them */

/* Finite magnitudes are limited to `largest`, NaNs become a single one (tg__narrow_clamp); signs
 * are kept. */
static inline vec narrow_clamp(vec x, uint32_t largest)
{
    const __m512i inf = _mm512_set1_epi32((int)TG__F32_INF);
    __m512i bits = _mm512_castps_si512(x);
    __m512i a = _mm512_and_si512(bits, _mm512_set1_epi32((int)TG__F32_MAGNITUDE));
    __m512i sign = _mm512_xor_si512(bits, a);
    __m512i clamped = _mm512_min_epu32(a, _mm512_set1_epi32((int)largest));
    clamped = _mm512_mask_mov_epi32(clamped, _mm512_cmpeq_epi32_mask(a, inf), inf);
    clamped = _mm512_mask_mov_epi32(clamped, _mm512_cmpgt_epi32_mask(a, inf),
                                    _mm512_set1_epi32((int)TG__F32_NAN));
    return _mm512_castsi512_ps(_mm512_or_si512(clamped, sign));
}

/* True if no magnitude exceeds `largest`; this excludes NaN and infinity. */
static inline bool all_within(const vec x[4], uint32_t largest)
{
    __m512i max = _mm512_setzero_si512();
    for (size_t j = 0; j < 4; j++) {
        __m512i a =
            _mm512_and_si512(_mm512_castps_si512(x[j]), _mm512_set1_epi32((int)TG__F32_MAGNITUDE));
        max = _mm512_max_epu32(max, a);
    }
    return _mm512_cmpgt_epu32_mask(max, _mm512_set1_epi32((int)largest)) == 0;
}

static inline vec16 get16(const uint16_t *p, size_t left)
{
    return left >= WIDTH ? _mm256_loadu_si256((const __m256i *)(const void *)p)
                         : _mm256_maskz_loadu_epi16(vec_lanes(left), p);
}

static inline void put16(uint16_t *p, size_t left, vec16 h)
{
    if (left >= WIDTH)
        _mm256_storeu_si256((__m256i *)(void *)p, h);
    else
        _mm256_mask_storeu_epi16(p, vec_lanes(left), h);
}

static inline void stream16(uint16_t *p, vec16 h)
{
    _mm256_stream_si256((__m256i *)(void *)p, h);
}

static inline void stream_end(void)
{
    _mm_sfence();
}

static inline vec f16_get(const uint16_t *p, size_t left)
{
    return _mm512_cvtph_ps(get16(p, left));
}

/* The instruction by itself would return infinity on overflow, so x is clamped. */
static inline vec16 f16_from(vec x)
{
    /* gcc's macro for the form without a mask warns when optimisation is off. */
    return _mm512_maskz_cvtps_ph(0xffff, x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

static inline vec bf16_get(const uint16_t *p, size_t left)
{
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(get16(p, left)), 16));
}

static inline vec16 bf16_from(vec x)
{
    __m512i bits = _mm512_castps_si512(x);
    __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    __m512i sum = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd);
    return _mm512_cvtepi32_epi16(_mm512_srli_epi32(sum, 16));
}

#include "kernel/half_simd.h"

void tg__half_avx512(tg__kernels *table)
{
    fill(table);
}
