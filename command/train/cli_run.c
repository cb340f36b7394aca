#include "command/train/cli_run.h"
#include "command/output/console.h"
#include "command/output/outfile.h"
#include "command/train/data_text.h"
#include "command/train/dump.h"
#include "command/train/late_averages.h"
#include "command/train/late_rates.h"
#include "command/train/mismatch_text.h"
#include "command/train/progress.h"
#include "command/train/run_notes.h"
#include "command/train/save_folder.h"
#include "command/output/stop.h"
#include "trainer/model/model.h"
#include "command/train/wait_line.h"
#include "telegrad/tools.h"
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct watch {
    const struct run_about *about;
    const char *title;
    struct records *records;
    struct dump *dump;
    struct progress progress;
    struct wait_line wait_line;
    struct run_result *result;
    train_unit unit;
    save_folder folder;
    struct outfile_lock weights; /* of --save-weights */
};

static void warn_of_late(const train_start_info *info, const char *title)
{
    late_rates_warn(info, title);
    late_averages_warn(&(late_run){.strategy = info->strategy,
                                   .world = info->world,
                                   .first = info->first_step,
                                   .steps = info->steps,
                                   .steps_per_epoch = info->steps_per_epoch,
                                   .optimizer = info->optimizer},
                       title);
}

/* A worker that has come to servers begins where others are. */
static void say_joined(const train_start_info *info, const char *init, bool anew)
{
    if (!info->joined || info->first_step == 0)
        return;
    if (init)
        console_warning("--init %.64s has no effect: the servers have parameters already", init);
    if (info->first_step < info->steps)
        console_note("joined at step %s of %s", format_count(info->first_step).text,
                     format_count(info->steps).text);
    else
        console_note("the job is over: it is at step %s, and this run ends at step %s; to train "
                     "further, give more --steps or --epochs, or %s",
                     format_count(info->first_step).text, format_count(info->steps).text,
                     anew ? "--anew once no other worker is there"
                          : "--anew, which counts from step 0");
}

enum { SAFETENSORS_JSON = 8 }; /* where the head of such a file begins, after its length */

static tg_status on_start(void *arg, const train_start_info *info)
{
    struct watch *w = arg;
    const struct run_options *o = w->about->options;
    if (o->save_dir) /* first, so that a refusal leaves older records alone */
        TG_TRY(save_folder_open(o->save_dir, o->resume_dir, info->job, w->about->launch->rank > 0,
                                &w->folder));
    if (o->save_weights && w->about->launch->rank == 0) {
        TG_TRY(outfile_check("--save-weights", o->save_weights, true));
        TG_TRY(outfile_check_old("--save-weights", o->save_weights, SAFETENSORS_JSON, "{\"",
                                 "weights"));
        TG_TRY(outfile_lock("--save-weights", o->save_weights, &w->weights));
    }
    TG_TRY(run_result_start(w->result, info));
    run_notes_say(o, w->title);
    say_joined(info, o->init, o->anew);
    if (!w->about->trial && o->resume_dir && info->first_step == info->steps)
        console_warning("--resume %s: the checkpoint is of step %" PRIu64
                        ", where this run ends, so nothing is left to train: increase --steps or "
                        "--epochs to continue",
                        o->resume_dir, info->steps);
    if (!w->about->trial)
        warn_of_late(info, w->title);
    progress_begin(&w->progress, w->title, info->first_step, info->until);
    w->progress.simulated = info->times != NULL;
    return records_start(w->records, w->about, info);
}

static void look(const struct watch *w)
{
    const struct job_transport *transport = w->about->launch->transport;
    if (transport->look)
        transport->look();
}

static tg_status on_step(void *arg, const train_step_info *info)
{
    struct watch *w = arg;
    look(w);
    if (!info->tg.stop)
        wait_line_step(&w->wait_line);
    progress_step(&w->progress, info);
    return records_step(w->records, info);
}

