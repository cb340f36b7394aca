/* The values of a sparse frame: k numbers in blocks of 512, counted from the frame's first.
 *
 *     f32    unchanged
 *     fp16   nearest even, saturating
 *     int8   per block: f32 scale = max|v| / 127, then a signed byte each; v ~ scale * byte
 *     4bit   scale = max|v| / 7, then two's complement nibbles -7..7, the lower one first
 *     2bit   two f32 levels: the means of |v| of the values below the block's mean of |v|, and of
 *            the others; then 2 bits each: 1 negative, 2 upper level
 *     1bit   one f32: the mean of |v|; then a sign bit each, 1 negative
 *     level  one u32: the number of runs; a run is (end u32, magnitude f32): the kept elements up
 *            to the end-th have this magnitude; then a sign bit each. For methods whose values have
 *            few magnitudes (Strom, AdaComp); lossless; runs are as long as possible.
 *
 * Bit fields fill bytes from the lowest bit, every block begins at a byte, and the padding of a
 * last byte is 0. All codings except f32 and level round: the writer sets `val` to what readers
 * will decode. docs/wire-format.md describes the bytes. */
#ifndef TG_CODEC_SPARSE_VALUES_H
#define TG_CODEC_SPARSE_VALUES_H

#include "telegrad/base.h"

enum {
    TG__VALUES_F32 = 0,
    TG__VALUES_FP16 = 1,
    TG__VALUES_INT8 = 2,
    TG__VALUES_4BIT = 3,
    TG__VALUES_2BIT = 4,
    TG__VALUES_1BIT = 5,
    TG__VALUES_LEVEL = 6,
    TG__VALUES_CODINGS = 7
};

enum { TG__VALUES_BLOCK = 512 };

/* Bytes of k values; val (k) is read only for LEVEL. */
size_t tg__values_len(int coding, const float *val, size_t k);
/* Write the values, tg__values_len bytes at dst (NULL: only round), and round val (k) to what
 * readers decode. val is finite and, for LEVEL, never 0. */
void tg__values_write(int coding, float *val, size_t k, uint8_t *dst);

/* Validate k values at src, of which `len` bytes are present; *used_p: the bytes that they take.
 * Checks everything: scales are finite and not negative, codes are in range, unused bits are 0.
 * Errors  TG_E_CORRUPT */
TG_NODISCARD tg_status tg__values_check(int coding, size_t k, const uint8_t *src, size_t len,
                                        size_t *used_p);

/* Returns checked values block by block. */
typedef struct tg__values_reader {
    const uint8_t *src, *signs; /* signs: LEVEL only */
    size_t k, done, run, runs;
    int coding;
} tg__values_reader;

/* *used_p: as in the check; SIZE_MAX if the bytes have changed since and no longer fit. */
void tg__values_begin(tg__values_reader *r, int coding, size_t k, const uint8_t *src, size_t len,
                      size_t *used_p);
/* The next min(512, rest) values; all calls except the last ask for 512. */
void tg__values_read(tg__values_reader *r, float *val, size_t count);

#endif
