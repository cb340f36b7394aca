/* telegrad compare */
#include "command/output/cli.h"
#include "command/compare/compare_agree.h"
#include "command/compare/compare_plan.h"
#include "command/compare/compare_report.h"
#include "command/output/console.h"
#include "command/train/cli_run.h"
#include "command/output/outfile.h"
#include "command/train/run_notes.h"
#include "command/train/sim_only.h"
#include "command/compare/spec_file.h"
#include "command/output/stop.h"
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct compare_options {
    struct run_options common;
    struct compare_plan plan;
    const char *spec_path;
    uint64_t dense_timed; /* timed steps; 0: dense runs train over the link like all others */
    bool json;
};

/* ---- arguments ------------------------------------------------------------------------------- */

static tg_status add_run(struct compare_options *o, const char *text)
{
    char where[32];
    snprintf(where, sizeof where, "--run %zu", o->plan.count + 1);
    return plan_add(&o->plan, NULL, text, where);
}

static tg_status set_dense_timed(struct compare_options *o, const char *text)
{
    char *end = NULL;
    errno = 0;
    unsigned long long n = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || errno || n < 1 || n > 1000000)
        return tg_fail(TG_E_SPEC, "--dense-timed \"%.64s\": allowed: 1 to 1000000 steps", text);
    o->dense_timed = n;
    return TG_OK;
}

enum { RUN = OPTIONS_KEY, SPEC, DENSE_TIMED, JSON };

static tg_status set(void *input, int key, char *arg)
{
    struct compare_options *o = input;
    switch (key) {
    case RUN:
        return add_run(o, arg);
    case SPEC:
        o->spec_path = arg;
        return TG_OK;
    case DENSE_TIMED:
        return set_dense_timed(o, arg);
    }
    o->json = true;
    return TG_OK;
}

static struct run_options *shared_of(void *input)
{
    return &((struct compare_options *)input)->common;
}

/* The baseline that others are compared with. With exchange=none ranks do not train together. */
static bool is_dense_ssgd(const struct run_options *o)
{
    tg_spec *method = NULL, *strategy = NULL;
    bool is = tg_registry_parse(TG_KIND_METHOD, options_method(o), &method) == TG_OK &&
              tg_registry_parse(TG_KIND_STRATEGY, o->strategy, &strategy) == TG_OK &&
              strcmp(tg_spec_name(method), "dense") == 0 &&
              strcmp(tg_spec_word(method, "exchange"), "none") != 0 &&
              strcmp(tg_spec_name(strategy), "ssgd") == 0;
    tg_spec_free(method);
    tg_spec_free(strategy);
    return is;
}

/* A few steps stand for the whole run, so there may not be more of them than the run has. For runs
 * given in epochs, the number of steps is known only later. */
static tg_status check_dense_timed(const struct compare_options *o)
{
    bool linked = false, any = false;
    for (size_t i = 0; o->dense_timed && i < o->plan.count; i++) {
        const struct planned_run *run = &o->plan.runs[i];
        linked = linked || run->options.link;
        any = any || (run->options.link && is_dense_ssgd(&run->options));
        if (run->options.steps && o->dense_timed > run->options.steps && run->options.link &&
            is_dense_ssgd(&run->options))
            return tg_fail(TG_E_SPEC,
                           "--dense-timed %" PRIu64 ": run \"%.64s\" has %" PRIu64
                           " steps: allowed: 1 to as many",
                           o->dense_timed, run->name, run->options.steps);
    }
    if (linked && !any)
        return tg_fail(TG_E_SPEC,
                       "--dense-timed %" PRIu64
                       ": no run over a link has method dense and strategy "
                       "ssgd: add one, or leave the option out",
                       o->dense_timed);
    return !o->dense_timed || linked
               ? TG_OK
               : tg_fail(TG_E_SPEC,
                         "--dense-timed %" PRIu64 " requires --link: it times dense runs by so "
                         "many steps over the link, and trains them without it",
                         o->dense_timed);
}