static tg_status on_epoch(void *arg, const train_epoch_info *info)
{
    struct watch *w = arg;
    char tested[128] = "", line[512];
    w->result->highest_loss = fmax(w->result->highest_loss, info->train_loss);
    if (!isnan(info->test_loss))
        snprintf(tested, sizeof tested, ", test loss %s, test accuracy %s",
                 data_text_loss(w->unit, info->test_loss).text,
                 data_text_accuracy(info->test_accuracy).text);
    snprintf(line, sizeof line, "%s%sepoch %llu: train loss %s%s", w->title, w->title[0] ? " " : "",
             (unsigned long long)info->epoch + 1, format_loss(info->train_loss).text, tested);
    const int64_t now = tg_now_ns(tg_clock_monotonic());
    if (!console_terminal() && heartbeat_due(&w->progress.heartbeat, now, true))
        console_note("%s", line);
    else if (tested[0])
        console_remark("%s", line);
    return records_epoch(w->records, info);
}

static tg_status on_gradient(void *arg, uint64_t step, const train_gradient *tensor, size_t count)
{
    const struct watch *w = arg;
    return dump_gradient(w->dump, step, tensor, count);
}

static void on_wait(void *arg, int rank, const tg_wait *wait)
{
    struct watch *w = arg;
    look(w);
    wait_line_tell(&w->wait_line, rank, wait);
}

static tg_status on_waited(void *arg, const train_waits *waits)
{
    struct run_result *result = ((struct watch *)arg)->result;
    const size_t world = (size_t)waits->world;
    result->waited_for = malloc(2 * world * sizeof *result->waited_for);
    if (!result->waited_for)
        return tg_fail(TG_E_NOMEM, "out of memory: waits of %zu ranks", world);
    result->waited_by = result->waited_for + world;
    memcpy(result->waited_for, waits->for_rank, world * sizeof *result->waited_for);
    memcpy(result->waited_by, waits->by_rank, world * sizeof *result->waited_by);
    return TG_OK;
}

train_job run_job_of(const struct run_options *o, tg_trace *trace)
{
    int64_t staleness;
    return (train_job){.model = o->model,
                       .method = options_method(o),
                       .rules = o->rules,
                       .nrules = o->rule_count,
                       .strategy = o->strategy,
                       .optimizer = options_optimizer(o),
                       .lr_schedule = o->lr_schedule,
                       .lr_scale = o->lr_scale,
                       .batch = (size_t)o->batch,
                       .accumulate = (uint32_t)o->accumulate,
                       .precision = o->precision,
                       .context = (size_t)o->context,
                       .shard = o->shard,
                       .epochs = o->epochs,
                       .steps = o->steps,
                       .until = o->until,
                       .seed = o->seed,
                       .log_every = o->log_every,
                       .save_dir = o->save_dir,
                       .save_weights = o->save_weights,
                       .save_every = o->save_every,
                       .resume_dir = o->resume_dir,
                       .init = o->init,
                       .count_anew = o->anew,
                       .data_spec = o->data,
                       .holdout = (size_t)o->holdout,
                       .timeout_ms = (int64_t)ceil(options_timeout(o) * 1000),
                       .driver = o->driver,
                       .overlap = o->overlap,
                       .bucket_bytes = o->fusion >= OPT_FUSION_LAGS ? 0 : (size_t)o->fusion,
                       .bucket_auto = o->fusion >= OPT_FUSION_LAGS,
                       .bucket_lags = o->fusion == OPT_FUSION_LAGS,
                       .codec_threads = (unsigned)o->codec_threads,
                       .gradient_every = o->dump_every,
                       .evaluate = o->evaluate,
                       .trace = trace,
                       .tau_ns = o->tau_ns,
                       .tau_jitter = o->jitter,
                       .slow = o->slow,
                       .nslow = o->slow_count,
                       .uneven = launch_is_async(o, &staleness),
                       .stop = &stop_signal};
}

