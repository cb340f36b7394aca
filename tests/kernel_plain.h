/* For tests: sums, signs and selections as plain loops over elements, against which every level is
 * compared, also the reference, which is the vectors' template with vectors of one float. The
 * arithmetic of steps has answers by hand (kernel_known_test). */
#ifndef TG_KERNEL_PLAIN_H
#define TG_KERNEL_PLAIN_H

#include "kernel/element.h"
#include <math.h>

/* Add up the expression for the elements of x in lanes and chunks. */
#define PLAIN_SUM(total, value)                                                \
    for (size_t begin = 0; begin < n; begin += TG__CHUNK) {                    \
        double lanes[TG__LANES] = {0};                                         \
        for (size_t i = begin; i < TG__MIN(n, begin + (size_t)TG__CHUNK); i++) \
            lanes[i % TG__LANES] += (value);                                   \
        (total) += tg__lanes_sum(lanes);                                       \
    }

static inline void plain_copy_stats(float *dst, const float *x, size_t n, tg__stats *stats)
{
    *stats = (tg__stats){0};
    PLAIN_SUM(stats->sum_sq, (double)x[i] * (double)x[i])
    PLAIN_SUM(stats->sum_abs, fabs((double)x[i]))
    stats->finite = isfinite(stats->sum_abs);
    if (!stats->finite)
        stats->sum_sq = stats->sum_abs = (double)NAN;
    if (dst && n > 0)
        memcpy(dst, x, n * sizeof(*x));
}

static inline void plain_moments(const float *x, size_t n, float from, tg__moments *sums)
{
    *sums = (tg__moments){0};
    PLAIN_SUM(sums->sum, (double)x[i] - (double)from)
    PLAIN_SUM(sums->sum_sq, ((double)x[i] - (double)from) * ((double)x[i] - (double)from))
    if (!isfinite(sums->sum_sq))
        sums->sum = sums->sum_sq = (double)NAN;
}

static inline double plain_sum_abs(float *x, const float *g, size_t n)
{
    double total = 0;
    for (size_t i = 0; g && i < n; i++)
        x[i] += g[i];
    PLAIN_SUM(total, fabs((double)x[i]))
    return isfinite(total) ? total : (double)NAN;
}

static inline double plain_dgc_sum_abs(float *u, float *v, const float *g, size_t n, float m,
                                       bool nesterov)
{
    for (size_t i = 0; i < n; i++) {
        u[i] = nesterov ? m * (u[i] + g[i]) : m * u[i] + g[i];
        v[i] = v[i] + u[i];
        if (nesterov)
            v[i] = v[i] + g[i];
    }
    return plain_sum_abs(v, NULL, n);
}

static inline double plain_dot(const float *x, const float *y, size_t n)
{
    double total = 0;
    PLAIN_SUM(total, (double)x[i] * (double)y[i])
    return total;
}

static inline void plain_split_sums(const float *x, size_t n, float t, tg__split *s)
{
    *s = (tg__split){0};
    PLAIN_SUM(s->below, x[i] < t ? (double)x[i] : 0)
    PLAIN_SUM(s->above, x[i] < t ? 0 : (double)x[i])
    for (size_t i = 0; i < n; i++)
        s->nbelow += x[i] < t;
}

static inline void plain_column_sums(float *x, const float *g, size_t stride, size_t rows,
                                     size_t cols, const float *t, double *below, double *above,
                                     uint32_t *nbelow)
{
    for (size_t begin = 0; begin < rows; begin += TG__COLUMN_BLOCK)
        for (size_t c = 0; c < cols; c++) {
            double sums[2] = {0, 0};
            for (size_t r = begin; r < TG__MIN(rows, begin + TG__COLUMN_BLOCK); r++) {
                float *p = x + r * stride + c;
                if (g)
                    *p += g[r * stride + c];
                sums[*p < t[c]] += (double)*p;
                nbelow[c] += *p < t[c];
            }
            below[c] += sums[1];
            above[c] += sums[0];
        }
}

