/* For tests: bytes and floats of golden files, from hexadecimal digits in lower case. */
#ifndef TESTS_FROM_HEX_H
#define TESTS_FROM_HEX_H

#include "codec/codec_impl.h"
#include <string.h>

enum { MAX_BYTES = 16384 }; /* room at dst */

static inline size_t from_hex(uint8_t *dst, const char *hex)
{
    const size_t len = strlen(hex) / 2;
    assert_true(len <= MAX_BYTES);
    for (size_t i = 0; i < 2 * len; i++) {
        const int digit = hex[i] <= '9' ? hex[i] - '0' : hex[i] - 'a' + 10;
        dst[i / 2] = (uint8_t)(dst[i / 2] << 4 | digit);
    }
    return len;
}

static inline size_t floats_from_hex(float *dst, const char *hex)
{
    static uint8_t bytes[MAX_BYTES];
    const size_t n = from_hex(bytes, hex) / sizeof(float);
    tg__floats_get(dst, bytes, n);
    return n;
}

#endif
