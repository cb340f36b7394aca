/* Vectors of f32 as NumPy's .npy files, little-endian: what `train --dump-gradients` writes and
 * `bench codec --gradients` reads; matrices: what `eval --logits` writes.
 *
 * Source: NumPy, "The NPY format", versions 1.0 (written and read) and 2.0, 3.0 (read) */
#ifndef TG_BENCH_NPY_H
#define TG_BENCH_NPY_H

#include "telegrad/base.h"
#include <stdio.h>

/* The head of a file of n floats, then the floats in any number of calls. Return false if writing
 * failed, which ferror(file) tells, too. */
bool bench_npy_head(FILE *file, size_t n);
/* The same of a matrix, row by row, which bench_npy_read does not take. */
bool bench_npy_head_matrix(FILE *file, size_t rows, size_t cols);
bool bench_npy_values(FILE *file, const float *x, size_t n);

/* Read a whole file. *x_p (*n_p) is released by free(). Errors TG_E_IO, TG_E_NOMEM; TG_E_CORRUPT:
 * names what is wrong and what is allowed (another type or shape, a length that does not fit,
 * values that are not finite) */
TG_NODISCARD tg_status bench_npy_read(const char *path, float **x_p, size_t *n_p);

#endif
