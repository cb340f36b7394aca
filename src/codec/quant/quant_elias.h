/* Elias coding of vectors that are mostly 0 (Alistarh et al. 2017, app. A.2): for each nonzero code
 * its distance to the previous one, its sign, its magnitude.
 *
 *     (gamma(zeros before it + 1), sign, gamma(|code|)) for each, then gamma(zeros to the end + 1)
 *
 * gamma(v), v >= 1, with N = floor(log2 v): N bits 0, one bit 1, then the N low bits of v, lowest
 * first. The sign bit is 1 for negative codes. Bit j is bit j % 8 of byte j / 8; the last byte is
 * padded with 0. */
#ifndef TG_CODEC_QUANT_ELIAS_H
#define TG_CODEC_QUANT_ELIAS_H

#include "telegrad/base.h"

/* Encode m <= 65536 codes. Returns the number of bytes; 0 if it exceeds cap. dst has room for cap +
 * TG__ELIAS_SLACK */
#define TG__ELIAS_SLACK 8u
size_t tg__elias_put(uint8_t *dst, size_t cap, const int8_t *codes, size_t m);

/* Reads the nonzero codes in order. Never reads beyond src + len. */
typedef struct tg__elias {
    const uint8_t *src;
    size_t len, at; /* bytes; bits read */
    size_t place, following, m;
    int code; /* at `place`; none if place == m. The next is at `following` or later */
} tg__elias;
/* Both return false if the bytes are not the code of m elements. At the end (place == m), every bit
 * has been checked. */
bool tg__elias_begin(tg__elias *e, const uint8_t *src, size_t len, size_t m);
bool tg__elias_next(tg__elias *e);

#endif
