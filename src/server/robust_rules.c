/* The rules themselves, block by block, so that a block of all rows stays in the cache. */
#include "base/mem.h"
#include "kernel/kernel.h"
#include "server/robust.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- element by element ---------------------------------------------------------------------- */

/* Whole blocks, so that compilers see a fixed number of elements. */
static void exchange(float *restrict low, float *restrict high)
{
    for (size_t i = 0; i < TG__ROBUST_BLOCK; i++) {
        const float a = low[i], b = high[i];
        const float least = b < a ? b : a, most = b < a ? a : b; /* before stores: vectorized */
        low[i] = least;
        high[i] = most;
    }
}

/* Sort m lines, element by element, by merge exchange (Knuth, The Art of Computer Programming, vol.
 * 3, 5.2.2, algorithm M). */
static void sort_lines(float *lines, size_t m)
{
    size_t top = 1;
    while (2 * top < m)
        top *= 2;
    for (size_t p = top; p > 0; p /= 2)
        for (size_t q = top, r = 0, d = p;; d = q - p, q /= 2, r = p) {
            for (size_t i = 0; i + d < m; i++)
                if ((i & p) == r)
                    exchange(lines + i * TG__ROBUST_BLOCK, lines + (i + d) * TG__ROBUST_BLOCK);
            if (q == p)
                break;
        }
}

/* The mean of lines [lo, hi). (+0 added to -0 is +0, as in a mean.) */
static void mean_of_lines(const float *lines, size_t lo, size_t hi, size_t len, float *dst)
{
    const double count = (double)(hi - lo);
    double sum[TG__ROBUST_BLOCK];
    memset(sum, 0, sizeof sum);
    for (size_t k = lo; k < hi; k++)
        for (size_t i = 0; i < TG__ROBUST_BLOCK; i++)
            sum[i] += (double)lines[k * TG__ROBUST_BLOCK + i];
    for (size_t i = 0; i < len; i++)
        dst[i] = (float)(sum[i] / count);
}

void tg__robust_sorted(const tg__robust *r, size_t m, int64_t wrong, size_t n, float *dst)
{
    const size_t cut = r->rule.kind == TG__ROBUST_TRIMMED ? (size_t)wrong : (m - 1) / 2;
    for (size_t at = 0; at < n; at += TG__ROBUST_BLOCK) {
        const size_t len = TG__MIN(n - at, TG__ROBUST_BLOCK);
        for (size_t k = 0; k < m; k++)
            memcpy(r->lines + k * TG__ROBUST_BLOCK, r->row[k] + at, len * sizeof *dst);
        sort_lines(r->lines, m);
        mean_of_lines(r->lines, cut, m - cut, len, dst + at);
    }
}

/* ---- by distances ---------------------------------------------------------------------------- */

/* Add |a - b|^2 to *sum; infinity if a difference overflows f32. */
static void add_distance(const float *a, const float *b, size_t len, double *sum)
{
    float difference[TG__ROBUST_BLOCK];
    tg__stats stats;
    tg__kernel()->sub_to(difference, a, b, len);
    tg__kernel()->copy_stats(NULL, difference, len, &stats);
    *sum += stats.finite ? stats.sum_sq : (double)INFINITY;
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The sum of row k's distances to its `near` nearest ones. */
static double score(const tg__robust *r, size_t m, size_t k, size_t near)
{
    double sum = 0;
    size_t count = 0;
    for (size_t other = 0; other < m; other++)
        if (other != k)
            r->near[count++] = r->distance[TG__MIN(k, other) * m + TG__MAX(k, other)];
    qsort(r->near, count, sizeof *r->near, ascending);
    for (size_t i = 0; i < near; i++)
        sum += r->near[i];
    return sum;
}

void tg__robust_krum(const tg__robust *r, size_t m, int64_t wrong, size_t n, float *dst)
{
    size_t best = 0;
    double least = INFINITY;
    memset(r->distance, 0, m * m * sizeof *r->distance);
    for (size_t at = 0; at < n; at += TG__ROBUST_BLOCK)
        for (size_t i = 0; i < m; i++)
            for (size_t k = i + 1; k < m; k++)
                add_distance(r->row[i] + at, r->row[k] + at, TG__MIN(n - at, TG__ROBUST_BLOCK),
                             &r->distance[i * m + k]);
    for (size_t k = 0; k < m; k++) {
        const double of_k = score(r, m, k, m - (size_t)wrong - 2);
        if (of_k < least) {
            least = of_k;
            best = k;
        }
    }
    memcpy(dst, r->row[best], n * sizeof *dst);
}

/* The longest step that is not scaled down. */
static double longest(const tg__robust *r, size_t m)
{
    if (r->rule.tau > 0)
        return r->rule.tau;
    memcpy(r->near, r->distance, m * sizeof *r->near);
    qsort(r->near, m, sizeof *r->near, ascending);
    return r->near[(m - 1) / 2];
}

void tg__robust_clipped(const tg__robust *r, size_t m, size_t n, const float *last, float *dst)
{
    const tg__kernels *kernel = tg__kernel();
    float sum[TG__ROBUST_BLOCK], step[TG__ROBUST_BLOCK];
    memset(r->distance, 0, m * sizeof *r->distance);
    for (size_t at = 0; at < n; at += TG__ROBUST_BLOCK)
        for (size_t k = 0; k < m; k++)
            add_distance(r->row[k] + at, last + at, TG__MIN(n - at, TG__ROBUST_BLOCK),
                         &r->distance[k]);
    for (size_t k = 0; k < m; k++)
        r->distance[k] = sqrt(r->distance[k]);
    const double tau = longest(r, m);
    for (size_t at = 0; at < n; at += TG__ROBUST_BLOCK) {
        const size_t len = TG__MIN(n - at, TG__ROBUST_BLOCK);
        memset(sum, 0, sizeof sum);
        for (size_t k = 0; k < m; k++) {
            if (r->distance[k] == (double)INFINITY) /* scaled down to nothing */
                continue;
            kernel->sub_to(step, r->row[k] + at, last + at, len);
            kernel->axpy(sum, r->distance[k] <= tau ? 1 : (float)(tau / r->distance[k]), step, len);
        }
        kernel->scale(sum, 1.0f / (float)m, len);
        memcpy(dst + at, last + at, len * sizeof *dst);
        kernel->add(dst + at, sum, len);
    }
}
