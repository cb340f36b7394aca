/* telegrad train */
#include "command/output/cli.h"
#include "command/output/console.h"
#include "command/output/format.h"
#include "command/train/cli_run.h"
#include "command/train/data_text.h"
#include "command/train/dry_run.h"
#include "command/train/ratio_line.h"
#include "command/job/clock_options.h"
#include "command/job/options_check.h"
#include "command/output/outfile.h"
#include "command/output/output.h"
#include "command/train/run_defaults.h"
#include "command/train/run_notes.h"
#include "command/train/save_folder.h"
#include "command/train/sim_only.h"
#include "command/output/stop.h"
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define TRACE_SPANS ((size_t)1 << 18)

/* Every process writes a trace; ranks from 1 on add their rank to the file name. */
static tg_status trace_name(const struct launch *l, const char *path, char own[PATH_MAX])
{
    int len = l->rank ? snprintf(own, PATH_MAX, "%s.%d", path, l->rank)
                      : snprintf(own, PATH_MAX, "%s", path);
    return len < PATH_MAX ? TG_OK : tg_fail(TG_E_IO, "--trace %s: the name is too long", path);
}

struct tracing {
    tg_trace *trace;  /* NULL: none is recorded */
    tg_newfile *file; /* NULL: closed */
};

/* The trace is written at the end, so open its file now, before hours of training. */
static tg_status open_trace(const struct launch *l, const char *path, struct tracing *t)
{
    char own[PATH_MAX];
    TG_TRY(trace_name(l, path, own));
    TG_TRY(outfile_check("--trace", path, l->size > 1)); /* ranks cannot share a pipe */
    if (l->rank)
        TG_TRY(outfile_check("--trace", own, true));
    TG_TRY(outfile_check_old("--trace", own, 0, "{\"displayTimeUnit\"", "a trace"));
    TG_TRY(outfile_open("--trace", own, &t->file));
    return tg_trace_create(TRACE_SPANS, &t->trace);
}

static tg_status write_trace(struct tracing *t)
{
    if (!t->trace)
        return TG_OK;
    TG_TRY(tg_trace_print(t->trace, tg_newfile_stream(t->file)));
    tg_newfile *file = t->file;
    t->file = NULL;
    return outfile_commit(file, "--trace");
}

static void close_trace(struct tracing *t)
{
    if (t->file)
        outfile_abandon(t->file);
    tg_trace_destroy(t->trace);
}

static void print_quality(const train_end_info *end, train_unit unit)
{
    if (!isnan(end->test_loss))
        printf("test           accuracy %s, loss %s\n", data_text_accuracy(end->test_accuracy).text,
               data_text_loss(unit, end->test_loss).text);
    if (isfinite(end->train_loss))
        printf("train loss     %s\n", data_text_loss(unit, end->train_loss).text);
}

#define CLUMPS 1.25

/* simulated: the time is that of the runs before, too */
static void print_cost(const struct run_result *result, bool simulated)
{
    const train_end_info *end = &result->end;
    const uint64_t steps = end->steps - (simulated ? 0 : result->first_step);
    const double mean = steps > 0 ? end->seconds / (double)steps : 0;
    const bool clumps = mean > CLUMPS * end->step_ms_median / 1e3;
    printf("time           %s; ", format_seconds(end->seconds).text);
    if (clumps) /* some steps take far longer than most: the median alone would mislead */
        printf("mean step %s, ", format_seconds(mean).text);
    printf("median step %s, of which compute %s%s\n",
           format_seconds(end->step_ms_median / 1e3).text,
           format_seconds(end->compute_ms_median / 1e3).text,
           end->compute_ms_median == 0 && strstr(result->strategy, "clients=")
               ? " (of worker 0, which was not drawn for most)"
               : "");
    printf("sent           %s in all by rank 0, %s a step and worker\n",
           format_bytes((double)(end->bytes_sent - end->bytes_near)).text,
           format_bytes(end->bytes_per_step).text);
    if (end->bytes_near > 0)
        printf("sent in node   %s in all by rank 0\n", format_bytes((double)end->bytes_near).text);
    ratio_line_print(end->ratio, end->ratio_wire, "nothing was sent");
    if (!isfinite(end->kept))
        return;
    printf("coding         %.3g %% of the elements kept", 100 * end->kept);
    if (end->encode_ns_element > 0) /* 0 on a virtual clock where coding takes no time */
        printf("; %.3g ns an element to encode, %.3g to decode", end->encode_ns_element,
               end->decode_ns_element);
    putchar('\n');
}

