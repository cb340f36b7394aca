/* What a step's work takes, for runs by a clock of simulated time (train_job.times): measured by
 * rank 0 alone before the first step, spread from a given sum, or as an earlier run had it. */
#ifndef TG_TRAIN_RUN_TIMES_H
#define TG_TRAIN_RUN_TIMES_H

#include "trainer/loop/run.h"

/* Both do nothing without job->times. All ranks call them together:
 * layers: when the model is there, before anything is timed by the run's clock
 * buckets: when the session has begun
 * take: after ranks have heard of each other since then: the session's costs, on this rank
 * Errors TG_E_MISMATCH (given times are of another model, or of other buckets), TG_E_NOMEM */
TG_NODISCARD tg_status run_times_layers(run *r);
TG_NODISCARD tg_status run_times_buckets(run *r);
TG_NODISCARD tg_status run_times_take(run *r);

/* At the start of a step: how much longer this rank's computing takes in it. */
double run_pace(const run *r);
double run_pace_of(const train_job *job, int rank, uint64_t step);
/* A layer's work begins. */
void run_work(run *r, model_work work, size_t layer);
/* An evaluation begins, however long it is: as much work as one forward pass, so that ranks test on
 * several cores at once, and what is under way on the links does not get ahead meanwhile. */
void run_work_forward(const run *r);

#endif