static void judge(const struct run_about *about, struct run_result *result)
{
    const train_end_info *end = &result->end;
    const verdict_run run = {.end = end,
                             .method = result->method,
                             .strategy = result->strategy,
                             .lr_schedule = result->lr_schedule,
                             .highest_loss = result->highest_loss,
                             .first_step = result->first_step,
                             .steps_per_epoch = result->steps_per_epoch,
                             .classes = train_data_classes(about->data),
                             .covered = result->covered,
                             .evaluated = about->options->evaluate && !end->interrupted};
    result->verdict = verdict_of(&run);
}

tg_status run_job(const struct run_about *about, const char *title, struct records *records,
                  tg_trace *trace, struct run_result *result_p)
{
    struct run_result result = {0};
    struct watch w = {.about = about,
                      .title = title,
                      .records = records,
                      .result = &result,
                      .unit = train_data_unit(about->data),
                      .folder = {.fd = -1},
                      .weights = OUTFILE_UNLOCKED};
    const train_job job = run_job_of(about->options, trace);
    if (about->options->dump_gradients && about->launch->rank == 0)
        TG_TRY(
            dump_open(about->options->dump_gradients, about->options->resume_dir != NULL, &w.dump));
    const train_events events = {.arg = &w,
                                 .every_rank = about->launch->processes,
                                 .start = on_start,
                                 .step = on_step,
                                 .epoch = on_epoch,
                                 .gradient = w.dump ? on_gradient : NULL,
                                 .waited = on_waited,
                                 .wait = on_wait};
    wait_line_init(&w.wait_line, title, launch_world(about->launch, about->options),
                   !about->launch->processes, about->launch->alone);
    tg_status status = mismatch_text(
        launch_run(about->launch, about->options, &job, about->data, &events, &result.end));
    dump_close(w.dump);
    save_folder_close(&w.folder);
    outfile_unlock(&w.weights);
    progress_end();
    if (status == TG_OK && !stop_signal && result.end.stopped_by) {
        stop_signal = result.end.stopped_by; /* so every process exits with the signal's status */
        stop_rank = result.end.stopped_at;
    }
    if (status == TG_OK && about->launch->speaks) {
        judge(about, &result);
        if (!about->trial)
            verdict_say(&result.verdict, title);
    }
    snprintf(result.unwritten, sizeof result.unwritten, "%s", result.end.untold);
    if (status == TG_OK && about->launch->rank == 0 && records_status(records) == TG_OK)
        run_result_note(&result, records_end(records, &result));
    if (status != TG_OK) {
        const uint64_t planned = result.steps_planned;
        run_result_free(&result);
        result.steps_planned = planned;
    }
    *result_p = result;
    return status;
}

static tg_status copy(const char *text, char **copy_p)
{
    *copy_p = strdup(text);
    return *copy_p ? TG_OK : tg_fail(TG_E_NOMEM, "out of memory: %s", text);
}

tg_status run_result_start(struct run_result *result, const train_start_info *info)
{
    result->steps_planned = info->steps;
    result->first_step = info->first_step;
    result->first_epoch = info->first_epoch;
    result->joined = info->joined;
    result->steps_per_epoch = info->steps_per_epoch;
    result->params = info->params;
    result->covered = info->covered;
    TG_TRY(copy(info->method, &result->method));
    TG_TRY(copy(info->strategy, &result->strategy));
    TG_TRY(copy(info->optimizer, &result->optimizer));
    return copy(info->lr_schedule, &result->lr_schedule);
}

void run_result_free(struct run_result *result)
{
    free(result->method);
    free(result->strategy);
    free(result->optimizer);
    free(result->lr_schedule);
    free(result->waited_for);
    *result = (struct run_result){0};
}

void run_result_note(struct run_result *result, tg_status status)
{
    if (status != TG_OK && !result->unwritten[0])
        snprintf(result->unwritten, sizeof result->unwritten, "%s", tg_error());
}

