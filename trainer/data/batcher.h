/* The batches of one rank, by number. A batch is a function of (data, config, number) only.
 *
 * Training on images: all ranks share a shuffled order (order.h); with shards (shard.h) each rank
 * has its own. Either way an epoch has samples / (world * batch * parts) steps, so a rank with few
 * images sees them several times in an epoch, and a rank with many does not see all of them.
 *
 * Training on tokens: an epoch has (tokens - 1) / (world * batch * context * parts) steps. Labels
 * are the next tokens.
 *   stream   The text is cut into world * batch rows of equal length. Batch t of an epoch is the
 *            t-th `context` tokens of each row; row b of rank r is row r * batch + b of all. A
 *            model that carries state reads each row from start to end.
 *   else     Windows at random places of the text (contiguous: of this rank's piece), a function of
 *            (seed, number, rank, row).
 *
 * Testing: all ranks together see every image once, and predict every token but the first once.
 *   images   Rank r has the r-th part of the set, in order; the last batch may hold fewer.
 *   stream   Rows as in training. The last ones are shorter, with labels -1 after their end. A row
 *            starts without state, so the loss depends slightly on the number of rows.
 *   else     Adjacent pieces of `context` tokens, the same for any number of ranks; rank r has the
 *            r-th part of them. */
#ifndef TG_TRAIN_BATCHER_H
#define TG_TRAIN_BATCHER_H

#include "trainer/data/data.h"

typedef struct loader_config {
    size_t batch;
    size_t context; /* tokens in a sample; images: 0 */
    uint64_t seed;
    int rank, world;
    bool stream;         /* tokens: the model carries state from batch to batch */
    size_t parts;        /* batches in a step; 0: 1. Testing: 1 */
    uint64_t first_step; /* the step of the first batch */
    const char *shard;   /* "dirichlet:alpha=0.5", ... (shard.h); NULL: iid */
} loader_config;

typedef struct batcher batcher;

/* Errors  TG_E_ARG (an epoch has no complete step; a shard by classes of tokens), TG_E_SPEC,
 *         TG_E_NOMEM */
TG_NODISCARD tg_status batcher_create(const train_data *d, data_split split,
                                      const loader_config *config, batcher **b_p);
void batcher_destroy(batcher *b); /* NULL is fine */

/* Batches in an epoch; in testing this rank's, which may be 0. */
uint64_t batcher_per_epoch(const batcher *b);

/* The arrays of a batch. Free them with batch_free.
 * Errors  TG_E_NOMEM */
typedef struct batch_arrays {
    float *x;
    int32_t *tokens, *labels;
} batch_arrays;
TG_NODISCARD tg_status batch_alloc(const batcher *b, batch_arrays *a_p);
void batch_free(batch_arrays *a);

/* Fill a with batch `number`, counted from the start of the first epoch. An epoch must have at
 * least one batch. */
model_batch batcher_fill(batcher *b, uint64_t number, batch_arrays *a);

/* Steps in an epoch of training, without creating a batcher.
 * Errors  TG_E_ARG */
TG_NODISCARD tg_status batcher_steps(const train_data *d, const loader_config *config,
                                     uint64_t *steps_p);
/* Training samples of this rank alone; 0: all ranks share the same.
 * Errors  TG_E_ARG, TG_E_SPEC, TG_E_NOMEM */
TG_NODISCARD tg_status batcher_samples(const train_data *d, const loader_config *config,
                                       uint64_t *samples_p);

#endif
