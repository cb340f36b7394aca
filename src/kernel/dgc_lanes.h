/* The elements of a chunk one by one: what dgc_ref.c repeats, and the other variants use for what
 * is left over. */
#ifndef TG_KERNEL_DGC_LANES_H
#define TG_KERNEL_DGC_LANES_H

#include "kernel/signs.h"

/* u and v move on, and the sums of |v| in lanes, for the elements begin .. end - 1 of a chunk. */
static inline void tg__dgc_abs_add(double lanes[TG__LANES], float *u, float *v, const float *g,
                                   size_t begin, size_t end, float m, bool nesterov)
{
    for (size_t i = begin; i < end; i++)
        lanes[i % TG__LANES] += fabs((double)tg__dgc_step(&u[i], &v[i], g[i], m, nesterov));
}

#endif