tg_status run_result_written(struct run_result *result)
{
    if (!result->unwritten[0])
        return TG_OK;
    const tg_status status = tg_fail(TG_E_IO, "%s", result->unwritten);
    run_result_free(result);
    return status;
}

void run_warn_of_unused(const struct launch *l, const struct run_options *o)
{
    const struct {
        const char *name, *value, *why;
    } all[] = {{"out", o->out, "rank 0 writes the records of all"},
               {"init", o->init, "rank 0 sends its weights to all"},
               {"save-weights", o->save_weights, "rank 0 writes them"},
               {"dump-gradients", o->dump_gradients, "rank 0 writes its own"}};
    for (size_t i = 0; i < TG_COUNT(all) && l->alone && l->rank > 0; i++)
        if (all[i].value)
            console_warning("--%s %.64s has no effect here: %s; this is rank %d", all[i].name,
                            all[i].value, all[i].why, l->rank);
}

static tg_status take_length(void *arg, const train_plan_info *info)
{
    *(struct run_length *)arg = (struct run_length){info->steps, info->steps_per_epoch};
    return TG_E_STOPPED; /* what its tensors cost is not wanted */
}

tg_status run_check_session(const struct run_options *o, const char *data, int world,
                            struct run_length *length_p)
{
    const train_job job = run_job_of(o, NULL);
    *length_p = (struct run_length){0};
    const tg_status status =
        train_plan(&job, data, world, o->servers > 0, take_length, NULL, length_p);
    /* also TG_E_STOPPED, but without a length: a signal came while the plan waited */
    return status == TG_E_STOPPED && length_p->steps > 0 ? TG_OK : status;
}

tg_status run_check_resume(const char *dir)
{
    struct stat info;
    if (stat(dir, &info) != 0)
        return tg_fail(TG_E_IO, "--resume %s: %s: allowed: a folder that --save wrote", dir,
                       strerror(errno));
    return S_ISDIR(info.st_mode)
               ? TG_OK
               : tg_fail(TG_E_IO, "--resume %s: not a folder: allowed: a folder that --save wrote",
                         dir);
}

/* Whether the model reads texts; *usual_p: the data that it is usually trained on. */
static bool reads_texts(const struct run_options *o, const char **usual_p)
{
    model_input in;
    return model_usual_data(o->model, usual_p, &in) == TG_OK && in.context > 0;
}

void run_warn_of_data_place(void)
{
    const char *place = getenv("TELEGRAD_DATA");
    struct stat info;
    if (!place || !*place)
        return;
    if (stat(place, &info) != 0)
        console_warning("TELEGRAD_DATA=%s: %s", place,
                        errno == ENOENT ? "there is no such folder" : strerror(errno));
    else if (!S_ISDIR(info.st_mode))
        console_warning("TELEGRAD_DATA=%s: this is not a folder", place);
}

const char *run_data_name(const struct run_options *o)
{
    const char *dir = NULL, *usual;
    if (o->data)
        return o->data;
    run_warn_of_data_place();
    if (reads_texts(o, &usual)) {
        console_remark("telegrad: data: %s", usual);
        return usual;
    }
    char wrong[1400];
    const bool found = train_data_find("mnist", &dir);
    if (!found && train_data_unusable("mnist", wrong, sizeof wrong))
        console_warning("data: %s: generated glyphs take its place", wrong);
    console_remark("telegrad: data: %s",
                   found ? "mnist" : "mnist was not found; generated glyphs take its place");
    return found ? "mnist" : "glyphs";
}

tg_status run_open_data(const struct run_options *o, train_data **data_p)
{
    const char *usual;
    const tg_status status = train_data_open(run_data_name(o), (size_t)o->holdout, data_p);
    if (status != TG_E_IO || o->data || !reads_texts(o, &usual))
        return status;
    return tg_fail(status,
                   "%s; model %.64s reads text: use --data text:FILE for a text of your own",
                   tg_error(), o->model);
}
