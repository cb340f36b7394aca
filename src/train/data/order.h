/* Which samples a rank trains on in a step: a function of (seed, step) alone, so resuming needs no
 * state of the data. */
#ifndef TG_TRAIN_ORDER_H
#define TG_TRAIN_ORDER_H

#include "telegrad/base.h"

typedef struct order order;

/* Each epoch is a permutation of `samples`, the same on all ranks; what does not fill a step is
 * left out. Sample i of rank j's batch in a step is perm[(step_in_epoch * world + j) * batch + i]:
 * `world` ranks together see exactly what one rank with world * batch would. Errors TG_E_ARG (an
 * epoch has no whole step), TG_E_NOMEM */
TG_NODISCARD tg_status order_create(uint64_t seed, size_t samples, int world, int rank,
                                    size_t batch, order **o_p);
void order_destroy(order *o); /* NULL is fine */

/* floor(samples / (world * batch)) */
uint64_t order_steps_per_epoch(const order *o);
/* The batch indices of step 0, 1, ..., in any order of calls. Valid until the next call. */
const uint32_t *order_batch(order *o, uint64_t step);

#endif
