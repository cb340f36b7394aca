/* Reduces the points of a curve for drawing. */
#ifndef TG_REPORT_THIN_H
#define TG_REPORT_THIN_H

#include <stddef.h>

/* Choose which of v[0], v[stride], ... (n values) to draw: all that are finite if there are at most
 * `most` (>= 4) of them; else the first, the last, and the smallest and largest of stretches of
 * equal length between them.
 * kept   (most) indices of the chosen values, ascending
 * Returns how many */
size_t thin(const double *v, size_t stride, size_t n, size_t most, size_t *kept);

/* Choose at most `most` (>= 2) of the finite values, evenly spread from the first to the last.
 * kept   (most) indices of the chosen values, ascending
 * Returns how many */
size_t thin_evenly(const double *v, size_t stride, size_t n, size_t most, size_t *kept);

size_t finite_count(const double *v, size_t stride, size_t n);

/* Mean of v[i stride], which is finite, and of the `half` nearest finite values on each side, or of
 * as many as there are. */
double mean_around(const double *v, size_t stride, size_t n, size_t i, size_t half);

#endif
