/* The values of a sparse frame: k numbers in blocks of 512, counted from the frame's first.
 *
 *     f32    as they are
 *     fp16   nearest even, saturating
 *     int8   a block: f32 scale = max|v| / 127, then a signed byte each; v ~ scale * byte
 *     4bit   scale = max|v| / 7, then two's complement nibbles -7..7, the lower one first
 *     2bit   two f32 levels: the means of |v| of those below the block's mean of |v|, and of the
 *            others; then 2 bits each: 1 negative, 2 upper level
 *     1bit   one f32: the mean of |v|; then a sign bit each, 1 negative
 *     level  one u32: how many runs; a run is (end u32, magnitude f32): the kept elements up to the
 *            end-th have this magnitude; then a sign bit each. For methods whose values have few
 *            magnitudes (Strom, AdaComp); lossless, runs are as long as can be.
 *
 * Bit fields fill bytes from the lowest bit, every block begins at a byte, what is left of a last
 * byte is 0. All but f32 and level round: the writer leaves in `val` what readers will decode.
 * docs/wire-format.md has the bytes. */
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

/* Bytes of k values; val (k) is only looked at for LEVEL. */
size_t tg__values_len(int coding, const float *val, size_t k);
/* Write them, tg__values_len bytes at dst (NULL: only round), and round val (k) to what readers
 * decode. val is finite and, for LEVEL, nowhere 0. */
void tg__values_write(int coding, float *val, size_t k, uint8_t *dst);

/* The bytes that k values take at src, of which `len` are there; *used_p. Everything is validated:
 * scales finite and not negative, no code beyond its range, no bit that means nothing. Errors
 * TG_E_CORRUPT */
TG_NODISCARD tg_status tg__values_check(int coding, size_t k, const uint8_t *src, size_t len,
                                        size_t *used_p);

/* Hands out checked values block by block. */
typedef struct tg__values_reader {
    const uint8_t *src, *signs; /* signs: LEVEL only */
    size_t k, done, run, runs;
    int coding;
} tg__values_reader;

/* *used_p: as the check found it, SIZE_MAX if the bytes have changed and do not fit any more. */
void tg__values_begin(tg__values_reader *r, int coding, size_t k, const uint8_t *src, size_t len,
                      size_t *used_p);
/* The next min(512, rest) values; all calls but the last ask for 512. */
void tg__values_read(tg__values_reader *r, float *val, size_t count);

#endif
