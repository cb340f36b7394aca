/* Median-clipped mean: before the mean, what a rank says of a tensor is cut to the median, over the
 * ranks that say anything of it, of its norms:
 *
 *     result = 1/P sum over j of x_j min(1, median / |x_j|)
 *
 * so that a rank whose update is far too large counts for no more than the others. Of an even
 * number of ranks the lower of the two in the middle is the median. Sums in rank order.
 *
 * Source: Sarfi et al. 2025, arXiv:2508.15706, in the form of the authors' code, which bounds the
 * median besides */
#include "base/mem.h"
#include "exchange/exchange.h"
#include "kernel/kernel.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static void begin(float *acc, size_t n)
{
    if (n > 0)
        memset(acc, 0, n * sizeof *acc);
}

static void add(float *acc, size_t n, const uint8_t *frame, size_t len, int rank, tg__pool *pool)
{
    (void)n;
    (void)rank;
    tg__frame_decode_add(frame, len, acc, pool);
}

static void finish(float *acc, size_t n, int size)
{
    tg__kernel()->scale(acc, 1.0f / (float)size, n);
}

/* The norms (tensors, size), those of one tensor in order of size, a vector (n). */
static size_t room(size_t n, size_t tensors, int size)
{
    return (TG__MAX(tensors, (size_t)1) + 1) * (size_t)size * sizeof(double) + n * sizeof(float);
}

static tg_segment tensor(const tg__exchange *x, size_t i)
{
    return x->segments == NULL ? (tg_segment){.n = x->n} : x->segments[i];
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Of the norms that are above 0; 0 if there is none. */
static double median(const double *norm, int size, double *sorted)
{
    size_t count = 0;
    for (int q = 0; q < size; q++)
        if (norm[q] > 0)
            sorted[count++] = norm[q];
    qsort(sorted, count, sizeof *sorted, compare);
    return count == 0 ? 0 : sorted[(count - 1) / 2];
}

static void all(const tg__exchange *x, float *acc, const uint8_t **frames, const size_t *lens)
{
    const size_t P = (size_t)x->size, tensors = x->segments == NULL ? 1 : x->nsegments;
    double *norm = x->room, *sorted = norm + tensors * P;
    float *own = (float *)(void *)(sorted + P);
    for (size_t q = 0; q < P; q++) {
        tg__frame_decode(frames[q], lens[q], own, x->pool);
        for (size_t i = 0; i < tensors; i++) {
            const tg_segment s = tensor(x, i);
            tg__stats stats;
            tg__kernel()->copy_stats(NULL, own + s.begin, s.n, &stats);
            norm[i * P + q] = sqrt(stats.sum_sq);
        }
    }
    for (size_t i = 0; i < tensors; i++) { /* norms become factors */
        const double limit = median(norm + i * P, x->size, sorted);
        for (size_t q = 0; q < P; q++)
            norm[i * P + q] = norm[i * P + q] > limit ? limit / norm[i * P + q] : 1;
    }
    begin(acc, x->n);
    for (size_t q = 0; q < P; q++) {
        tg__frame_decode(frames[q], lens[q], own, x->pool);
        for (size_t i = 0; i < tensors; i++) {
            const tg_segment s = tensor(x, i);
            tg__kernel()->axpy(acc + s.begin, (float)norm[i * P + q], own + s.begin, s.n);
        }
    }
    finish(acc, x->n, x->size);
}

const tg__combine tg__combine_clipped = {
    .name = "clipped",
    .begin = begin,
    .add = add,
    .finish = finish,
    .all = all,
    .room = room,
};