static inline void plain_put_bit(uint8_t *bits, size_t i, bool bit)
{
    bits[i / 8] = (uint8_t)((i % 8 ? bits[i / 8] : 0) | bit << i % 8);
}

static inline void plain_column_weigh_signs(const float *x, size_t stride, size_t rows, size_t cols,
                                            const float *weights, double *const sums[4])
{
    for (size_t begin = 0; begin < rows; begin += TG__COLUMN_BLOCK)
        for (size_t c = 0; c < cols; c++) {
            double sum[4] = {0, 0, 0, 0};
            for (size_t r = begin; r < TG__MIN(rows, begin + TG__COLUMN_BLOCK); r++) {
                const double p = (double)x[r * stride + c], w = (double)weights[r];
                sum[p < 0 ? 0 : 1] += p * w;
                sum[p < 0 ? 2 : 3] += w * w;
            }
            for (size_t i = 0; i < 4; i++)
                sums[i][c] += sum[i];
        }
}

static inline void plain_column_settle(float *x, size_t stride, size_t rows, size_t cols,
                                       const float *t, const float *plus, const float *minus,
                                       const float *weights, uint8_t *bits, size_t row_bytes,
                                       bool subtract)
{
    for (size_t r = 0; r < rows; r++, x += stride, bits += row_bytes)
        for (size_t c = 0; c < cols; c++) {
            const float weight = weights ? weights[r] : 1;
            const bool low = x[c] < weight * t[c];
            plain_put_bit(bits, c, low);
            if (subtract)
                x[c] -= weight * (low ? minus[c] : plus[c]);
        }
}

static inline void plain_sign_pack(const float *x, size_t n, float t, uint8_t *bits)
{
    for (size_t i = 0; i < n; i++)
        plain_put_bit(bits, i, x[i] < t);
}

static inline float plain_value(const uint8_t *bits, size_t i, const void *plus, const void *minus,
                                size_t at)
{
    float x;
    memcpy(&x, (const uint8_t *)(bits[i / 8] >> i % 8 & 1 ? minus : plus) + 4 * at, sizeof(x));
    return x;
}

static inline void plain_sign_decode(float *dst, const uint8_t *bits, size_t first, size_t n,
                                     float plus, float minus)
{
    for (size_t i = 0; i < n; i++)
        dst[i] = plain_value(bits, first + i, &plus, &minus, 0);
}

static inline void plain_sign_decode_add(float *dst, const uint8_t *bits, size_t first, size_t n,
                                         float plus, float minus)
{
    for (size_t i = 0; i < n; i++)
        dst[i] += plain_value(bits, first + i, &plus, &minus, 0);
}

static inline void plain_column_decode(float *dst, const uint8_t *bits, size_t first, size_t n,
                                       float weight, const uint8_t *plus, const uint8_t *minus)
{
    for (size_t i = 0; i < n; i++)
        dst[i] = plain_value(bits, first + i, plus, minus, i) * weight;
}

static inline void plain_column_decode_add(float *dst, const uint8_t *bits, size_t first, size_t n,
                                           float weight, const uint8_t *plus, const uint8_t *minus)
{
    for (size_t i = 0; i < n; i++)
        dst[i] += plain_value(bits, first + i, plus, minus, i) * weight;
}

static inline void plain_sign_settle(float *x, size_t n, float t, float plus, float minus)
{
    for (size_t i = 0; i < n; i++)
        x[i] -= x[i] < t ? minus : plus;
}

static inline void plain_vote(float *dst, const uint8_t *const *bits, size_t voters, size_t at,
                              size_t n)
{
    for (size_t i = 0; i < n; i++) {
        int sum = 0;
        for (size_t v = 0; v < voters; v++)
            sum += bits[v][at + i / 8] >> i % 8 & 1 ? -1 : 1;
        dst[i] = (float)((sum > 0) - (sum < 0));
    }
}

