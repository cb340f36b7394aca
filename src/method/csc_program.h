/* CSC's program (coarse-grained sparse communication): all ranks agree on chunks of the bucket, and
 * exchange just those, densely.
 *
 *   u = m*u + g;  v = v + u                        as DGC does, with the L1 norm of each chunk of v
 *   round 0   the chunks' norms, summed over ranks: the k largest, ties to the lower index, are the
 *             same for all
 *   round 1   v of these chunks side by side; v = 0 there, u too with masking
 *             aggregate = their mean, 0 elsewhere
 *
 * A chunk is `chunk` elements of the flat bucket, across tensors; the last may be shorter, and
 * counts like the others. k = max(1, density * chunks), rounded. Where all chunks are sent there is
 * no round 0. Steps of the warm-up and dense ones send u, one dense exchange, v untouched: momentum
 * SGD.
 *
 * One-way delays: 1 for the norms (2 where so many bytes cost more than a delay, see norms_name),
 * and those of the exchange of values (direct: 2).
 *
 * Needs feedback velocity. Keys: chunk, density, warmup, exchange.
 *
 * Source: Sun et al. 2019 (GradientFlow), arXiv:1902.06855 */
#ifndef TG_CSC_PROGRAM_H
#define TG_CSC_PROGRAM_H

#include "method/method.h"

extern const tg__program_ops tg__csc_program;

#endif