static tg_status make_plan(struct compare_options *o)
{
    if (o->spec_path)
        TG_TRY(spec_file_read(o->spec_path, &o->common, &o->plan));
    if (o->plan.count == 0 && o->spec_path)
        return tg_fail(TG_E_SPEC, "--spec %s: the file has no run: allowed: a RUN per line",
                       o->spec_path);
    if (o->plan.count == 0)
        return tg_fail(
            TG_E_SPEC,
            "nothing to compare: give --run RUN or --spec FILE; see telegrad compare --help");
    if (o->json && outfile_is_stdout(o->common.out))
        return tg_fail(
            TG_E_SPEC,
            "--json and --out - cannot be combined: with --out - the table is the last record");
    if (o->dense_timed && o->common.sim_only)
        return tg_fail(
            TG_E_SPEC,
            "--dense-timed and --sim-only cannot be combined: --sim-only trains nothing");
    if (o->spec_path && o->common.out && outfile_same(o->common.out, o->spec_path))
        return tg_fail(TG_E_SPEC, "--out \"%.64s\": this is the file of --spec: choose another",
                       o->common.out);
    TG_TRY(plan_resolve(&o->plan, &o->common));
    return check_dense_timed(o);
}

/* ---- the runs -------------------------------------------------------------------------------- */

struct work {
    const struct launch *launch;
    const struct compare_options *options;
    const train_data *data; /* NULL with --sim-only */
    struct sim_only_data sim;
    struct records *records;
    struct compare_row *rows; /* (count) runs that finished or failed */
    size_t count;
    tg_status failed; /* status of the last failed run */
    bool interrupted;
    bool diverged; /* whether the verdict of some run is failure */
};

static tg_status one(const struct work *w, const struct run_options *o, const char *name,
                     const char *title, struct run_result *result_p)
{
    const struct run_about about = {
        .name = name, .launch = w->launch, .options = o, .data = w->data};
    if (!o->sim_only) {
        TG_TRY(run_job(&about, title, w->records, NULL, result_p));
        return run_result_written(result_p);
    }
    run_notes_say(o, title);
    return sim_only_run(&about, &w->sim, w->records, result_p);
}

/* Time a dense run's step over the link with a few steps: training over it would take too long. */
static tg_status time_steps(struct work *w, const struct planned_run *run, struct compare_row *row)
{
    struct run_options o = run->options;
    struct run_result timed;
    char *name = NULL;
    o.steps = w->options->dense_timed;
    o.evaluate = false;
    if (asprintf(&name, "%s (timed)", run->name) < 0)
        return tg_fail(TG_E_NOMEM, "out of memory: name of a run");
    tg_status status = one(w, &o, name, name, &timed);
    free(name);
    TG_TRY(status);
    w->interrupted = timed.end.interrupted;
    row->timed_steps = timed.end.steps;
    row->timed_ms = timed.end.step_ms_median;
    run_result_free(&timed);
    return TG_OK;
}

static tg_status fill_row(struct work *w, size_t i, struct compare_row *row)
{
    const struct planned_run *run = &w->options->plan.runs[i];
    struct run_options o = run->options;
    char title[256];
    bool apart = w->options->dense_timed && row->dense && o.link;
    if (apart)
        o.link = NULL;
    snprintf(title, sizeof title, "%zu/%zu %.200s", i + 1, w->options->plan.count, run->name);
    TG_TRY(one(w, &o, run->name, title, &row->result));
    w->interrupted = row->result.end.interrupted;
    return apart && !w->interrupted ? time_steps(w, run, row) : TG_OK;
}

/* Add a row that says why a run failed. If the records cannot be written, or a setting is wrong
 * before anything was trained, the whole command fails instead. */
static tg_status add_failed(struct work *w, const struct compare_row *run, tg_status status)
{
    static const train_end_info nothing = {.test_accuracy = NAN,
                                           .seconds = NAN,
                                           .bytes_per_step = NAN,
                                           .ratio = NAN,
                                           .ratio_wire = NAN};
    bool all = records_status(w->records) != TG_OK ||
               (cli_exit_status(status) == CLI_USAGE && w->count == 0);
    if (all)
        return tg_fail(status, "run \"%.64s\": %s", run->name, tg_error());
    struct compare_row row = {.name = run->name,
                              .options = run->options,
                              .result.end = nothing,
                              .dense = run->dense,
                              .failed = strdup(tg_error())};
    if (!row.failed)
        return tg_fail(TG_E_NOMEM, "out of memory: run \"%.64s\"", run->name);
    w->rows[w->count++] = row;
    w->failed = status;
    if (!w->launch->processes) /* launch_fail prints it */
        console_error("run \"%.64s\": %s", row.name, row.failed);
    return TG_OK;
}

