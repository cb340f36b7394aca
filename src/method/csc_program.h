/* The program of CSC (coarse-grained sparse communication): all ranks agree on chunks of the
 * bucket, and exchange only those, densely.
 *
 *   begin     u = m*u + g;  v = v + u, as DGC does, with the L1 norm of each chunk of v
 *   round 0   sum the norms over ranks; all ranks choose the same k largest, ties to the lower
 *             index
 *   round 1   exchange v of these chunks, packed; there v = 0, and with masking u = 0
 *             aggregate = their mean, 0 elsewhere
 *
 * Chunks    `chunk` elements of the flat bucket, across tensors. The last may be shorter, and
 *           counts
 *           like the others. k = max(1, density * chunks), rounded. If all chunks are sent, there
 *           is
 *           no round 0.
 * Dense     Steps of the warm-up and dense steps send u in one dense exchange, and do not change v:
 *           this is momentum SGD.
 * Cost      One-way delays: 1 for the norms (2 if so many bytes cost more than a delay, see
 *           norms_name), plus those of the exchange of values (direct: 2).
 * Requires  feedback velocity; keys chunk, density, warmup, exchange
 * Source    Sun et al. 2019 (GradientFlow), arXiv:1902.06855 */
#ifndef TG_CSC_PROGRAM_H
#define TG_CSC_PROGRAM_H

#include "method/method.h"

extern const tg__program_ops tg__csc_program;

#endif
