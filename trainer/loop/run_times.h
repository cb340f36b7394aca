/* How long a step's work takes, for runs in simulated time (train_job.times): measured by rank 0
 * alone before the first step, divided from a given sum, or taken from an earlier run. */
#ifndef TG_TRAIN_RUN_TIMES_H
#define TG_TRAIN_RUN_TIMES_H

#include "trainer/loop/run.h"

/* These do nothing without job->times. All ranks call them together.
 * run_times_layers   once the model exists, before anything is timed by the run's clock
 * run_times_buckets  once the session has begun
 * run_times_take     after ranks have exchanged messages since then: sets the session's costs
 *                    on this rank
 * Errors TG_E_MISMATCH (given times are for another model or other buckets), TG_E_NOMEM */
TG_NODISCARD tg_status run_times_layers(run *r);
TG_NODISCARD tg_status run_times_buckets(run *r);
TG_NODISCARD tg_status run_times_take(run *r);

/* At the start of a step: the factor by which this rank's computing takes longer. */
double run_pace(const run *r);
double run_pace_of(const train_job *job, int rank, uint64_t step);
/* List the ranks that a simulation must distinguish: rank 0, those with a pace of their own, one of
 * the others. rank (world). Returns how many there are. */
size_t run_paced_ranks(const train_job *job, int world, int *rank);
/* A layer's work begins. */
void run_work(run *r, model_work work, size_t layer);
/* An evaluation begins. Whatever its length, it takes as much simulated time as one forward pass,
 * so that ranks test on several cores at once and messages in flight do not get ahead meanwhile. */
void run_work_forward(const run *r);

#endif
