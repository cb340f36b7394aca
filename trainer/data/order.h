/* Which samples a rank trains on in a batch: a function of (seed, number of the batch) only, so
 * resuming needs no state of the data. */
#ifndef TG_TRAIN_ORDER_H
#define TG_TRAIN_ORDER_H

#include "telegrad/base.h"

typedef struct order order;

/* Create an order that all ranks share. Each epoch is a permutation of `samples`; samples that do
 * not fill a step are left out. A step takes `parts` batches of each rank. Sample i of part p of
 * rank j is
 *     perm[((step_in_epoch * world + j) * parts + p) * batch + i]
 * so `world` ranks together see exactly what one rank with a batch of world * batch would see, and
 * `parts` batches what a single one `parts` times as large would.
 * Errors  TG_E_ARG (an epoch has no complete step), TG_E_NOMEM */
TG_NODISCARD tg_status order_create(uint64_t seed, size_t samples, int world, int rank,
                                    size_t batch, size_t parts, order **o_p);
/* Create an order of this rank's own samples. The rank passes over them again and again, each time
 * in another order; a batch may hold the end of one pass and the start of the next.
 * own     (n) borrowed
 * Errors  TG_E_NOMEM */
TG_NODISCARD tg_status order_create_own(uint64_t seed, const uint32_t *own, size_t n, int rank,
                                        size_t batch, order **o_p);
void order_destroy(order *o); /* NULL is fine */

/* The samples of batch `number` (0, 1, ...); calls may come in any order.
 * index  [out] (batch) the samples
 * pass   [out] (batch) how often each has been used before, in whole epochs or passes */
void order_batch(order *o, uint64_t number, uint32_t *index, uint64_t *pass);

#endif
