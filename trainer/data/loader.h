/* Batches for one rank, made ahead by a thread of its own, so that reading and augmenting samples
 * does not hold up the training. */
#ifndef TG_TRAIN_LOADER_H
#define TG_TRAIN_LOADER_H

#include "trainer/data/batcher.h"

typedef struct loader loader;

/* d must outlive it. The thread starts with the first loader_next.
 * Errors   TG_E_ARG (an epoch has no whole step; tokens have no classes), TG_E_SPEC, TG_E_NOMEM
 * Threads  one for a loader */
TG_NODISCARD tg_status loader_create(const train_data *d, data_split split,
                                     const loader_config *config, loader **l_p);
/* At any moment; NULL is fine. */
void loader_destroy(loader *l);

/* The next batch, epoch after epoch; its arrays are the loader's until the next call. Which one it
 * is depends on (data, config, how many there were) alone: see batcher.h.
 * Errors  TG_E_NOMEM (no thread can be started), TG_E_STATE (this rank has no batches) */
TG_NODISCARD tg_status loader_next(loader *l, model_batch *batch_p);

/* Training: steps of config.parts batches, the same on all ranks. Testing: this rank's batches,
 * which may be none. */
uint64_t loader_steps_per_epoch(const loader *l);

#endif
