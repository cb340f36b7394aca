/* Quantisers, AVX-512. */
#include "kernel/quant.h"
#include "kernel/simd_avx512.h"
#include "kernel/variants.h"

typedef __m512i vint;

static inline vec vec_min(vec a, vec b)
{
    return _mm512_min_ps(a, b);
}

static inline vec vec_max(vec a, vec b)
{
    return _mm512_max_ps(a, b);
}

static inline vint int_splat(int32_t a)
{
    return _mm512_set1_epi32(a);
}

static inline vint int_add(vint a, vint b)
{
    return _mm512_add_epi32(a, b);
}

static inline vint int_and(vint a, vint b)
{
    return _mm512_and_si512(a, b);
}

static inline vint int_xor(vint a, vint b)
{
    return _mm512_xor_si512(a, b);
}

static inline vint int_xor3(vint a, vint b, vint c)
{
    return _mm512_ternarylogic_epi32(a, b, c, 0x96);
}

static inline vint int_upper_half(vint a)
{
    return _mm512_srli_epi32(a, 16);
}

/* Divided by 65536, towards minus infinity. */
static inline vint int_floor_half(vint a)
{
    return _mm512_srai_epi32(a, 16);
}

/* To nearest even. */
static inline vint int_round(vec x)
{
    return _mm512_cvtps_epi32(x);
}

static inline vint i64_mul(vint a, vint b)
{
    return _mm512_mul_epu32(a, b);
}

static inline vint i64_high(vint a)
{
    return _mm512_srli_epi64(a, 32);
}

/* Lane i of 64 bits: 2 i + odd. */
static inline vint i64_counters(int odd)
{
    return _mm512_add_epi64(_mm512_setr_epi64(0, 2, 4, 6, 8, 10, 12, 14), _mm512_set1_epi64(odd));
}

/* The low words of the lanes of both, by turns. */
static inline vint i64_merge(vint even, vint odd)
{
    return _mm512_mask_shuffle_epi32(even, 0xaaaa, odd, _MM_PERM_CDAB);
}

static inline vec bytes_get(const int8_t *p, size_t left)
{
    __m128i b = left >= WIDTH ? _mm_loadu_si128((const __m128i *)(const void *)p)
                              : _mm_maskz_loadu_epi8(vec_lanes(left), p);
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(b));
}

static inline void bytes_put(int8_t *p, size_t left, vint x)
{
    __m128i b = _mm512_cvtepi32_epi8(x);
    if (left >= WIDTH)
        _mm_storeu_si128((__m128i *)(void *)p, b);
    else
        _mm_mask_storeu_epi8(p, vec_lanes(left), b);
}

#include "kernel/quant_simd.h"

void tg__quant_avx512(tg__kernels *table)
{
    fill(table);
}
