/* A training step, and the hooks that connect the model's passes to the session. */
#include "trainer/loop/run.h"
#include "trainer/loop/run_layers.h"
#include "trainer/loop/run_share.h"
#include "trainer/loop/run_times.h"
#include "telegrad/tools.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

/* After this many consecutive skipped steps the parameters are lost: every batch gives a gradient
 * that is not finite. Until then a round, or a late mean, may still repair them. */
static uint64_t skips_max(const run *r)
{
    static const char *const waits[] = {"every", "delay"};
    uint64_t steps = 20;
    for (size_t i = 0; i < TG_COUNT(waits); i++)
        if (tg_spec_has(r->strategy, waits[i]))
            steps += (uint64_t)tg_spec_int(r->strategy, waits[i]);
    return steps;
}

static double ms(int64_t ns)
{
    return (double)ns / 1e6;
}

static tg_status timed(run *r, int64_t start, tg_status status)
{
    r->hooks_ns += run_now(r) - start;
    return status;
}

static tg_status param_read(void *arg, size_t tensor)
{
    run *r = arg;
    run_layers_end(r);
    const int64_t start = run_now(r);
    return timed(r, start, tg_session_param_wait(r->session, r->id[tensor]));
}

static tg_status grad_write(void *arg, size_t tensor)
{
    run *r = arg;
    run_layers_end(r);
    const int64_t start = run_now(r);
    return timed(r, start, tg_session_grad_wait(r->session, r->id[tensor]));
}

static tg_status grad_ready(void *arg, size_t tensor)
{
    run *r = arg;
    run_layers_end(r);
    const int64_t start = run_now(r);
    return timed(r, start, tg_session_grad_ready(r->session, r->id[tensor]));
}

static tg_status layer_done(void *arg)
{
    run *r = arg;
    run_layers_end(r);
    const int64_t start = run_now(r);
    return timed(r, start, tg_session_progress(r->session));
}

static void layer_begins(void *arg, model_work work, size_t layer)
{
    run *r = arg;
    run_layers_begin(r, work, layer);
    if (r->job->times)
        run_work(r, work, layer);
}

/* Forward and backward pass of one part; adds its results to sum. *compute_ns_p grows by the time
 * without that spent in the session. */
static tg_status compute_part(run *r, const model_batch *batch, uint32_t part, model_result *sum,
                              int64_t *compute_ns_p)
{
    const model_hooks hooks = {.arg = r,
                               .param_read = param_read,
                               .grad_write = grad_write,
                               .grad_ready = grad_ready,
                               .layer_done = layer_done,
                               .layer_begins =
                                   r->job->times || r->job->trace ? layer_begins : NULL};
    model *m = r->model;
    const int rank = r->transport->rank;
    const model_pass pass = {.training = true,
                             .seed = r->job->seed,
                             .step = r->step * r->parts + part,
                             .rank = (uint32_t)rank,
                             .part = part,
                             .parts = r->parts};
    model_result result;
    r->hooks_ns = 0;
    const int64_t start = run_now(r);
    TG_TRY(model_forward(m, batch, &pass, &hooks, &result));
    const int64_t middle = run_now(r);
    TG_TRY(model_backward(m, &hooks));
    run_layers_end(r);
    const int64_t end = run_now(r);
    tg_trace_span(r->job->trace, rank, TG_ROW_COMPUTE, "forward", start, middle, r->step, 0);
    tg_trace_span(r->job->trace, rank, TG_ROW_COMPUTE, "backward", middle, end, r->step, 0);
    *compute_ns_p += end - start - r->hooks_ns;
    sum->loss += result.loss;
    sum->labels += result.labels;
    return TG_OK;
}

