#include "codec/block/dct.h"
#include "base/mem.h"
#include "kernel/kernel.h"
#include <math.h>
#include <pthread.h>
#include <string.h>

enum { SIDE = TG__BLOCK_SIDE, ENTRIES = SIDE * (SIDE + 1) * (2 * SIDE + 1) / 6 };

/* C of every size in sequence, and C^T. */
static float basis[ENTRIES], turned[ENTRIES];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static size_t offset(size_t n)
{
    return (n - 1) * n * (2 * n - 1) / 6;
}

/* The sum of (-1)^j x^(2 j + odd) / (2 j + odd)!, |x| <= pi / 4. */
static double series(double x, int odd)
{
    double term = odd ? x : 1, sum = term;
    for (int j = 1 + odd; j < 21; j += 2) {
        term *= -x * x / (double)(j * (j + 1));
        sum += term;
    }
    return sum;
}

/* cos(pi k / (2 n)), reduced to an eighth of the circle in integers, so that symmetric entries are
 * exactly equal. */
static double cosine(size_t k, size_t n)
{
    const double pi = 3.14159265358979323846;
    k %= 4 * n;
    k = TG__MIN(k, 4 * n - k);
    const bool negative = k > n;
    k = TG__MIN(k, 2 * n - k);
    const double value = 2 * k <= n ? series(pi * (double)k / (double)(2 * n), 0)
                                    : series(pi * (double)(n - k) / (double)(2 * n), 1);
    return negative ? -value : value;
}

static void make(void)
{
    for (size_t n = 1; n <= SIDE; n++)
        for (size_t u = 0; u < n; u++)
            for (size_t i = 0; i < n; i++) {
                const double norm = sqrt((u == 0 ? 1.0 : 2.0) / (double)n);
                const float value = (float)(norm * cosine((2 * i + 1) * u, n));
                basis[offset(n) + u * n + i] = value;
                turned[offset(n) + i * n + u] = value;
            }
}

/* The matrix C (n, n), row by row. */
static const float *matrix(size_t n)
{
    (void)pthread_once(&once, make);
    return basis + offset(n);
}

/* out (rows, cols) = sum over k of p[k] q[k]^T; rows of p and q are p_stride, q_stride apart. */
static void product(float *out, size_t rows, size_t cols, const float *p, size_t p_stride,
                    const float *q, size_t q_stride, size_t count)
{
    const tg__skinny s = {.rows = rows,
                          .cols = cols,
                          .rank = count,
                          .stride = cols,
                          .left_stride = p_stride,
                          .right_stride = q_stride};
    tg__kernel()->skinny_expand(&s, out, p, q);
}

void tg__dct(const float *x, size_t stride, size_t height, size_t width, float *y)
{
    float half[TG__BLOCK_MAX]; /* (C x)^T (width, height) */
    (void)matrix(height);
    product(half, width, height, x, stride, turned + offset(height), height, height);
    product(y, height, width, half, height, turned + offset(width), width, width);
}

/* Rows of y, and columns with values, are gathered first: with few elements this shortens the
 * products. */
void tg__dct_back(const uint16_t *place, const float *val, size_t n, size_t height, size_t width,
                  float *x)
{
    const float *down = matrix(height), *across = matrix(width);
    float y[TG__BLOCK_MAX], rows[TG__BLOCK_MAX], cols[TG__BLOCK_MAX], half[TG__BLOCK_MAX];
    uint8_t at_row[SIDE], at_col[SIDE];
    bool row_used[SIDE] = {false}, col_used[SIDE] = {false};
    size_t nrows = 0, ncols = 0;
    for (size_t j = 0; j < n; j++) {
        row_used[place[j] / width] = true;
        col_used[place[j] % width] = true;
    }
    for (size_t u = 0; u < height; u++)
        if (row_used[u]) {
            memcpy(rows + nrows * height, down + u * height, height * sizeof *rows);
            at_row[u] = (uint8_t)nrows++;
        }
    for (size_t v = 0; v < width; v++)
        if (col_used[v]) {
            memcpy(cols + ncols * width, across + v * width, width * sizeof *cols);
            at_col[v] = (uint8_t)ncols++;
        }
    memset(y, 0, nrows * ncols * sizeof *y);
    for (size_t j = 0; j < n; j++)
        y[at_row[place[j] / width] * ncols + at_col[place[j] % width]] = val[j];
    product(half, ncols, height, y, ncols, rows, height, nrows);
    product(x, height, width, half, height, cols, width, ncols);
}
