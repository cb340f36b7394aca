/* The elements of a chunk one by one: dgc_ref.c loops over this, and the other variants use it for
 * the remainder. */
#ifndef TG_KERNEL_DGC_LANES_H
#define TG_KERNEL_DGC_LANES_H

#include "kernel/signs.h"

/* Update u and v, and add |v| to the lane sums, for the elements begin .. end - 1 of a chunk. */
static inline void tg__dgc_abs_add(double lanes[TG__LANES], float *u, float *v, const float *g,
                                   size_t begin, size_t end, float m, bool nesterov)
{
    for (size_t i = begin; i < end; i++)
        lanes[i % TG__LANES] += fabs((double)tg__dgc_step(&u[i], &v[i], g[i], m, nesterov));
}

#endif
