/* PowerSGD's program: a bucket's matrices as products of skinny factors, in two rounds of dense
 * exchanges over one flat vector each.
 *
 *   round 0   p = m start of every matrix, and the gradients of the other tensors unchanged
 *             left = orthonormalised mean of p; right = m^T left
 *   round 1   right of every matrix; basis = its mean, aggregate = left basis^T
 *
 * A step takes four one-way delays with `direct`, two with `allgather`. If no matrix is worth it,
 * there is only round 0. Steps before `start` and dense steps are one dense exchange.
 *
 * Keys: rank, warm, min_ratio, start, exchange. */
#ifndef TG_POWERSGD_PROGRAM_H
#define TG_POWERSGD_PROGRAM_H

#include "method/method.h"

extern const tg__program_ops tg__powersgd_program;

#endif