/* Print where the weights are, and the checkpoint to resume from. */
static void print_saved(const struct run_options *o, const struct run_result *result)
{
    char path[PATH_MAX];
    if (result->end.unsaved[0]) /* a warning has said why */
        return;
    char *weights = o->save_weights ? format_utf8(o->save_weights) : NULL;
    if (weights)
        printf("weights        %s\n", weights);
    free(weights);
    if (!o->save_dir)
        return;
    save_folder_checkpoint(o->save_dir, result->end.steps, path);
    char *word = format_shell(o->save_dir);
    char *shown = format_utf8(path), *folder = word ? format_utf8(word) : NULL;
    free(word);
    if (shown && folder && result->verdict.failed)
        printf("saved          %s, but the run failed: do not continue from it\n", shown);
    else if (shown && folder)
        printf("saved          %s; to continue: --resume %s\n", shown, folder);
    free(shown);
    free(folder);
}

/* Why the run ended early, in words. */
static void tell_cause(const train_end_info *end, char words[128])
{
    if (end->stopped_by)
        snprintf(words, 128, "%s", stop_words());
    else if (end->untold[0])
        snprintf(words, 128, "stopped because a file could not be written,");
    else
        snprintf(words, 128, "stopped because rank %d could not write a file,", end->stopped_at);
}

/* Batch jobs may log the result elsewhere, or late, so the interruption is also reported on
 * stderr. */
static void say_interrupted(const struct run_options *o, const struct run_result *result)
{
    char path[PATH_MAX], cause[128];
    const train_end_info *end = &result->end;
    const bool saved = o->save_dir && !end->unsaved[0];
    char *word = saved ? format_shell(o->save_dir) : NULL;
    if (saved)
        save_folder_checkpoint(o->save_dir, end->steps, path);
    tell_cause(end, cause);
    char *weights =
        o->net.server && o->save_weights && !end->unsaved[0] ? format_utf8(o->save_weights) : NULL;
    console_note("%s after step %" PRIu64 " of %" PRIu64 "; %s%s%s%s", cause, end->steps,
                 result->steps_planned,
                 saved                            ? "saved: "
                 : weights                        ? "weights: "
                 : o->save_dir || end->unsaved[0] ? "not saved"
                 : o->net.server                  ? "not saved: no --save-weights"
                                                  : "not saved: no --save",
                 saved     ? path
                 : weights ? weights
                           : "",
                 word ? "; to continue: --resume " : "", word ? word : "");
    free(weights);
    free(word);
}

/* What a rank other than 0 tells its own user. */
static void print_own(const struct run_about *about, const struct run_result *result)
{
    const train_end_info *end = &result->end;
    printf("rank           %d of %d (%s); rank 0 has the records and the whole result\n",
           about->launch->rank, end->world, about->launch->transport->name);
    printf("steps          %" PRIu64 " of %" PRIu64 "%s\n", end->steps, result->steps_planned,
           end->interrupted ? ", interrupted" : "");
    print_quality(end, train_data_unit(about->data));
    printf("time           %s; sent %s\n", format_seconds(end->seconds).text,
           format_bytes((double)end->bytes_sent).text);
    printf("params hash    %016" PRIx64 "\n", end->params_hash);
    print_saved(about->options, result);
}

