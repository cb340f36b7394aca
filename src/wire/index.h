/* Coding of ascending index lists: k distinct indices below n (docs/wire-format.md).
 *
 * raw     k little-endian 32-bit words
 * bitmap  ceil(n/8) bytes; index i is bit i%8 of byte i/8
 * rice    Golomb-Rice code with a parameter b (0..31) of the gaps idx[i] - idx[i-1] - 1, where
 *         idx[-1] = -1: the quotient gap >> b as that many 0 bits and a 1 bit, then the b low bits
 *         of the gap, lowest first. Bit j of the code is bit j % 8 of byte j / 8; the last byte is
 *         padded with 0 bits
 * ef      Elias-Fano with l = floor(log2(n / k)): the l low bits of every index, lowest first; then
 *         k + (n >> l) + 1 bits, of which bit (idx[i] >> l) + i is 1 for each i and the others are
 *         0. Bytes are filled as with Rice
 * Source  Golomb 1966, "Run-length encodings"; Rice and Plaunt 1971 */
#ifndef TG_WIRE_INDEX_H
#define TG_WIRE_INDEX_H

#include "base/keys.h"

enum {
    TG__INDEX_RAW = 0,
    TG__INDEX_BITMAP = 1,
    TG__INDEX_RICE = 2,
    TG__INDEX_EF = 3,
    TG__INDEX_CODINGS = 4,
    TG__INDEX_AUTO = 15
};

/* The key `index` of codecs and methods, and the coding that it names: raw, bitmap, rice, ef; AUTO
 * for any other word. */
int tg__index_named(const char *word);

#define TG__KEY_INDEX \
    TG__CHOICE("index", "auto", "auto|rice|raw|bitmap|ef", "index coding; auto: the smallest")

/* How k of n will be written: the coding, its parameter (Rice: the best b), and the exact length in
 * bytes. */
typedef struct tg__index_plan {
    int coding, param;
    size_t len;
} tg__index_plan;

/* Plan the coding of idx (k, ascending, distinct, < n <= 2^29): `coding`, or the smallest for AUTO
 * (among equals the one with the lowest number). Threads: pure */
tg__index_plan tg__index_choose(int coding, const uint32_t *idx, size_t k, size_t n);
/* Write as planned for the same arguments: plan->len bytes at dst. */
void tg__index_write(const tg__index_plan *plan, const uint32_t *idx, size_t k, size_t n,
                     uint8_t *dst);

/* A decoder that returns indices in blocks, so that its memory does not depend on the message's
 * size. */
typedef struct tg__index_reader {
    const uint8_t *src;
    size_t len, n, k, done;
    uint64_t pos, last; /* bit or byte position; last index + 1 */
    int coding, param;
} tg__index_reader;

/* Begin to read.
 * Errors  TG_E_CORRUPT: unknown coding or parameter, a length that k of n cannot have */
TG_NODISCARD tg_status tg__index_read_begin(tg__index_reader *r, int coding, int param, size_t n,
                                            size_t k, const uint8_t *src, size_t len);
/* Read the next min(cap, rest) indices; every index is checked: ascending, below n. At the end
 * *count_p is 0, and the function checks that the whole code has been used and its padding is zero.
 * Errors  TG_E_CORRUPT */
TG_NODISCARD tg_status tg__index_read(tg__index_reader *r, uint32_t *idx, size_t cap,
                                      size_t *count_p);

/* Validate a whole code.
 * Errors  TG_E_CORRUPT */
TG_NODISCARD tg_status tg__index_check(int coding, int param, size_t n, size_t k,
                                       const uint8_t *src, size_t len);
#endif
