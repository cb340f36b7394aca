/* Batches for one rank, prepared ahead by a thread of their own, so that reading and augmenting
 * samples does not delay training. */
#ifndef TG_TRAIN_LOADER_H
#define TG_TRAIN_LOADER_H

#include "trainer/data/batcher.h"

typedef struct loader loader;

/* Create a loader. Its thread starts with the first loader_next.
 * d        must outlive the loader
 * Errors   TG_E_ARG (an epoch has no complete step; a shard by classes of tokens), TG_E_SPEC,
 *          TG_E_NOMEM
 * Threads  one per loader */
TG_NODISCARD tg_status loader_create(const train_data *d, data_split split,
                                     const loader_config *config, loader **l_p);
/* May be called at any time; NULL is fine. */
void loader_destroy(loader *l);

/* The next batch, epoch after epoch. It depends only on (data, config, number of batches before):
 * see batcher.h.
 * batch_p  [out] its arrays belong to the loader, and are valid until the next call
 * Errors   TG_E_NOMEM (no thread can be started), TG_E_STATE (this rank has no batches) */
TG_NODISCARD tg_status loader_next(loader *l, model_batch *batch_p);

/* Training: steps of config.parts batches, the same on all ranks. Testing: this rank's batches,
 * which may be 0. */
uint64_t loader_steps_per_epoch(const loader *l);

#endif