static tg_status run_planned(struct work *w, size_t i)
{
    const struct planned_run *run = &w->options->plan.runs[i];
    struct compare_row row = {
        .name = run->name, .options = &run->options, .dense = is_dense_ssgd(&run->options)};
    tg_status status = fill_row(w, i, &row);
    if (status == TG_OK && !w->interrupted) {
        w->diverged = w->diverged || row.result.verdict.failed;
        w->rows[w->count++] = row;
        return TG_OK;
    }
    const bool stopped = status == TG_E_STOPPED; /* with MPI, launch_fail ends the job */
    if (stopped && !w->launch->processes) {
        w->interrupted = true;
        status = TG_OK;
    }
    if (status != TG_OK && !stopped)
        status = add_failed(w, &row, status);
    report_row_free(&row);
    return status;
}

/* What a rank other than 0 tells its own user. */
static void print_own(const struct work *w)
{
    printf("rank           %d of %d (%s); rank 0 has the records and the table; finished: %zu of "
           "%zu runs\n",
           w->launch->rank, w->launch->size, w->launch->transport->name, w->count,
           w->options->plan.count);
}

/* The file is written first: standard output may be a pipe whose reader has gone. */
static tg_status report(struct work *w)
{
    if (w->launch->rank != 0) {
        if (w->launch->alone && w->failed == TG_OK && !w->options->json)
            print_own(w);
        return TG_OK;
    }
    if (w->records)
        TG_TRY(records_add(w->records, report_record(w->rows, w->count)));
    struct records *records = w->records;
    w->records = NULL;
    TG_TRY(records_commit(records));
    if (w->count == 0 || outfile_is_stdout(w->options->common.out))
        return TG_OK;
    if (w->options->json)
        return report_json(w->rows, w->count);
    const struct run_about about = {
        .launch = w->launch, .options = &w->options->common, .data = w->data};
    return report_table(&about, w->sim.name, w->rows, w->count);
}

/* The first step of a process takes longer than others: memory is mapped, threads start, oneDNN
 * makes its code. This step takes it, so that the first run does not alone pay for that. */
static void warm_up(const struct work *w)
{
    struct run_options o = w->options->plan.runs[0].options;
    train_end_info end;
    if (o.sim_only || o.virtual_clock || w->launch->alone)
        return;
    o.method = "dense";
    o.settled.method[0] = '\0';
    o.strategy = "ssgd";
    o.link = NULL;
    o.links_of_count = o.rule_count = o.fault_count = 0;
    o.servers = o.nodes = 0;
    o.steps = 1;
    o.evaluate = false;
    const train_job job = run_job_of(&o, NULL);
    if (launch_run(w->launch, &o, &job, w->data, NULL, &end) != TG_OK)
        return; /* the first run says why */
}

/* Run all, one after the other. After a failure the ranks of an MPI job cannot synchronise
 * again. */
static tg_status run_all(struct work *w)
{
    warm_up(w);
    for (size_t i = 0; i < w->options->plan.count && !w->interrupted; i++) {
        TG_TRY(run_planned(w, i));
        if (w->failed != TG_OK && w->launch->processes)
            break;
    }
    TG_TRY(report(w));
    if (w->failed != TG_OK && w->launch->processes)
        return tg_fail(w->failed, "run \"%.64s\": %s", w->rows[w->count - 1].name,
                       w->rows[w->count - 1].failed);
    return TG_OK;
}

static tg_status check_runs(const struct work *w)
{
    const struct compare_options *o = w->options;
    const char *data = o->common.data ? o->common.data
                       : w->data      ? train_data_name(w->data)
                                      : w->sim.name;
    for (size_t i = 0; i < o->plan.count; i++) {
        const struct planned_run *run = &o->plan.runs[i];
        struct run_length length;
        /* a simulation may have more workers than samples */
        const int world = o->common.sim_only ? 1 : launch_world(w->launch, &run->options);
        const tg_status status = run_check_session(&run->options, data, world, &length);
        if (status != TG_OK)
            return tg_fail(status, "run \"%.64s\": %s", run->name, tg_error());
    }
    return TG_OK;
}

static tg_status compare(const struct launch *l, const struct compare_options *o,
                         int *exit_status_p)
{
    struct work w = {.launch = l, .options = o};
    train_data *data = NULL;
    tg_status status = TG_OK;
    w.rows = calloc(o->plan.count, sizeof *w.rows);
    if (!w.rows)
        return tg_fail(TG_E_NOMEM, "out of memory: %zu runs", o->plan.count);
    run_warn_of_unused(l, &o->common);
    if (o->common.out && l->rank == 0)
        status = records_open(o->common.out, false, &w.records);
    if (status == TG_OK)
        status = o->common.sim_only ? sim_only_find(&o->common, &w.sim)
                                    : run_open_data(&o->common, &data);
    w.data = data;
    if (status == TG_OK)
        status = check_runs(&w);
    if (status == TG_OK)
        status = run_all(&w);
    if (status == TG_OK && w.interrupted)
        console_note("%s; finished: %zu of %zu run%s", stop_words(), w.count, o->plan.count,
                     o->plan.count == 1 ? "" : "s");
    if (status == TG_OK)
        *exit_status_p = w.interrupted                     ? stop_exit_status()
                         : w.failed != TG_OK || w.diverged ? CLI_FAILED
                                                           : CLI_OK;
    records_abandon(w.records);
    for (size_t i = 0; i < w.count; i++)
        report_row_free(&w.rows[i]);
    free(w.rows);
    train_data_close(data);
    return status;
}

