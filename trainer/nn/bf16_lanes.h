/* For *_avx512bf16.c: 16 lanes of floats, and of pairs of bf16. */
#ifndef TG_NN_BF16_LANES_H
#define TG_NN_BF16_LANES_H

#include <immintrin.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LANES 16

#define INLINE static inline __attribute__((always_inline))

/* The first n of 16. */
INLINE __mmask16 first(size_t n)
{
    const unsigned all = 0xffff;
    return (__mmask16)(n < LANES ? all >> (LANES - n) : all);
}

INLINE __m512 load_row(const float *x, size_t n)
{
    return n < LANES ? _mm512_maskz_loadu_ps(first(n), x) : _mm512_loadu_ps(x);
}

/* Lane by lane a pair: of low and of high, rounded. */
INLINE __m512i interleave(__m512 low, __m512 high)
{
    const __m512i order =
        _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6,
                         21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    return _mm512_permutexvar_epi16(order, (__m512i)_mm512_cvtne2ps_pbh(high, low));
}

/* ---- 16 x 16 pairs are transposed: vectors r0 to r15
 * ---------------------------------------------
 */

#define EACH_LANE(X) \
    X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15)

INLINE void transpose_four(__m512i *r0, __m512i *r1, __m512i *r2, __m512i *r3)
{
    const __m512i a = _mm512_unpacklo_epi32(*r0, *r1), b = _mm512_unpackhi_epi32(*r0, *r1),
                  c = _mm512_unpacklo_epi32(*r2, *r3), d = _mm512_unpackhi_epi32(*r2, *r3);
    *r0 = _mm512_unpacklo_epi64(a, c);
    *r1 = _mm512_unpackhi_epi64(a, c);
    *r2 = _mm512_unpacklo_epi64(b, d);
    *r3 = _mm512_unpackhi_epi64(b, d);
}

/* Parts of 128 bits: a, b, c, d become rows j, 4 + j, 8 + j, 12 + j of the transposed. */
INLINE void transpose_parts(__m512i *r0, __m512i *r1, __m512i *r2, __m512i *r3)
{
    const __m512i a = _mm512_shuffle_i32x4(*r0, *r1, 0x88),
                  b = _mm512_shuffle_i32x4(*r0, *r1, 0xdd),
                  c = _mm512_shuffle_i32x4(*r2, *r3, 0x88),
                  d = _mm512_shuffle_i32x4(*r2, *r3, 0xdd);
    *r0 = _mm512_shuffle_i32x4(a, c, 0x88);
    *r1 = _mm512_shuffle_i32x4(b, d, 0x88);
    *r2 = _mm512_shuffle_i32x4(a, c, 0xdd);
    *r3 = _mm512_shuffle_i32x4(b, d, 0xdd);
}

#define TRANSPOSE()                             \
    do {                                        \
        transpose_four(&r0, &r1, &r2, &r3);     \
        transpose_four(&r4, &r5, &r6, &r7);     \
        transpose_four(&r8, &r9, &r10, &r11);   \
        transpose_four(&r12, &r13, &r14, &r15); \
        transpose_parts(&r0, &r4, &r8, &r12);   \
        transpose_parts(&r1, &r5, &r9, &r13);   \
        transpose_parts(&r2, &r6, &r10, &r14);  \
        transpose_parts(&r3, &r7, &r11, &r15);  \
    } while (0)

#endif