/* This process is a server of the run. Over a network, it tells its own user what it does. */
static tg_status serve(const struct launch *l, const struct run_options *o)
{
    const int world = launch_world(l, o);
    const int64_t begin = tg_now_ns(tg_clock_monotonic());
    tg_server_stats stats;
    if (l->alone) {
        stop_say_first("telegrad: a server ends when its workers do: interrupt one of them, which "
                       "stops all after their step, or this server again to end the job at once\n");
        console_note("rank %d is server %d of %" PRIu64, l->rank, l->rank - world, o->servers);
    }
    TG_TRY(launch_serve(l, o, &stats));
    if (!l->alone)
        return TG_OK;
    const double seconds = (double)(tg_now_ns(tg_clock_monotonic()) - begin) / 1e9;
    printf("rank           %d of %d (%s): server %d of %" PRIu64 "; rank 0 has the results\n",
           l->rank, l->size, l->transport->name, l->rank - world, o->servers);
    printf("answers        %" PRIu64 "; %s received, %s sent, in %s\n", stats.sums,
           format_bytes((double)stats.bytes_in).text, format_bytes((double)stats.bytes_out).text,
           format_seconds(seconds).text);
    return TG_OK;
}

/* "late           1 step, whose ..." */
static void print_steps(const char *what, uint64_t steps, const char *why)
{
    printf("%-14s %" PRIu64 " step%s%s\n", what, steps, steps == 1 ? "" : "s", why);
}

static void print_result(const struct run_about *about, const struct run_result *result)
{
    const struct run_options *o = about->options;
    const train_data *data = about->data;
    const train_end_info *end = &result->end;
    printf("model          %s, %s parameters\n", o->model, format_count(result->params).text);
    printf("data           %s (%s), %s\n", train_data_name(data), train_data_origin(data),
           data_text_counts(data).text);
    printf("workers        %d (%s), link %s\n", end->world, about->launch->transport->name,
           o->link ? o->link : "none");
    for (size_t i = 0; i < o->links_of_count; i++)
        printf("link of %-6" PRIu64 " %s\n", o->links_of[i].rank,
               o->links_of[i].link ? o->links_of[i].link : "none");
    if (o->virtual_clock)
        printf("clock          virtual: times are simulated, tau %s; coding is %s\n",
               o->tau ? o->tau : "measured",
               o->driver == TG_DRIVER_INLINE ? "done by the computing thread"
                                             : "beside computing, on a core of its own");
    if (o->nodes == OPT_NODES_AUTO)
        printf("nodes          the machines\n");
    else if (o->nodes > 0)
        printf("nodes          of %" PRIu64 " workers\n", o->nodes);
    if (o->shard)
        printf("shard          %s\n", o->shard);
    printf("method         %s\n", result->method);
    for (size_t i = 0; i < o->rule_count; i++)
        printf("rule           %s\n", o->rules[i]);
    printf("strategy       %s\n", result->strategy);
    printf("optimizer      %s, %s\n", result->optimizer, result->lr_schedule);
    if (o->lr_scale != TRAIN_LR_SCALE_NONE || o->accumulate > 1)
        printf("minibatch      %d x %" PRIu64 " batches of %" PRIu64 " samples, lr scale %s\n",
               end->world, o->accumulate, o->batch, train_lr_scale_names[o->lr_scale]);
    if (o->precision != TRAIN_FP32)
        printf("precision      %s\n", train_precision_names[o->precision]);
    if (result->joined && result->first_step >= result->steps_planned)
        printf("steps          none: the job is over, at step %" PRIu64, end->steps);
    else
        printf("steps          %" PRIu64 " of %" PRIu64 "%s", end->steps, result->steps_planned,
               end->interrupted ? ", interrupted" : "");
    if (o->resume_dir ||
        (result->joined && result->first_step > 0 && end->steps > result->first_step))
        printf("; this run began at step %" PRIu64 ", in epoch %" PRIu64, result->first_step,
               result->first_epoch + 1);
    putchar('\n');
    print_quality(end, train_data_unit(data));
    print_cost(result, o->virtual_clock);
    if (end->late)
        print_steps("late", end->late, ", whose gradients came after a server's deadline");
    if (end->skipped_nonfinite)
        print_steps("skipped", end->skipped_nonfinite, ", whose gradients were not finite");
    if (end->clipped)
        print_steps("clipped", end->clipped, "");
    printf("params hash    %016" PRIx64 "\n", end->params_hash);
    print_saved(o, result);
}

