/* Steps that ranks share. Where nobody waits for slow ranks (servers with mode async), each rank
 * takes the next step of the run when it is ready for one, so fast ranks make more steps than slow
 * ones. A run of n steps ends when P ranks have made P n of them, as a run in step does. The job is
 * at step turn = taken / P, which decides the learning rate and the epochs; a rank's batches follow
 * its own steps.
 *
 * No rank waits for others at the end of an epoch: rank 0 alone tests the parameters that it has,
 * which takes no simulated time. */
#ifndef TG_TRAIN_RUN_SHARE_H
#define TG_TRAIN_RUN_SHARE_H

#include "trainer/loop/run.h"

/* The step of the job that the coming step of this rank belongs to: its own number, unless shared.
 */
static inline uint64_t run_turn(const run *r)
{
    return r->job->share ? r->turn : run_position(r);
}

/* Take the next step; false: the run has no more for this rank. Ranks that are not allowed to be
 * more than `staleness` steps apart wait for the slowest at the end, so it makes a step more than
 * is left if others would wait for it for ever. */
bool run_share_take(run *r);
/* After a step: count its loss; `stop`: nobody takes another step. */
void run_share_note(run *r, double loss, bool stop);
/* Before a step, and `last`: after all. On rank 0, if an epoch has ended since the last call, tell
 * its record.
 * Errors  those of the model and of the callback */
TG_NODISCARD tg_status run_share_close(run *r, bool last);
/* After the last step. On rank 0, wait until all ranks have made theirs. Sets end.interrupted,
 * end.seconds, and r->turn to the number of steps that the run has made.
 * Errors  TG_E_PEER (another rank has failed) */
TG_NODISCARD tg_status run_share_meet(run *r);
/* A rank leaves after an error: nobody takes another step, and rank 0 does not wait. */
void run_share_fail(train_share *s);

#endif
