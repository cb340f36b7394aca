/* A count sketch: a table of rows x cols cells that estimates any element of a vector. In each row,
 * element i is added to one cell, with a sign:
 *
 *     table[row][cell(row, i)] += sign(row, i) * x[i]
 *     estimate of x[i] = median over rows of sign(row, i) * table[row][cell(row, i)]
 *
 * It is linear: the sum of sketches is the sketch of the sum. An estimate is off by more than
 * |x| / sqrt(cols) only if that happens in half of the rows.
 *
 * Hashes  Cell and sign are bits of a word from simple tabulation (3-wise independent): the
 *         exclusive or of a random word for each byte of i. They depend only on the seed, the
 *         bucket and i.
 * Whole   A table that is not smaller than the vector becomes the vector itself: one row of n
 *         cells without collisions.
 *
 * Source: Charikar et al. 2002, "Finding frequent items in data streams"; Patrascu and Thorup 2012,
 * "The power of simple tabulation hashing", arXiv:1011.5200 */
#ifndef TG_METHOD_SKETCH_H
#define TG_METHOD_SKETCH_H

#include "method/method.h"

enum { TG__SKETCH_ROWS = 15, TG__SKETCH_COLS_LEAST = 64 };

typedef struct tg__sketch {
    size_t n, rows, cols;
    bool whole;
    uint32_t *word; /* (rows, 4, 256) for each byte of an index; NULL if whole */
} tg__sketch;

/* The shape of a sketch of n elements with about n / ratio cells; whole if a column more would make
 * it larger than the vector. */
tg__sketch tg__sketch_shape(size_t n, size_t rows, double ratio);
/* Draw the words, which the method owns.
 * Errors  TG_E_NOMEM */
TG_NODISCARD tg_status tg__sketch_init(tg__sketch *s, tg__method *m);
static inline size_t tg__sketch_cells(const tg__sketch *s)
{
    return s->rows * s->cols;
}
/* The place in the table of element i in a row; *sign_p: 1 or -1. */
size_t tg__sketch_cell(const tg__sketch *s, size_t row, size_t i, float *sign_p);

/* table (rows, cols) = the sketch of x (n). A cell sums in the order of elements. */
void tg__sketch_make(const tg__sketch *s, const float *x, float *table, tg__pool *pool);
/* x (n) = the estimates. If rows is even, the median is the mean of the two in the middle. */
void tg__sketch_estimate(const tg__sketch *s, const float *table, float *x, tg__pool *pool);
/* table += factor * the sketch of the k elements; or set their cells to 0. */
void tg__sketch_add(const tg__sketch *s, float *table, float factor, const uint32_t *idx,
                    const float *val, size_t k);
void tg__sketch_clear(const tg__sketch *s, float *table, const uint32_t *idx, size_t k);

#endif
