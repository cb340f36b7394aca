/* 16-bit floats, AVX2 and F16C. */
#include "kernel/simd_avx2.h"
#include "kernel/variants.h"
#include <math.h>

typedef __m128i vec16; /* WIDTH of them */

#define int_floats _mm256_castsi256_ps

static inline vec16 get16(const tg__word *p, size_t left)
{
    if (left >= WIDTH)
        return _mm_loadu_si128((const __m128i *)(const void *)p);
    uint16_t part[WIDTH] = {0};
    memcpy(part, p, left * sizeof(*p));
    return _mm_loadu_si128((const __m128i *)(const void *)part);
}

static inline void put16(tg__word *p, size_t left, vec16 h)
{
    if (left >= WIDTH) {
        _mm_storeu_si128((__m128i *)(void *)p, h);
        return;
    }
    uint16_t part[WIDTH];
    _mm_storeu_si128((__m128i *)(void *)part, h);
    memcpy(p, part, left * sizeof(*p));
}

static inline void stream16(tg__word *p, vec16 h)
{
    _mm_stream_si128((__m128i *)(void *)p, h);
}

#include "kernel/half_x86.h"

/* The instruction by itself would return infinity on overflow, so x is clamped. */
static inline vec16 f16_from(vec x)
{
    return _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

static inline vec bf16_get(const tg__word *p, size_t left)
{
    return int_floats(_mm256_slli_epi32(_mm256_cvtepu16_epi32(get16(p, left)), 16));
}

static inline vec16 bf16_from(vec x)
{
    const vint sum = bf16_words(x);
    return _mm_packus_epi32(_mm256_castsi256_si128(sum), _mm256_extracti128_si256(sum, 1));
}

#include "kernel/half_simd.h"

void tg__half_avx2(tg__kernels *table)
{
    fill(table);
}
