/* Quantisers, AVX-512. */
#include "kernel/quant_group.h"
#include "kernel/simd_avx512.h"
#include "kernel/variants.h"

static inline vint int_xor3(vint a, vint b, vint c)
{
    return _mm512_ternarylogic_epi32(a, b, c, 0x96);
}

/* 64-bit lane i holds 2 i + odd. */
static inline vint i64_counters(int odd)
{
    return _mm512_add_epi64(_mm512_setr_epi64(0, 2, 4, 6, 8, 10, 12, 14), _mm512_set1_epi64(odd));
}

/* The low words of the lanes of both, interleaved. */
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

/* Four vectors of 16 codes as 64 bytes in order, saturated. */
static inline vint bytes_narrow(const vint q[4])
{
    const vint order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    vint low = _mm512_packs_epi32(q[0], q[1]), high = _mm512_packs_epi32(q[2], q[3]);
    return _mm512_permutexvar_epi32(order, _mm512_packs_epi16(low, high));
}

/* Store the codes of vector i at p + 16 i. */
static inline void bytes_put_four(int8_t *p, vint x)
{
    _mm512_storeu_si512(p, x);
}

#include "kernel/quant_x86.h"

#include "kernel/quant_simd.h"

void tg__quant_avx512(tg__kernels *table)
{
    fill(table);
}
