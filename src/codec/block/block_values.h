/* The values kept of a tensor's blocks, as bytes.
 *
 *     f32, fp16  in sequence; fp16 to nearest even, saturating
 *     2bit       a table of four f32, then 2 bits per value that select an entry, from the lowest
 *                bit of a byte on. With the mean m and the standard deviation s (divisor k - 1) of
 *                all values v,
 *                    code = round to nearest even (4 (v - m) / (6 s) + 2), clamped to 0 .. 3
 *                and its table entry is the mean of the values of that code, 0 if there are none.
 *                If
 *                s is 0, all have code 2. Computed in f64, in order.
 *
 * Source of 2bit: Sarfi et al. 2025 (SparseLoCo), arXiv:2508.15706, as in the authors' code */
#ifndef TG_CODEC_BLOCK_VALUES_H
#define TG_CODEC_BLOCK_VALUES_H

#include "telegrad/base.h"

enum { TG__BLOCK_F32 = 0, TG__BLOCK_FP16 = 1, TG__BLOCK_2BIT = 2, TG__BLOCK_CODINGS = 3 };

/* Bytes of k values. */
size_t tg__block_values_len(int coding, size_t k);
/* Write k > 0 finite values; val is updated to what readers decode. */
void tg__block_values_put(int coding, float *val, size_t k, uint8_t *dst);
/* Check that k values are finite and that the padding of the last byte is 0.
 * Errors  TG_E_CORRUPT */
TG_NODISCARD tg_status tg__block_values_check(int coding, const uint8_t *src, size_t k);
/* Read values first .. first + n - 1, which have been checked. */
void tg__block_values_get(int coding, const uint8_t *src, size_t first, size_t n, float *dst);

#endif
