/* Fewer points of a curve, for drawing. */
#ifndef TG_REPORT_THIN_H
#define TG_REPORT_THIN_H

#include <stddef.h>

/* Which of v[0], v[stride], ... (n of them) to draw: those that are finite, if they are at most
 * `most` (>= 4); else first and last, and of equally long stretches between them the smallest and
 * the largest. kept   (most) their numbers, ascending Return how many */
size_t thin(const double *v, size_t stride, size_t n, size_t most, size_t *kept);

/* Of those that are finite at most `most` (>= 2), evenly spread from the first to the last.
 * kept   (most) their numbers, ascending Return how many */
size_t thin_evenly(const double *v, size_t stride, size_t n, size_t most, size_t *kept);

size_t finite_count(const double *v, size_t stride, size_t n);

/* Mean of v[i stride], which is finite, and of the `half` finite ones next to it on each side, or
 * of as many as there are. */
double mean_around(const double *v, size_t stride, size_t n, size_t i, size_t half);

#endif