/* All parts of a step. An idle rank skips its samples and has no loss. */
static tg_status compute(run *r, double *loss_p, int64_t *compute_ns_p)
{
    const bool idle = tg_session_idle(r->session);
    model_result sum = {0};
    *compute_ns_p = 0;
    for (uint32_t part = 0; part < r->parts; part++) {
        model_batch batch;
        TG_TRY(loader_next(r->train_loader, &batch));
        if (!idle)
            TG_TRY(compute_part(r, &batch, part, &sum, compute_ns_p));
    }
    *loss_p = idle ? NAN : sum.loss / (double)sum.labels;
    return TG_OK;
}

void run_clear_state(run *r)
{
    if (r->model->nstate > 0)
        memset(r->model->state, 0, r->model->nstate * sizeof *r->model->state);
}

/* The step as it is told, without the coming one. */
static uint64_t told_step(const run *r)
{
    return r->job->share ? r->turn : r->step;
}

/* Whether the coming step is logged: every log_every-th and the last one. */
static bool logged(const run *r)
{
    return run_tells(r) && r->events->step && r->job->log_every > 0 &&
           ((told_step(r) + 1) % r->job->log_every == 0 || told_step(r) + 1 == r->until);
}

tg_status run_step_once(run *r, tg_step_info *info)
{
    const int64_t start = run_now(r);
    /* If the length of a run is given in epochs, its schedule also follows epochs. */
    const double lr = tg_lr_schedule_at(r->lr, r->job->steps ? told_step(r) : run_turn(r));
    const uint64_t told = told_step(r) + 1, epoch = run_turn(r) / r->steps_per_epoch;
    r->pace = run_pace(r);
    TG_TRY(tg_session_set_lr(r->session, lr));
    if (run_position(r) % r->steps_per_epoch == 0)
        run_clear_state(r);
    double loss;
    int64_t compute_ns;
    TG_TRY(compute(r, &loss, &compute_ns));
    if (!isfinite(loss)) /* the step is skipped; its values must not stay in the state */
        run_clear_state(r);
    TG_TRY(run_report_gradient(r));
    *info = (tg_step_info){.struct_size = sizeof *info, .want_residual_norm = logged(r)};
    TG_TRY(tg_session_step(r->session, info));
    const int64_t end = run_now(r);

    r->step++;
    if (isfinite(loss)) {
        r->loss_sum += loss;
        r->loss_count++;
    }
    r->loss_steps++;
    if (r->job->share)
        run_share_note(r, loss, info->stop);
    r->skips = info->skipped ? r->skips + 1 : 0;
    r->end.clipped += info->clipped;
    r->end.late += info->late > 0;
    r->wait_ns += info->wait_ns;
    if (r->skips >= skips_max(r))
        return tg_fail(TG_E_NONFINITE,
                       "step %" PRIu64 ": %u steps in a row had gradients that are not finite "
                       "(loss %g, lr %g): a lower learning rate would help",
                       r->step, r->skips, isnan(loss) ? (double)NAN : loss, lr);
    const run_step record = {.step_ms = ms(end - start),
                             .compute_ms = ms(compute_ns),
                             .exchange_ms = ms(info->exchange_ns),
                             .apply_ms = ms(info->apply_ns),
                             .wait_ms = ms(info->wait_ns),
                             .bytes_dense = info->bytes_dense,
                             .coded_bytes = info->coded_bytes,
                             .elements = info->elements,
                             .kept = info->kept,
                             .bytes_exchanged = (double)info->bytes_exchanged,
                             .exchanged = info->elements > 0,
                             .encode_ns = (double)info->encode_ns,
                             .decode_ns = (double)info->decode_ns,
                             .coded = info->coded};
    TG_TRY(run_stats_add(&r->stats, &record));
    if (!run_tells(r) || !r->events->step)
        return TG_OK;
    const train_step_info event = {.step = told,
                                   .epoch = epoch,
                                   .loss = loss,
                                   .lr = lr,
                                   .tg = *info,
                                   .compute_ms = record.compute_ms,
                                   .step_ms = record.step_ms,
                                   .seconds = run_seconds(r)};
    return run_told(r, r->events->step(r->events->arg, &event));
}