static inline void plain_sign_of(float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] = (float)((x[i] > 0) - (x[i] < 0));
}

static inline void plain_pick(tg__picked *to, size_t i, float x, bool chosen)
{
    if (chosen && to->count < to->cap) {
        to->idx[to->count] = (uint32_t)i;
        to->val[to->count] = x;
    }
    to->count += chosen;
}

static inline size_t plain_select(const float *x, size_t n, float threshold, uint32_t *idx,
                                  float *val, size_t cap)
{
    tg__picked to = {idx, val, cap, 0};
    for (size_t i = 0; i < n; i++)
        plain_pick(&to, i, x[i], fabsf(x[i]) >= threshold && x[i] != 0);
    return to.count;
}

static inline size_t plain_ahead_select(const float *x, const float *g, size_t n, float ahead,
                                        float threshold, uint32_t *idx, float *val, size_t cap)
{
    tg__picked to = {idx, val, cap, 0};
    for (size_t i = 0; i < n; i++) {
        const float score = x[i] + ahead * g[i];
        plain_pick(&to, i, score, fabsf(score) >= threshold && score != 0);
    }
    return to.count;
}

static inline size_t plain_add_select(float *r, const float *g, size_t n, float ahead,
                                      float threshold, uint32_t *idx, float *val, size_t cap)
{
    for (size_t i = 0; i < n; i++)
        r[i] += g[i];
    return plain_ahead_select(r, g, n, ahead, threshold, idx, val, cap);
}

static inline size_t plain_dgc_select(float *u, float *v, const float *g, size_t n, float m,
                                      bool nesterov, float ahead, float threshold, uint32_t *idx,
                                      float *val, size_t cap)
{
    (void)plain_dgc_sum_abs(u, v, g, n, m, nesterov);
    return ahead == 0 ? plain_select(v, n, threshold, idx, val, cap)
                      : plain_ahead_select(v, u, n, ahead, threshold, idx, val, cap);
}

static inline size_t plain_adacomp_select(const float *x, const float *g, size_t n, size_t bin,
                                          uint32_t *idx, float *val, size_t cap, tg__bins *bins)
{
    tg__picked to = {idx, val, cap, 0};
    *bins = (tg__bins){0, 0};
    for (size_t begin = 0; begin < n; begin += bin) {
        const size_t end = TG__MIN(n, begin + bin);
        float max = 0;
        for (size_t i = begin; i < end; i++)
            max = fabsf(x[i]) > max ? fabsf(x[i]) : max;
        bins->sum += (double)max;
        bins->count += max > 0;
        for (size_t i = begin; max > 0 && i < end; i++)
            plain_pick(&to, i, x[i], x[i] != 0 && fabsf(x[i] + g[i]) >= max);
    }
    return to.count;
}

/* The reference with these in place of its own. */
static inline tg__kernels tg__plain_kernels(void)
{
    tg__kernels k = *tg__kernel_level("ref");
    k.copy_stats = plain_copy_stats;
    k.moments = plain_moments;
    k.sum_abs = plain_sum_abs;
    k.dgc_sum_abs = plain_dgc_sum_abs;
    k.dot = plain_dot;
    k.split_sums = plain_split_sums;
    k.column_sums = plain_column_sums;
    k.column_weigh_signs = plain_column_weigh_signs;
    k.column_settle = plain_column_settle;
    k.sign_pack = plain_sign_pack;
    k.sign_decode = plain_sign_decode;
    k.sign_decode_add = plain_sign_decode_add;
    k.column_decode = plain_column_decode;
    k.column_decode_add = plain_column_decode_add;
    k.sign_settle = plain_sign_settle;
    k.vote = plain_vote;
    k.sign_of = plain_sign_of;
    k.select = plain_select;
    k.ahead_select = plain_ahead_select;
    k.add_select = plain_add_select;
    k.dgc_select = plain_dgc_select;
    k.adacomp_select = plain_adacomp_select;
    return k;
}

#endif
