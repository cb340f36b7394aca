/* Median-clipped mean: before averaging, each rank's part of a tensor is scaled down to the median
 * of the norms that the ranks have for this tensor. Ranks with norm 0 do not count for the median:
 *
 *     result = 1/P sum over j of x_j min(1, median / |x_j|)
 *
 * So a rank with far too large an update has no more influence than the others. For an even number
 * of ranks, the median is the lower of the two middle values. Sums are in rank order. A frame of
 * blocks is read element by element; any other frame is decoded into a vector.
 *
 * Source: Sarfi et al. 2025, arXiv:2508.15706, in the form of the authors' code, which also bounds
 * the median */
#include "base/mem.h"
#include "codec/block/block_frame.h"
#include "exchange/exchange.h"
#include "kernel/kernel.h"
#include <math.h>
#include <stdlib.h>

/* Bytes for the norms (tensors, size), one tensor's norms in sorted order, and a vector (n). */
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

/* The median of the norms above 0; 0 if there are none. */
static double median(const double *norm, int size, double *sorted)
{
    size_t count = 0;
    for (int q = 0; q < size; q++)
        if (norm[q] > 0)
            sorted[count++] = norm[q];
    qsort(sorted, count, sizeof *sorted, compare);
    return count == 0 ? 0 : sorted[(count - 1) / 2];
}

/* True if the frame holds blocks of the exchange's tensors. */
static bool of_blocks(const tg__exchange *x, const uint8_t *frame, size_t len, tg__frame *f)
{
    return x->segments != NULL && tg__frame_split(frame, len, x->n, f) == TG_OK &&
           f->codec == TG__ID_blocktopk && f->form == TG__FORM_CODED &&
           tg__block_tensors_are(f, x->segments, x->nsegments);
}

/* What one rank sent. Its norm, later its factor, for tensor i is at norm[i * stride]. */
typedef struct share {
    double *norm;
    size_t stride;
    float *acc;
} share;

static void add_squares(void *arg, const tg__block_place *p)
{
    const share *s = arg;
    double sum = 0;
    for (size_t j = 0; j < p->b->keep; j++)
        sum += (double)p->val[j] * (double)p->val[j];
    s->norm[p->tensor * s->stride] += sum;
}

static void take_norms(const tg__exchange *x, const uint8_t *frame, size_t len, float *own, share s)
{
    const size_t tensors = x->segments == NULL ? 1 : x->nsegments;
    tg__frame f;
    const bool blocks = of_blocks(x, frame, len, &f);
    for (size_t i = 0; i < tensors; i++)
        s.norm[i * s.stride] = 0;
    if (blocks)
        tg__block_each(&f, NULL, add_squares, &s);
    else
        tg__frame_decode(frame, len, own, x->pool);
    for (size_t i = 0; i < tensors; i++) {
        const tg_segment t = tensor(x, i);
        tg__stats stats = {.sum_sq = s.norm[i * s.stride]};
        if (!blocks)
            tg__kernel()->copy_stats(NULL, own + t.begin, t.n, &stats);
        s.norm[i * s.stride] = sqrt(stats.sum_sq);
    }
}

static void add_scaled(void *arg, const tg__block_place *p)
{
    const share *s = arg;
    const float factor = (float)s->norm[p->tensor * s->stride];
    float *first = s->acc + tg__block_first(p);
    for (size_t j = 0; j < p->b->keep; j++)
        first[tg__block_offset(p, j)] += factor * p->val[j];
}

static void add_cut(const tg__exchange *x, const uint8_t *frame, size_t len, float *own, share s)
{
    const size_t tensors = x->segments == NULL ? 1 : x->nsegments;
    tg__frame f;
    if (of_blocks(x, frame, len, &f)) {
        tg__block_each(&f, x->pool, add_scaled, &s);
        return;
    }
    tg__frame_decode(frame, len, own, x->pool);
    for (size_t i = 0; i < tensors; i++) {
        const tg_segment t = tensor(x, i);
        tg__kernel()->axpy(s.acc + t.begin, (float)s.norm[i * s.stride], own + t.begin, t.n);
    }
}

static void all(const tg__exchange *x, float *acc, const uint8_t **frames, const size_t *lens)
{
    const size_t P = (size_t)x->size, tensors = x->segments == NULL ? 1 : x->nsegments;
    double *norm = x->room, *sorted = norm + tensors * P;
    float *own = (float *)(void *)(sorted + P);
    for (size_t q = 0; q < P; q++)
        take_norms(x, frames[q], lens[q], own, (share){.norm = norm + q, .stride = P});
    for (size_t i = 0; i < tensors; i++) { /* replace norms by factors */
        const double limit = median(norm + i * P, x->size, sorted);
        for (size_t q = 0; q < P; q++)
            norm[i * P + q] = norm[i * P + q] > limit ? limit / norm[i * P + q] : 1;
    }
    tg__combine_begin(x, acc, x->n);
    for (size_t q = 0; q < P; q++)
        add_cut(x, frames[q], lens[q], own, (share){.norm = norm + q, .stride = P, .acc = acc});
    tg__combine_finish(x, acc, x->n);
}

const tg__combine tg__combine_clipped = {
    .name = "clipped",
    .add = tg__mean_add,
    .finish = tg__mean_finish,
    .all = all,
    .room = room,
    .cuts = true,
};
