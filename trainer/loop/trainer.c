#include "trainer/loop/run.h"
#include "trainer/loop/run_share.h"
#include "trainer/loop/run_times.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* ---- evaluation ------------------------------------------------------------------------------ */

/* Test this rank's part of the test set. */
static tg_status evaluate_shard(run *r, run_tested *sums)
{
    const uint64_t batches = loader_steps_per_epoch(r->test_loader);
    run_work_forward(r);
    return run_test(r->model, r->test_loader, batches, NULL, sums);
}

/* The same with the global parameters and without state; the training state is restored afterwards.
 * *begin_p: the time when all ranks had arrived. */
static tg_status evaluate(run *r, run_tested *sums, int64_t *begin_p)
{
    const size_t bytes = r->model->nstate * sizeof(float);
    double nothing[RUN_SUMS] = {0};
    /* waiting for others here counts as training time */
    TG_TRY(tg_session_sum(r->session, nothing, RUN_SUMS));
    TG_TRY(tg_session_eval_begin(r->session));
    *begin_p = run_now(r);
    if (bytes > 0)
        memcpy(r->state_aside, r->model->state, bytes);
    run_clear_state(r);
    TG_TRY(evaluate_shard(r, sums));
    if (bytes > 0)
        memcpy(r->model->state, r->state_aside, bytes);
    return tg_session_eval_end(r->session);
}

/* End an epoch, or a part of one: mean loss over steps and ranks, and a test of the global
 * parameters. */
static tg_status close_epoch(run *r, bool test)
{
    const double seconds = run_seconds(r);
    int64_t begin = 0;
    run_tested own = {0};
    if (test)
        TG_TRY(evaluate(r, &own, &begin));
    const int64_t tested = run_now(r);
    double sums[RUN_SUMS] = {r->loss_sum, (double)r->loss_count, own.loss, own.correct, own.labels};
    train_waits waits;
    TG_TRY(run_sum_epoch(r, sums, &waits));
    if (test) /* in simulated time all tests take equally long; only messages are left */
        r->evaluation_ns += (r->job->times ? tested : run_now(r)) - begin;
    if (test && sums[4] != (double)data_test_labels(r->data))
        return tg_fail(TG_E_MISMATCH,
                       "the ranks tested %.0f labels in all, but the test set has %zu", sums[4],
                       data_test_labels(r->data));
    r->end.train_loss = sums[0] / sums[1]; /* NAN if no loss was finite */
    r->end.test_loss = r->end.test_accuracy = NAN;
    if (test)
        run_tested_means(&(run_tested){sums[2], sums[3], sums[4]}, &r->end.test_accuracy,
                         &r->end.test_loss);
    r->loss_sum = 0;
    r->loss_count = r->loss_steps = 0;
    if (!run_tells(r) || !r->events->epoch)
        return TG_OK;
    const train_epoch_info info = {.epoch = (run_position(r) - 1) / r->steps_per_epoch,
                                   .step = r->step,
                                   .train_loss = r->end.train_loss,
                                   .test_accuracy = r->end.test_accuracy,
                                   .test_loss = r->end.test_loss,
                                   .seconds = seconds,
                                   .bytes_sent = tg_session_bytes_sent(r->session),
                                   .waits = waits};
    return run_told(r, r->events->epoch(r->events->arg, &info));
}

/* ---- the run --------------------------------------------------------------------------------- */

/* Whether rules give all tensors other methods than the job's. */
static bool is_covered(const run *r)
{
    const char *method = r->job->method;
    for (size_t i = 0; i < r->model->ntensors; i++) {
        const model_tensor *t = &r->model->tensors[i];
        const char *rule = run_rule_of(r->job, t->name);
        if (t->kind == MODEL_TRAINED && (rule == NULL || (method && strcmp(rule, method) == 0)))
            return false;
    }
    return true;
}

static tg_status announce_here(const run *r, uint64_t job)
{
    if (!r->events || !r->events->start)
        return TG_OK;
    const train_start_info info = {.method = tg_session_spec(r->session, TG_KIND_METHOD),
                                   .strategy = tg_session_spec(r->session, TG_KIND_STRATEGY),
                                   .optimizer = tg_spec_text(tg_optimizer_spec(r->optimizer)),
                                   .lr_schedule = tg_lr_schedule_text(r->lr),
                                   .world = r->transport->size,
                                   .params = r->model->params_total,
                                   .tensors = r->model->ntensors,
                                   .context = r->context,
                                   .shard = tg_spec_text(r->shard),
                                   .steps = r->steps,
                                   .until = r->until,
                                   .steps_per_epoch = r->steps_per_epoch,
                                   .first_step = r->first_step,
                                   .joined = run_is_seated(r),
                                   .first_epoch = run_position(r) / r->steps_per_epoch,
                                   .resumed = r->resumed,
                                   .anew = r->anew,
                                   .times = r->job->times,
                                   .covered = is_covered(r),
                                   .job = job};
    return r->events->start(r->events->arg, &info);
}

