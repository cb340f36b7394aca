/* Codes of a few bits, packed in planes so that any instruction set can pack them with whole
 * vectors.
 *
 * Codes of 8 bits are bytes in order. Others come in blocks of 512. A block of `width` bits is
 * stored as planes of 4, 2 or 1 bits, one after another: the lowest 4 bits if there are 4, then the
 * next 2, then the next 1. A plane of w bits is divided into groups of 512 / w elements. A group of
 * m elements is L = ceil(m w / 32) little-endian 32-bit words (16 of them unless it is the vector's
 * last), with element e in word e % L at bit w * (e / L). Bits that belong to no element are 0. */
#ifndef TG_KERNEL_PACK_H
#define TG_KERNEL_PACK_H

#include "base/mem.h"
#include <stdbool.h>

#define TG__PACK_BLOCK 512u

/* The width of the plane that holds the bits from `at` on. */
static inline unsigned tg__plane_width(unsigned width, unsigned at)
{
    return width - at >= 4 ? 4 : width - at >= 2 ? 2 : 1;
}

/* Words of a group of m elements. */
static inline size_t tg__plane_words(size_t m, unsigned w)
{
    return (m * w + 31) / 32;
}

/* Bytes of a plane of m <= 512 elements. */
static inline size_t tg__plane_bytes(size_t m, unsigned w)
{
    size_t group = TG__PACK_BLOCK / w;
    return m / group * 64 + 4 * tg__plane_words(m % group, w);
}

/* Bytes of n codes. */
static inline size_t tg__packed_bytes(size_t n, unsigned width)
{
    if (width == 8)
        return n;
    size_t bytes = n / TG__PACK_BLOCK * (TG__PACK_BLOCK / 8 * width);
    for (unsigned at = 0; at < width; at += tg__plane_width(width, at))
        bytes += tg__plane_bytes(n % TG__PACK_BLOCK, tg__plane_width(width, at));
    return bytes;
}

/* Write one group: the w bits from `at` on of m <= 512 / w codes. */
static inline void tg__group_put(uint8_t *bytes, const int8_t *codes, size_t m, unsigned w,
                                 unsigned at)
{
    uint32_t word[16] = {0};
    size_t words = tg__plane_words(m, w);
    for (size_t e = 0; e < m; e++) {
        uint32_t bits = (uint32_t)(uint8_t)codes[e] >> at & ((1u << w) - 1);
        word[e % words] |= bits << w * (e / words);
    }
    for (size_t i = 0; i < words; i++)
        tg__put32(bytes + 4 * i, word[i]);
}

/* codes = (first plane), or |= (others), the group's bits << at; then, if `last`, the sign bit is
 * extended. */
static inline void tg__group_get(int8_t *codes, const uint8_t *bytes, size_t m, unsigned w,
                                 unsigned at, bool last)
{
    const size_t words = tg__plane_words(m, w);
    const unsigned sign = last ? 1u << (at + w - 1) : 0;
    for (size_t e = 0; e < m; e++) {
        const uint32_t bits = tg__get32(bytes + 4 * (e % words)) >> w * (e / words);
        const uint32_t code = (at ? (uint8_t)codes[e] : 0) | (bits & ((1u << w) - 1)) << at;
        codes[e] = (int8_t)(uint8_t)((code ^ sign) - sign);
    }
}

/* True if the bits of a last group that belong to no element are 0. */
bool tg__pack_clean(const uint8_t *bytes, size_t n, unsigned width);

#endif
