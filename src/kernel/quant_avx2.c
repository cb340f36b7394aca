/* Quantisers, AVX2. */
#include "kernel/quant_group.h"
#include "kernel/simd_avx2.h"
#include "kernel/variants.h"

static inline vint int_xor3(vint a, vint b, vint c)
{
    return a ^ (b ^ c); /* a is on the critical path */
}

/* 64-bit lane i holds 2 i + odd. */
static inline vint i64_counters(int odd)
{
    return _mm256_add_epi64(_mm256_setr_epi64x(0, 2, 4, 6), _mm256_set1_epi64x(odd));
}

/* The low words of the lanes of both, interleaved. */
static inline vint i64_merge(vint even, vint odd)
{
    return _mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xaa);
}

static inline vec bytes_get(const int8_t *p, size_t left)
{
    int8_t part[WIDTH] = {0};
    if (left < WIDTH) {
        memcpy(part, p, left);
        p = part;
    }
    __m128i b = _mm_loadl_epi64((const __m128i *)(const void *)p);
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(b));
}

static inline void bytes_put(int8_t *p, size_t left, vint x)
{
    __m128i b = _mm_packs_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
    b = _mm_packs_epi16(b, b);
    if (left >= WIDTH) {
        _mm_storel_epi64((__m128i *)(void *)p, b);
    } else {
        int8_t part[WIDTH];
        _mm_storel_epi64((__m128i *)(void *)part, b);
        memcpy(p, part, left);
    }
}

/* Four vectors of 8 codes as 32 bytes in order, saturated. */
static inline vint bytes_narrow(const vint q[4])
{
    const vint order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    vint low = _mm256_packs_epi32(q[0], q[1]), high = _mm256_packs_epi32(q[2], q[3]);
    return _mm256_permutevar8x32_epi32(_mm256_packs_epi16(low, high), order);
}

/* Store the codes of vector i at p + 16 i. */
static inline void bytes_put_four(int8_t *p, vint x)
{
    __m128i low = _mm256_castsi256_si128(x), high = _mm256_extracti128_si256(x, 1);
    _mm_storel_epi64((__m128i *)(void *)p, low);
    _mm_storeh_pi((__m64 *)(void *)(p + 16), _mm_castsi128_ps(low));
    _mm_storel_epi64((__m128i *)(void *)(p + 32), high);
    _mm_storeh_pi((__m64 *)(void *)(p + 48), _mm_castsi128_ps(high));
}

#include "kernel/quant_x86.h"

#include "kernel/quant_simd.h"

void tg__quant_avx2(tg__kernels *table)
{
    fill(table);
}