/* A number that no other job has: not 0, and exact as a double. */
static uint64_t new_job(void)
{
    struct timespec now = {0};
    (void)clock_gettime(CLOCK_REALTIME, &now);
    const int64_t unique[] = {now.tv_sec, now.tv_nsec, getpid()};
    return (tg_hash(TG_HASH_START, unique, sizeof unique) >> 12) + 1;
}

/* Rank 0 begins: it may take what others then find taken, such as the lock of a folder. They learn
 * its job's number, by which they know each other. */
static tg_status announce(run *r)
{
    const bool every = r->all_events && r->all_events->every_rank, first = r->transport->rank == 0;
    double job[RUN_SUMS] = {every && first ? (double)new_job() : 0};
    if (every && !first)
        TG_TRY(tg_session_sum(r->session, job, RUN_SUMS));
    TG_TRY(announce_here(r, (uint64_t)job[0]));
    return every && first ? tg_session_sum(r->session, job, RUN_SUMS) : TG_OK;
}

/* A save at the end has failed: the session continues, and the run has its result. */
static tg_status note_unsaved(run *r, tg_status status)
{
    if (status != TG_E_IO)
        return status;
    snprintf(r->end.unsaved, sizeof r->end.unsaved, "%s", tg_error());
    return TG_OK;
}

/* After a step: if servers have gone on without this worker, take up the job where they are. An
 * epoch that ends before that is closed first; but if the run ends with it, at the run's end, as
 * the other ranks do. */
static tg_status catch_up(run *r)
{
    const uint64_t at = tg_session_steps(r->session);
    if (at == r->step)
        return TG_OK;
    const uint64_t epoch = (run_position(r) - 1) / r->steps_per_epoch;
    const uint64_t step = at < r->until ? at : r->until;
    const uint64_t after = run_position(r) + (step - r->step), rest = after % r->steps_per_epoch;
    const bool last = step == r->until || (r->end.interrupted && rest == 0);
    if (after / r->steps_per_epoch > epoch && !last)
        TG_TRY(close_epoch(r, r->job->evaluate));
    r->step = step;
    r->loss_steps = last ? r->loss_steps : rest;
    run_clear_state(r);
    return run_load_from_here(r);
}

/* The same where ranks share their steps. Servers keep the parameters, so nothing is saved. */
static tg_status loop_shared(run *r)
{
    while (run_share_take(r)) {
        tg_step_info info;
        TG_TRY(run_share_close(r, false));
        TG_TRY(run_step_once(r, &info));
    }
    TG_TRY(tg_session_finish(r->session));
    TG_TRY(run_share_meet(r));
    r->trained_bytes = run_sent(r) - r->sent_before;
    return run_share_close(r, true);
}

static tg_status loop(run *r)
{
    const train_job *job = r->job;
    uint64_t saved_at = UINT64_MAX;
    while (r->step < r->until && !r->end.interrupted) {
        /* Done here, not after the step: the last epoch ends after the drain, and a run that was
         * stopped at the end of an epoch closes it after it resumes. */
        if (r->loss_steps == r->steps_per_epoch)
            TG_TRY(close_epoch(r, job->evaluate));
        tg_step_info info;
        TG_TRY(run_step_once(r, &info));
        r->end.interrupted =
            info.stop && run_stops_every(r) == 0; /* else it is this rank's alone */
        TG_TRY(catch_up(r));
        TG_TRY(run_agree_on_stop(r, &r->end.interrupted));
        if (job->save_dir && job->save_every > 0 && r->step % job->save_every == 0) {
            TG_TRY(run_save(r));
            saved_at = r->step;
        }
    }
    r->end.interrupted = r->end.interrupted && r->step < r->until;
    if (job->save_dir && saved_at != r->step)
        TG_TRY(note_unsaved(r, run_save(r)));
    TG_TRY(tg_session_finish(r->session));
    r->end.seconds = run_seconds(r);
    r->trained_bytes = run_sent(r) - r->sent_before;
    if (job->save_dir && !r->end.unsaved[0])
        TG_TRY(note_unsaved(r, run_save_final(r)));
    if (job->save_weights)
        TG_TRY(note_unsaved(r, run_save_weights(r)));
    return r->loss_steps > 0 ? close_epoch(r, job->evaluate && !r->end.interrupted) : TG_OK;
}

