/* The batches of one rank, by number: each a function of (data, config, number) alone.
 *
 * Images in training: a shuffled order that all ranks share (order.h), or, if they are sharded
 * (shard.h), each rank's own. An epoch has as many steps either way, samples / (world * batch *
 * parts): a rank with few images meets them several times in an epoch, one with many not all.
 *
 * Tokens in training: an epoch has (tokens - 1) / (world * batch * context * parts) steps.
 *   stream   the text is cut into world * batch rows of equal length; batch t of an epoch is the
 *            t-th `context` tokens of each row, and row b of rank r is row r * batch + b of all. A
 *            model that carries state reads each row from its start to its end.
 *   else     windows at random places of the text (contiguous: of this rank's piece of it), a
 *            function of (seed, number, rank, row).
 * Labels are the next tokens.
 *
 * Testing: every image once, every token but the first predicted once, over all ranks together.
 *   images   rank r has the r-th part of the set, in order; the last batch may hold fewer.
 *   stream   rows as in training, the last ones shorter: their labels are -1 where they have ended.
 *            A row starts without state, so the loss depends a little on how many rows there are.
 *   else     pieces of `context` tokens side by side, which are the same for any number of ranks;
 *            rank r has the r-th part of them. */
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
    uint64_t first_step; /* that the first batch belongs to */
    const char *shard;   /* "dirichlet:alpha=0.5": see shard.h; NULL: iid */
} loader_config;

typedef struct batcher batcher;

/* Errors TG_E_ARG (an epoch has no whole step; tokens have no classes), TG_E_SPEC, TG_E_NOMEM */
TG_NODISCARD tg_status batcher_create(const train_data *d, data_split split,
                                      const loader_config *config, batcher **b_p);
void batcher_destroy(batcher *b); /* NULL is fine */

/* In an epoch (of testing: this rank's, which may be none). */
uint64_t batcher_per_epoch(const batcher *b);

/* Arrays for a batch; batch_free releases them. Errors TG_E_NOMEM */
typedef struct batch_arrays {
    float *x;
    int32_t *tokens, *labels;
} batch_arrays;
TG_NODISCARD tg_status batch_alloc(const batcher *b, batch_arrays *a_p);
void batch_free(batch_arrays *a);

/* Batch `number` from the start of the first epoch; there must be one in an epoch. */
model_batch batcher_fill(batcher *b, uint64_t number, batch_arrays *a);

/* Steps in an epoch of training, without making anything. Errors TG_E_ARG */
TG_NODISCARD tg_status batcher_steps(const train_data *d, const loader_config *config,
                                     uint64_t *steps_p);
/* Training samples that this rank has for itself; 0: all ranks go through the same. Errors
 * TG_E_ARG, TG_E_SPEC, TG_E_NOMEM */
TG_NODISCARD tg_status batcher_samples(const train_data *d, const loader_config *config,
                                       uint64_t *samples_p);

#endif
