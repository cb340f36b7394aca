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

/* codes = (first plane), or |= (others), the group's bits << at; sign: the bit to extend; 0:
 * none */
static inline void get_group(int8_t *codes, const uint8_t *bytes, unsigned w, unsigned at, int sign)
{
    const bytes16 gather = _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    const bytes16 field = _mm_set1_epi8((char)((1 << w) - 1)), top = _mm_set1_epi8((char)sign);
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
            if (sign)
                code = _mm_sub_epi8(_mm_xor_si128(code, top), top);
            store(to, code);
        }
    }
}

static inline void pack_plane(uint8_t *bytes, const int8_t *codes, size_t m, unsigned w,
                              unsigned at)
{
    const size_t group = TG__PACK_BLOCK / w;
    size_t e = 0;
    for (; e + group <= m; e += group, bytes += 64)
        put_group(bytes, codes + e, w, at);
    if (e < m)
        tg__group_put(bytes, codes + e, m - e, w, at);
}

static inline void unpack_plane(int8_t *codes, const uint8_t *bytes, size_t m, unsigned w,
                                unsigned at, bool last)
{
    const size_t group = TG__PACK_BLOCK / w;
    size_t e = 0;
    for (; e + group <= m; e += group, bytes += 64)
        get_group(codes + e, bytes, w, at, last ? 1 << (at + w - 1) : 0);
    if (e == m)
        return;
    if (at == 0)
        memset(codes + e, 0, m - e);
    tg__group_get(codes + e, bytes, m - e, w, at);
    for (; last && e < m; e++)
        codes[e] = tg__sign_extend(codes[e], at + w);
}

/* One loop per width, so that widths and shifts are constants. */
static inline void pack_blocks(uint8_t *bytes, const int8_t *codes, size_t n, const unsigned width)
{
    for (size_t begin = 0; begin < n; begin += TG__PACK_BLOCK) {
        size_t m = TG__MIN(n - begin, (size_t)TG__PACK_BLOCK);
        unsigned at = 0;
        if (width & 4) {
            pack_plane(bytes, codes + begin, m, 4, 0);
            bytes += tg__plane_bytes(m, 4);
            at = 4;
        }
        if (width & 2) {
            pack_plane(bytes, codes + begin, m, 2, at);
            bytes += tg__plane_bytes(m, 2);
            at += 2;
        }
        if (width & 1) {
            pack_plane(bytes, codes + begin, m, 1, at);
            bytes += tg__plane_bytes(m, 1);
        }
    }
}

static inline void unpack_blocks(int8_t *codes, const uint8_t *bytes, size_t n,
                                 const unsigned width)
{
    for (size_t begin = 0; begin < n; begin += TG__PACK_BLOCK) {
        size_t m = TG__MIN(n - begin, (size_t)TG__PACK_BLOCK);
        unsigned at = 0;
        if (width & 4) {
            unpack_plane(codes + begin, bytes, m, 4, 0, width == 4);
            bytes += tg__plane_bytes(m, 4);
            at = 4;
        }
        if (width & 2) {
            unpack_plane(codes + begin, bytes, m, 2, at, !(width & 1));
            bytes += tg__plane_bytes(m, 2);
            at += 2;
        }
        if (width & 1) {
            unpack_plane(codes + begin, bytes, m, 1, at, true);
            bytes += tg__plane_bytes(m, 1);
        }
    }
}

static void pack(uint8_t *bytes, const int8_t *codes, size_t n, unsigned width)
{
    switch (width) {
#define WIDTH(w)                         \
    case w:                              \
        pack_blocks(bytes, codes, n, w); \
        break;
        WIDTH(1)
        WIDTH(2)
        WIDTH(3)
        WIDTH(4)
        WIDTH(5)
        WIDTH(6)
        WIDTH(7)
#undef WIDTH
    default:
        if (n > 0)
            memcpy(bytes, codes, n);
    }
}

static void unpack(int8_t *codes, const uint8_t *bytes, size_t n, unsigned width)
{
    switch (width) {
#define WIDTH(w)                           \
    case w:                                \
        unpack_blocks(codes, bytes, n, w); \
        break;
        WIDTH(1)
        WIDTH(2)
        WIDTH(3)
        WIDTH(4)
        WIDTH(5)
        WIDTH(6)
        WIDTH(7)
#undef WIDTH
    default:
        if (n > 0)
            memcpy(codes, bytes, n);
    }
}

void tg__pack_avx2(tg__kernels *table)
{
    table->pack = pack;
    table->unpack = unpack;
}
