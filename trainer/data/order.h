/* Which samples a rank trains on in a batch: a function of (seed, number of the batch) alone, so
 * resuming needs no state of the data. */
#ifndef TG_TRAIN_ORDER_H
#define TG_TRAIN_ORDER_H

#include "telegrad/base.h"

typedef struct order order;

/* Each epoch is a permutation of `samples`, the same on all ranks; what does not fill a step is
 * left out. A step takes `parts` batches of each rank; sample i of part p of rank j is
 * perm[((step_in_epoch * world + j) * parts + p) * batch + i]: `world` ranks together see exactly
 * what one rank with world * batch would, and `parts` batches what one `parts` times as large
 * would. Errors TG_E_ARG (an epoch has no whole step), TG_E_NOMEM */
TG_NODISCARD tg_status order_create(uint64_t seed, size_t samples, int world, int rank,
                                    size_t batch, size_t parts, order **o_p);
/* The rank goes through samples of its own, own (n, borrowed), again and again, each time in
 * another order; a batch may hold the end of one pass and the start of the next. Errors TG_E_NOMEM
 */
TG_NODISCARD tg_status order_create_own(uint64_t seed, const uint32_t *own, size_t n, int rank,
                                        size_t batch, order **o_p);
void order_destroy(order *o); /* NULL is fine */

/* Batch number 0, 1, ..., in any order of calls: index (batch) the samples, pass (batch) how often
 * each was met before (in whole epochs or passes). */
void order_batch(order *o, uint64_t number, uint32_t *index, uint64_t *pass);

#endif
