/* How long the layers of a model take in a step. */
#ifndef TG_TRAIN_LAYER_TIMES_H
#define TG_TRAIN_LAYER_TIMES_H

#include "trainer/model/model.h"

/* Measure ns (MODEL_WORKS, layers): medians over a few passes over the batch, in processor time of
 * the calling thread. Afterwards statistics, state and gradients are those of the last pass. Errors
 * those of the passes, TG_E_NOMEM */
TG_NODISCARD tg_status layer_times_measure(model *m, const model_batch *batch, uint64_t seed,
                                           int64_t *ns);
/* The same from a given sum, divided by operations among the works that one pass over the batch
 * has. */
TG_NODISCARD tg_status layer_times_spread(model *m, const model_batch *batch, uint64_t seed,
                                          int64_t sum_ns, int64_t *ns);

#endif
