/* 16-bit floats, AVX-512. */
#include "kernel/simd_avx512.h"
#include "kernel/variants.h"
#include <math.h>

typedef __m256i vec16; /* WIDTH of them */

#define int_floats _mm512_castsi512_ps

static inline vec16 get16(const tg__word *p, size_t left)
{
    return left >= WIDTH ? _mm256_loadu_si256((const __m256i *)(const void *)p)
                         : _mm256_maskz_loadu_epi16(vec_lanes(left), p);
}

static inline void put16(tg__word *p, size_t left, vec16 h)
{
    if (left >= WIDTH)
        _mm256_storeu_si256((__m256i *)(void *)p, h);
    else
        _mm256_mask_storeu_epi16(p, vec_lanes(left), h);
}

static inline void stream16(tg__word *p, vec16 h)
{
    _mm256_stream_si256((__m256i *)(void *)p, h);
}

#include "kernel/half_x86.h"

/* The instruction by itself would return infinity on overflow, so x is clamped. */
static inline vec16 f16_from(vec x)
{
    /* gcc's macro for the form without a mask warns when optimisation is off. */
    return _mm512_maskz_cvtps_ph(0xffff, x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

static inline vec bf16_get(const tg__word *p, size_t left)
{
    return int_floats(_mm512_slli_epi32(_mm512_cvtepu16_epi32(get16(p, left)), 16));
}

static inline vec16 bf16_from(vec x)
{
    return _mm512_cvtepi32_epi16(bf16_words(x));
}

#include "kernel/half_simd.h"

void tg__half_avx512(tg__kernels *table)
{
    fill(table);
}
