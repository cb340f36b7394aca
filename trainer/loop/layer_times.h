/* What the layers of a model take in a step. */
#ifndef TG_TRAIN_LAYER_TIMES_H
#define TG_TRAIN_LAYER_TIMES_H

#include "trainer/model/model.h"

/* ns (MODEL_WORKS, layers): measured, in some passes over the batch, by the processor time of the
 * calling thread: medians. Statistics, state and gradients are of the last pass then.
 * Errors those of the passes, TG_E_NOMEM */
TG_NODISCARD tg_status layer_times_measure(model *m, const model_batch *batch, uint64_t seed,
                                           int64_t *ns);
/* The same from their sum: those that one pass over the batch has share it by their operations. */
TG_NODISCARD tg_status layer_times_spread(model *m, const model_batch *batch, uint64_t seed,
                                          int64_t sum_ns, int64_t *ns);

#endif