/* Keep the records of a failed run: its curve shows why it failed, and a resumed run continues it.
 * Errors: always the given status, with its message */
static tg_status keep(struct records **records_p, struct tracing *tracing, tg_status why)
{
    char text[1024];
    snprintf(text, sizeof text, "%s", tg_error());
    struct records *records = *records_p;
    *records_p = NULL;
    tg_status kept = records_status(records);
    if (kept == TG_OK)
        kept = records_failed(records, text);
    if (kept == TG_OK)
        kept = records_commit(records);
    else
        records_abandon(records);
    if (kept == TG_OK)
        kept = write_trace(tracing);
    (void)kept; /* the first failure is the one reported */
    return tg_fail(why, "%s", text);
}

/* Train once everything is open, then commit the files; the result notes the first that fails. */
static tg_status train(const struct run_about *about, struct records **records_p,
                       struct tracing *tracing, struct run_result *result_p)
{
    struct run_result result;
    tg_status status = run_job(about, "", *records_p, tracing->trace, &result);
    if (status != TG_OK) /* a run that never began has nothing to keep */
        return result.steps_planned > 0 ? keep(records_p, tracing, status) : status;
    struct records *records = *records_p;
    *records_p = NULL;
    if (records_status(records) == TG_OK)
        run_result_note(&result, records_commit(records));
    else
        records_abandon(records);
    run_result_note(&result, write_trace(tracing));
    *result_p = result;
    return TG_OK;
}

/* Print the result, and then what went wrong. Returns the exit status. */
static int report(const struct run_about *about, const struct run_result *result)
{
    const struct run_options *o = about->options;
    const struct launch *l = about->launch;
    int exit_status = CLI_OK;
    if (l->rank == 0 && !outfile_is_stdout(o->out))
        print_result(about, result);
    else if (l->alone && l->rank > 0)
        print_own(about, result);
    if (result->verdict.failed || result->end.unsaved[0])
        exit_status = CLI_FAILED;
    if (result->end.interrupted) {
        say_interrupted(o, result);
        exit_status = result->end.stopped_by ? stop_exit_status() : CLI_FAILED;
    }
    if (result->unwritten[0]) {
        if (output_flush() == TG_OK || l->rank > 0) /* else that is what output_end says */
            console_error("%s", result->unwritten);
        exit_status = exit_status == CLI_OK ? CLI_FAILED : exit_status;
    }
    return exit_status;
}

static tg_status open_and_train(const struct launch *l, const struct run_options *o,
                                int *exit_status_p)
{
    train_data *data = NULL;
    struct records *records = NULL;
    struct tracing tracing = {0};
    struct run_result result = {0};
    tg_status status = TG_OK;
    run_warn_of_unused(l, o);
    if (o->out && l->rank == 0)
        status = records_open(o->out, o->resume_dir != NULL, &records);
    if (status == TG_OK && o->trace)
        status = open_trace(l, o->trace, &tracing);
    if (status == TG_OK && o->resume_dir)
        status = run_check_resume(o->resume_dir);
    if (status == TG_OK)
        status = run_open_data(o, &data);
    const struct run_about about = {.launch = l, .options = o, .data = data};
    if (status == TG_OK)
        status = train(&about, &records, &tracing, &result);
    if (status == TG_OK)
        *exit_status_p = report(&about, &result);
    run_result_free(&result);
    records_abandon(records);
    train_data_close(data);
    close_trace(&tracing);
    return status;
}

/* A process asks to be the rank that saved the folder to resume from; another may have the same
 * folder. */
static tg_status explain_taken(tg_status status, const char *resume_dir, int rank)
{
    if (status != TG_E_MISMATCH || rank == 0 || !strstr(tg_error(), " is taken"))
        return status;
    return tg_fail(status,
                   "%s; --resume %s holds the checkpoint of rank %d only: give each rank the "
                   "folder that it saved to, or all ranks a folder that they share",
                   tg_error(), resume_dir, rank);
}