/* After loop has failed: if the run is a worker that has lost its server, write the weights that it
 * has. If a signal ended its wait for the server, the run ends as an interrupted one. */
static tg_status end_lost(run *r, tg_status why)
{
    char text[1024];
    const bool stopped = why == TG_E_STOPPED;
    if (!run_is_seated(r) || !(stopped || why == TG_E_PEER) || r->step == r->first_step)
        return why;
    snprintf(text, sizeof text, "%s", tg_error());
    const char *file = r->job->save_weights;
    const tg_status written = file ? tg_session_save_weights(r->session, file) : TG_OK;
    if (!stopped && !file)
        return tg_fail(why, "%s; the weights are not saved: no --save-weights", text);
    if (!stopped)
        return written == TG_OK
                   ? tg_fail(why, "%s; the weights after step %" PRIu64 " are in %s", text, r->step,
                             file)
                   : tg_fail(why, "%s; the weights are not saved: %s", text, tg_error());
    TG_TRY(note_unsaved(r, written));
    r->lost = r->end.interrupted = true;
    r->end.test_loss = r->end.test_accuracy = NAN; /* of older weights */
    r->end.seconds = run_seconds(r);
    r->trained_bytes = run_sent(r) - r->sent_before;
    if (r->loss_steps > 0)
        r->end.train_loss = r->loss_sum / (double)r->loss_count;
    return TG_OK;
}

/* Hash n values, without what is lost when 1 is added: updates of less than 6e-8 change nothing
 * that counts, also where a value is 0. */
static uint64_t hash_roughly(uint64_t hash, const float *x, size_t n)
{
    float rough[1024];
    for (size_t begin = 0; begin < n; begin += TG_COUNT(rough)) {
        const size_t part = n - begin < TG_COUNT(rough) ? n - begin : TG_COUNT(rough);
        for (size_t i = 0; i < part; i++)
            rough[i] = x[begin + i] + 1;
        hash = tg_hash(hash, rough, part * sizeof *rough);
    }
    return hash;
}

/* Of the trained tensors; 0 on ranks that are not asked. */
static uint64_t hash_trained(const run *r)
{
    uint64_t hash = r->transport->rank == 0 ? TG_HASH_START : 0;
    for (size_t i = 0; hash != 0 && i < r->model->ntensors; i++) {
        const model_tensor *t = &r->model->tensors[i];
        if (t->kind == MODEL_TRAINED)
            hash = hash_roughly(hash, r->model->params + t->offset, t->n);
    }
    return hash;
}

static tg_status run_all(run *r)
{
    TG_TRY(run_setup(r));
    TG_TRY(announce(r));
    TG_TRY(run_waits_begin(r));
    const uint64_t params_before = hash_trained(r);
    r->start_ns = run_now(r);
    r->end.test_accuracy = r->end.test_loss = r->end.train_loss = NAN;
    const tg_status status = r->job->share ? loop_shared(r) : loop(r);
    if (status != TG_OK)
        TG_TRY(end_lost(r, status));

    train_end_info *end = &r->end;
    end->world = r->transport->size;
    end->steps = r->job->share ? r->turn : r->step;
    end->epochs = run_turn(r) / r->steps_per_epoch;
    TG_TRY(run_stats_figures(&r->stats, r->model->params_total, end->seconds - run_before(r),
                             (double)r->trained_bytes, end));
    end->unchanged =
        r->transport->rank == 0 && r->step > r->first_step && hash_trained(r) == params_before;
    end->skipped_nonfinite = tg_session_skipped(r->session);
    TG_TRY(tg_session_params_hash(r->session, &end->params_hash));
    end->bytes_sent = tg_session_bytes_sent(r->session);
    end->bytes_near = tg_session_bytes_near(r->session);
    TG_TRY(run_agree_on_signal(r));
    return run_waits_tell(r);
}

tg_status train_run(const train_job *job, const train_data *data, tg_transport *transport,
                    const train_events *events, train_end_info *end_p)
{
    run r = {.job = job,
             .data = data,
             .transport = transport,
             .events = transport->rank == 0 || (events && events->every_rank) ? events : NULL,
             .all_events = events};
    tg_status status = run_all(&r);
    char message[1024];
    snprintf(message, sizeof message, "%s", tg_error());
    tg_session_destroy(r.session);
    if (status != TG_OK && job->share)
        run_share_fail(job->share);
    if (status != TG_OK || r.lost) /* others must not wait for this rank, wherever they are */
        transport->ops->shut(transport);
    if (status == TG_OK)
        *end_p = r.end;
    else
        status = tg_fail(status, "%s", message);
    run_free(&r);
    return status;
}