/* Processes keep their part, and runs have different numbers of servers. */
static tg_status check_servers(const struct compare_plan *plan)
{
    for (size_t i = 0; i < plan->count; i++)
        if (plan->runs[i].options.servers > 0)
            return tg_fail(
                TG_E_SPEC,
                "--servers %d of run \"%s\": processes compare without servers: allowed: "
                "with --workers N, or telegrad train under mpirun",
                (int)plan->runs[i].options.servers, plan->runs[i].name);
    return TG_OK;
}

static int run_compare(struct compare_options *o)
{
    struct launch launch = {0};
    char command[JOB_COMMAND] = "";
    int exit_status = CLI_OK;
    tg_status status = make_plan(o);
    if (status == TG_OK)
        compare_agree_describe(&o->plan, command);
    if (status == TG_OK)
        status = compare_agree_explain(
            launch_open(&launch, &(struct job_call){.net = &o->common.net,
                                                    .command = command,
                                                    .trains = true,
                                                    .timeout_s = options_patience(&o->common)}),
            &o->plan);
    if (status != TG_OK)
        return launch_fail(&launch, status);
    stop_install(launch.speaks);
    status = launch.processes ? check_servers(&o->plan) : TG_OK;
    if (status == TG_OK)
        status = compare(&launch, o, &exit_status);
    if (status != TG_OK)
        return launch_fail(&launch, status);
    launch_close(&launch);
    return exit_status;
}

static struct net_options *net_of(void *input)
{
    return &((struct compare_options *)input)->common.net;
}

static const struct cli_option own[] = {
    {.help = "What is compared"},
    {"run", RUN, "RUN", NULL, NULL,
     "a run, e.g. 'name=DGC;method=dgc:density=0.001;strategy=cd:k=5'; repeatable"},
    {"spec", SPEC, "FILE", NULL, NULL,
     "read runs from a file: one per line, e.g. 'DGC: method=dgc;steps=200'; a line such as "
     "'--batch 32' is an option of all runs, unless the command line has it too, and # starts a "
     "comment"},
    {"dense-timed", DENSE_TIMED, "N", NULL, NULL,
     "train dense S-SGD without the link, and time only N steps over it"},
    {"json", JSON, NULL, NULL, NULL, "print the table as JSON lines"},
    {0}};

static int cmd_compare(int argc, char **argv)
{
    struct compare_options o = {0};
    options_defaults(&o.common, 4);
    int exit_status = options_parse(&command_compare, argc, argv, &o);
    if (exit_status < 0)
        exit_status = run_compare(&o);
    plan_free(&o.plan);
    return exit_status;
}

const struct cli_command command_compare = {
    .name = "compare",
    .run = cmd_compare,
    .summary = "train the same network several ways; print one table",
    .usage = "[OPTION]... --run RUN [--run RUN]...\n[OPTION]... --spec FILE",
    .about =
        "Train the same network several ways on the same samples, and print one table.\n\n"
        "A RUN is a list of key=value pairs separated by semicolons. Each key is optional: name, "
        "method, rule, strategy, optimizer, lr, lr-schedule, lr-scale, accumulate, precision, "
        "link, overlap, fusion, nodes, servers, server-mode, server-deadline, steps. They mean "
        "what "
        "the options of that name mean, which hold for runs without that key.",
    .options = own,
    .set = set,
    .shared = options_of_compare,
    .set_shared = options_set_shared,
    .shared_of = shared_of,
    .net = net_options_list,
    .net_of = net_of,
    .examples = "telegrad compare --link 20mbit,10ms --steps 300 --dense-timed 20 \\\n"
                "  --run 'name=dense' --run 'name=CD-SGD;method=2bit;strategy=cd:k=5' \\\n"
                "  --run 'name=DGC 0.1 %;method=dgc:density=0.001,warmup=100'"};
