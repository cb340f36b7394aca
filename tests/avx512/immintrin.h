/* AVX-512 for CPUs without it, for *_avx512.c in builds with TG_EMULATE_AVX512: the intrinsics of
 * SIMDe, and those that SIMDe 0.7.4 does not have, written from Intel's pseudo-code. A kernel that
 * uses another one that is missing does not compile (target specific option mismatch): add it. */
#ifndef TG_EMULATED_IMMINTRIN_H
#define TG_EMULATED_IMMINTRIN_H
#pragma GCC system_header
#include_next <immintrin.h>
#define SIMDE_ENABLE_NATIVE_ALIASES
#include <simde/x86/avx512.h>
#include <stdint.h>
#include <string.h>

typedef float emu_f32x8 __attribute__((vector_size(32)));
typedef float emu_f32x16 __attribute__((vector_size(64)));
typedef double emu_f64x8 __attribute__((vector_size(64)));
typedef int8_t emu_i8x16 __attribute__((vector_size(16)));
typedef int16_t emu_i16x16 __attribute__((vector_size(32)));
typedef uint16_t emu_u16x16 __attribute__((vector_size(32)));
typedef int32_t emu_i32x16 __attribute__((vector_size(64)));

/* ---- masks ---- */
#undef _cvtmask16_u32
#define _cvtmask16_u32(m) ((uint32_t)(__mmask16)(m))
#undef _cvtu32_mask16
#define _cvtu32_mask16(bits) ((__mmask16)(bits))
#undef _knot_mask8
#define _knot_mask8(m) ((__mmask8) ~(m))
#undef _kand_mask16
#define _kand_mask16(a, b) ((__mmask16)((a) & (b)))

/* ---- memory: masked lanes are not touched ---- */

#define EMU_MASKED(load, store, vector, element)                         \
    static inline vector emu_##load(__mmask16 k, const void *p)          \
    {                                                                    \
        element to[16] = {0};                                            \
        for (size_t i = 0; i < 16; i++)                                  \
            if (k >> i & 1)                                              \
                memcpy(to + i, (const element *)p + i, sizeof(element)); \
        vector x;                                                        \
        memcpy(&x, to, sizeof(x));                                       \
        return x;                                                        \
    }                                                                    \
    static inline void emu_##store(void *p, __mmask16 k, vector x)       \
    {                                                                    \
        element from[16];                                                \
        memcpy(from, &x, sizeof(x));                                     \
        for (size_t i = 0; i < 16; i++)                                  \
            if (k >> i & 1)                                              \
                memcpy((element *)p + i, from + i, sizeof(element));     \
    }
EMU_MASKED(loadu_ps, storeu_ps, __m512, float)
EMU_MASKED(loadu_epi16, storeu_epi16, __m256i, int16_t)
EMU_MASKED(loadu_epi8, storeu_epi8, __m128i, int8_t)
#define _mm512_maskz_loadu_ps emu_loadu_ps
#define _mm256_maskz_loadu_epi16 emu_loadu_epi16
#define _mm_maskz_loadu_epi8 emu_loadu_epi8
#define _mm512_mask_storeu_ps emu_storeu_ps
#define _mm256_mask_storeu_epi16 emu_storeu_epi16
#define _mm_mask_storeu_epi8 emu_storeu_epi8

static inline __m256 emu_half(__m512 x, int high)
{
    float all[16];
    memcpy(all, &x, sizeof(x));
    return _mm256_loadu_ps(all + 8 * high);
}
static inline __m512i emu_join(__m256i low, __m256i high)
{
    __m512i x;
    memcpy(&x, &low, 32);
    memcpy((char *)&x + 32, &high, 32);
    return x;
}
#undef _mm512_extractf32x8_ps
#define _mm512_extractf32x8_ps(x, high) emu_half(x, high)

#undef _mm512_stream_ps
#define _mm512_stream_ps(p, x) emu_stream_ps(p, x)
static inline void emu_stream_ps(void *p, __m512 x)
{ /* the instruction faults, too */
    if ((uintptr_t)p % 64)
        __builtin_trap();
    memcpy(p, &x, 64);
}

/* ---- conversions ---- */
#undef _mm512_cvtepi32_ps
#define _mm512_cvtepi32_ps(x) ((__m512) __builtin_convertvector((emu_i32x16)(x), emu_f32x16))
#undef _mm512_cvtepi32_epi16
#define _mm512_cvtepi32_epi16(x) ((__m256i) __builtin_convertvector((emu_i32x16)(x), emu_i16x16))
#undef _mm512_cvtepi32_epi8
#define _mm512_cvtepi32_epi8(x) ((__m128i) __builtin_convertvector((emu_i32x16)(x), emu_i8x16))
#undef _mm512_cvtepi8_epi32
#define _mm512_cvtepi8_epi32(x) ((__m512i) __builtin_convertvector((emu_i8x16)(x), emu_i32x16))
#undef _mm512_cvtepu16_epi32
#define _mm512_cvtepu16_epi32(x) ((__m512i) __builtin_convertvector((emu_u16x16)(x), emu_i32x16))
#undef _mm512_cvtps_pd
#define _mm512_cvtps_pd(x) ((__m512d) __builtin_convertvector((emu_f32x8)(x), emu_f64x8))
#undef _mm512_cvtps_epi32
#define _mm512_cvtps_epi32(x) \
    emu_join(_mm256_cvtps_epi32(emu_half(x, 0)), _mm256_cvtps_epi32(emu_half(x, 1)))
#undef _mm512_cvtph_ps
#define _mm512_cvtph_ps(h)                                                 \
    ((__m512)emu_join((__m256i)_mm256_cvtph_ps(_mm256_castsi256_si128(h)), \
                      (__m256i)_mm256_cvtph_ps(_mm256_extracti128_si256(h, 1))))
/* The only mask in use has all lanes. */
#undef _mm512_maskz_cvtps_ph
#define _mm512_maskz_cvtps_ph(all, x, how)                      \
    _mm256_setr_m128i(_mm256_cvtps_ph(emu_half(x, 0), (how)&7), \
                      _mm256_cvtps_ph(emu_half(x, 1), (how)&7))

/* ---- others ---- */
#undef _mm512_srai_epi32
#define _mm512_srai_epi32(x, by) ((__m512i)((emu_i32x16)(x) >> (by)))

#undef _mm512_mask_shuffle_epi32
#define _mm512_mask_shuffle_epi32 emu_mask_shuffle_epi32
static inline __m512i emu_mask_shuffle_epi32(__m512i src, __mmask16 k, __m512i a, int how)
{
    emu_i32x16 x = (emu_i32x16)src, from = (emu_i32x16)a;
    for (int i = 0; i < 16; i++)
        if (k >> i & 1)
            x[i] = from[i / 4 * 4 + (how >> 2 * (i % 4) & 3)];
    return (__m512i)x;
}

#undef _mm512_reduce_max_ps
#define _mm512_reduce_max_ps emu_reduce_max_ps
static inline float emu_reduce_max_ps(__m512 v)
{
    emu_f32x16 x = (emu_f32x16)v;
    for (int half = 8; half > 0; half /= 2)
        for (int i = 0; i < half; i++)
            x[i] = x[i] > x[i + half] ? x[i] : x[i + half];
    return x[0];
}
#endif
