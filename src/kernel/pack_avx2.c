/* Packed codes, AVX2 (vectors of 16 bytes: a group's words are 4 of them). The fields of byte k of
 * the 16 words of a group are 8 / w vectors of 16 codes each. So bytes are assembled code by code,
 * and the 4 x 16 bytes are transposed into words. */
#include "kernel/pack.h"
#include "kernel/element.h"
#include "kernel/variants.h"
#include <immintrin.h>

typedef __m128i bytes16;

static inline bytes16 load(const void *p)
{
    return _mm_loadu_si128((const __m128i *)p);
}

static inline void store(void *p, bytes16 x)
{
    _mm_storeu_si128((__m128i *)p, x);
}

/* w and at are constants at the calls, where it is inlined. */
static inline void put_group(uint8_t *bytes, const int8_t *codes, unsigned w, unsigned at)
{
    const bytes16 field = _mm_set1_epi8((char)((1 << w) - 1));
    bytes16 b[4];
    for (unsigned k = 0; k < 4; k++) {
        bytes16 sum = _mm_setzero_si128();
        for (unsigned i = 8 / w; i-- > 0;) { /* the last code has the highest bits */
            bytes16 code = _mm_srli_epi16(load(codes + 16 * (8 / w * k + i)), (int)at);
            sum = _mm_or_si128(_mm_slli_epi16(sum, (int)w), _mm_and_si128(code, field));
        }
        b[k] = sum;
    }
    bytes16 low01 = _mm_unpacklo_epi8(b[0], b[1]), high01 = _mm_unpackhi_epi8(b[0], b[1]);
    bytes16 low23 = _mm_unpacklo_epi8(b[2], b[3]), high23 = _mm_unpackhi_epi8(b[2], b[3]);
    store(bytes, _mm_unpacklo_epi16(low01, low23));
    store(bytes + 16, _mm_unpackhi_epi16(low01, low23));
    store(bytes + 32, _mm_unpacklo_epi16(high01, high23));
    store(bytes + 48, _mm_unpackhi_epi16(high01, high23));
}

static inline void get_group(int8_t *codes, const uint8_t *bytes, unsigned w, unsigned at,
                             bool last)
{
    const bytes16 gather = _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    const bytes16 field = _mm_set1_epi8((char)((1 << w) - 1)),
                  top = _mm_set1_epi8((char)(1 << (at + w - 1)));
    bytes16 q[4], b[4];
    for (unsigned i = 0; i < 4; i++)
        q[i] = _mm_shuffle_epi8(load(bytes + 16 * i), gather);
    bytes16 low01 = _mm_unpacklo_epi32(q[0], q[1]), high01 = _mm_unpackhi_epi32(q[0], q[1]);
    bytes16 low23 = _mm_unpacklo_epi32(q[2], q[3]), high23 = _mm_unpackhi_epi32(q[2], q[3]);
    b[0] = _mm_unpacklo_epi64(low01, low23);
    b[1] = _mm_unpackhi_epi64(low01, low23);
    b[2] = _mm_unpacklo_epi64(high01, high23);
    b[3] = _mm_unpackhi_epi64(high01, high23);
    for (unsigned k = 0; k < 4; k++) {
        for (unsigned i = 0; i < 8 / w; i++) {
            int8_t *to = codes + 16 * (8 / w * k + i);
            bytes16 code = _mm_and_si128(_mm_srli_epi16(b[k], (int)(w * i)), field);
            code = _mm_slli_epi16(code, (int)at);
            if (at > 0)
                code = _mm_or_si128(code, load(to));
            if (last)
                code = _mm_sub_epi8(_mm_xor_si128(code, top), top);
            store(to, code);
        }
    }
}

#include "kernel/pack_simd.h"

void tg__pack_avx2(tg__kernels *table)
{
    fill(table);
}
