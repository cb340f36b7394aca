/* Bits of a code: bit j is bit j % 8 of byte j / 8. */
#ifndef TG_WIRE_BITS_H
#define TG_WIRE_BITS_H

#include "base/mem.h"

/* 64 bits from byte `at` of src (len bytes); zeros beyond the end. */
static inline uint64_t tg__bits_from(const uint8_t *src, size_t len, size_t at)
{
    if (at + 8 <= len)
        return tg__get64(src + at);
    uint64_t word = 0;
    for (size_t j = at; j < len; j++)
        word |= (uint64_t)src[j] << 8 * (j - at);
    return word;
}

#endif
