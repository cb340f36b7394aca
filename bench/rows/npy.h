/* NumPy's .npy files, little-endian. Vectors of f32: `train --dump-gradients` writes them and
 * `bench codec --gradients` reads them. Matrices: `eval --logits` writes them.
 *
 * Source: NumPy, "The NPY format", versions 1.0 (written and read) and 2.0, 3.0 (read) */
#ifndef TG_BENCH_NPY_H
#define TG_BENCH_NPY_H

#include "telegrad/base.h"
#include <stdio.h>

/* Write the header of a file of n floats; the floats follow in any number of calls. Returns false
 * if writing failed; ferror(file) tells it, too. */
bool bench_npy_head(FILE *file, size_t n);
/* The same for a matrix, stored row by row. bench_npy_read does not accept matrices. */
bool bench_npy_head_matrix(FILE *file, size_t rows, size_t cols);
bool bench_npy_values(FILE *file, const float *x, size_t n);

/* Read a whole file into *x_p (*n_p), released by free(). Errors TG_E_IO, TG_E_NOMEM; TG_E_CORRUPT:
 * the message says what is wrong and what is allowed (another type or shape, a length that does not
 * fit, values that are not finite) */
TG_NODISCARD tg_status bench_npy_read(const char *path, float **x_p, size_t *n_p);

#endif