/* A link that needs longer for one message than a rank waits makes a working rank look silent. */
static tg_status explain_silence(tg_status status, const struct run_options *o)
{
    char text[1024];
    const char *link = o->link ? o->link : o->links_of_count > 0 ? o->links_of[0].link : NULL;
    if (status != TG_E_PEER || !link || !strstr(tg_error(), " nothing for ") ||
        strstr(tg_error(), "(set-up)")) /* which does not go over the link */
        return status;
    snprintf(text, sizeof text, "%s", tg_error());
    return tg_fail(status,
                   "%s; if a message takes longer than %g s over the link %.64s, allow more time "
                   "with --timeout",
                   text, options_timeout(o), link);
}

/* Append what ranks must have in common besides, but do not tell each other. */
static void tell_own(const struct run_options *o, char command[JOB_COMMAND])
{
    int rank, size;
    if (o->dry_run || o->sim_only) /* such a rank meets no other */
        job_command_add(command, o->dry_run ? " --dry-run" : " --sim-only");
    if (!launch_under_mpi(&rank, &size))
        return;
    if (o->init) /* only rank 0 obeys these */
        job_command_add(command, " --init");
    if (o->out)
        job_command_add(command, " --out");
}

static int cmd_train(int argc, char **argv)
{
    struct run_options o;
    struct launch launch = {0};
    int exit_status = CLI_OK;
    options_defaults(&o, 1);
    int parsed = options_parse(&command_train, argc, argv, &o);
    if (parsed >= 0)
        return parsed;
    tg_status status = options_check_length(&o);
    if (status == TG_OK)
        status = run_defaults_settle(&o);
    if (status == TG_OK)
        status = options_check(&o);
    if (status == TG_OK && o.dry_run && net_options_join(&o.net)) { /* it needs no one else */
        o.workers = o.net.ranks;
        o.net = (struct net_options){0};
    }
    const int rank = status == TG_OK && o.resume_dir ? save_folder_rank(o.resume_dir) : 0;
    char command[JOB_COMMAND] = "train";
    if (status == TG_OK) {
        launch_tell_servers(&o, command);
        clock_options_tell_links(&o, command);
        tell_own(&o, command);
    }
    if (status == TG_OK)
        status = explain_taken(
            launch_open(&launch, &(struct job_call){.net = &o.net,
                                                    .command = command,
                                                    .trains = true,
                                                    .timeout_s = options_patience(&o),
                                                    .optimizer = options_optimizer(&o),
                                                    .server_mode = o.server_mode,
                                                    .rank = rank}),
            o.resume_dir, rank);
    if (status != TG_OK)
        return launch_fail(&launch, status);
    stop_install(launch.speaks);
    if (o.sim_only || o.dry_run) /* else printed once the run has passed its checks */
        run_notes_say(&o, "");
    status = launch_check_servers(&launch, &o);
    if (status != TG_OK)
        return launch_fail(&launch, status);
    if (launch_serves(&launch, &o))
        status = o.dry_run ? TG_OK : serve(&launch, &o);
    else if (o.sim_only)
        status = sim_only(&launch, &o, &exit_status);
    else if (!o.dry_run)
        status = open_and_train(&launch, &o, &exit_status);
    else if (launch.rank == 0)
        status = dry_run(&launch, &o);
    if (status != TG_OK)
        return launch_fail(&launch, explain_silence(status, &o));
    launch_close(&launch);
    return exit_status;
}

const struct cli_command command_train = {
    .name = "train",
    .run = cmd_train,
    .summary = "train a network; print the result and write records of the run",
    .usage = "[OPTION]...\nmpirun -n N telegrad train [OPTION]...",
    .about = "Train a network on workers that exchange gradients.",
    .shared = options_of_train,
    .set_shared = options_set_shared,
    .net = net_options_list,
    .net_of = options_net,
    .notes = "Interrupt a run once to stop it after the step (it saves, if --save is given), twice "
             "to stop it at once.",
    .examples = "telegrad train --workers 4 --method dgc:density=0.001 --link 20mbit,10ms"};
