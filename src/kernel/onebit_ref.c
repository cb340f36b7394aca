/* The two means of 1-bit SGD, the specification: of a vector by lanes and chunks, of the columns of
 * a matrix by blocks of 8 rows, each block summed from 0 in the order of its rows. */
#include "kernel/signs.h"
#include "kernel/variants.h"

static double sum_abs(float *x, const float *g, size_t n)
{
    double sum = 0;
    for (size_t begin = 0; begin < n; begin += TG__CHUNK) {
        double lanes[TG__LANES] = {0};
        tg__abs_add(lanes, x + begin, g ? g + begin : NULL, 0,
                    TG__MIN(n - begin, (size_t)TG__CHUNK));
        sum += tg__lanes_sum(lanes);
    }
    return isfinite(sum) ? sum : (double)NAN;
}

static void split_sums(const float *x, size_t n, float t, tg__split *s)
{
    *s = (tg__split){0};
    for (size_t begin = 0; begin < n; begin += TG__CHUNK) {
        tg__split_lanes lanes = {{0}, {0}};
        tg__split_add(&lanes, &s->nbelow, x + begin, t, 0, TG__MIN(n - begin, (size_t)TG__CHUNK));
        tg__split_sum(&lanes, s);
    }
}

static void column_sums(float *x, const float *g, size_t stride, size_t rows, size_t cols,
                        const float *t, double *below, double *above, uint32_t *nbelow)
{
    for (size_t begin = 0; begin < rows; begin += TG__COLUMN_BLOCK) {
        size_t end = TG__MIN(rows, begin + TG__COLUMN_BLOCK);
        for (size_t c = 0; c < cols; c++) {
            double low = 0, high = 0;
            for (size_t r = begin; r < end; r++) {
                float *p = x + r * stride + c;
                if (g)
                    *p += g[r * stride + c];
                if (*p < t[c]) {
                    low += (double)*p;
                    nbelow[c]++;
                } else {
                    high += (double)*p;
                }
            }
            below[c] += low;
            above[c] += high;
        }
    }
}

static void column_settle(float *x, size_t stride, size_t rows, size_t cols, const float *t,
                          const float *plus, const float *minus, uint8_t *bits, size_t row_bytes,
                          bool subtract)
{
    for (size_t r = 0; r < rows; r++, x += stride, bits += row_bytes) {
        for (size_t begin = 0; begin < cols; begin += 8) {
            size_t m = TG__MIN(cols - begin, (size_t)8);
            uint8_t byte = 0;
            for (size_t i = 0; i < m; i++) {
                bool low = x[begin + i] < t[begin + i];
                byte |= (uint8_t)(low << i);
                if (subtract)
                    x[begin + i] -= low ? minus[begin + i] : plus[begin + i];
            }
            bits[begin / 8] = byte;
        }
    }
}

static void column_decode(float *dst, const uint8_t *bits, size_t first, size_t n,
                          const uint8_t *plus, const uint8_t *minus)
{
    for (size_t i = 0; i < n; i++)
        dst[i] = tg__float_at(tg__bit(bits, first + i) ? minus : plus, i);
}

static void column_decode_add(float *dst, const uint8_t *bits, size_t first, size_t n,
                              const uint8_t *plus, const uint8_t *minus)
{
    for (size_t i = 0; i < n; i++)
        dst[i] += tg__float_at(tg__bit(bits, first + i) ? minus : plus, i);
}

void tg__onebit_ref(tg__kernels *table)
{
    table->sum_abs = sum_abs;
    table->split_sums = split_sums;
    table->column_sums = column_sums;
    table->column_settle = column_settle;
    table->column_decode = column_decode;
    table->column_decode_add = column_decode_add;
}
