/* telegrad compare */
#include "cli/cli.h"
#include "cli/compare_plan.h"
#include "cli/compare_report.h"
#include "cli/console.h"
#include "cli/cli_run.h"
#include "cli/spec_file.h"
#include "cli/stop.h"
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct compare_options {
    struct run_options common;
    struct compare_plan plan;
    const char *spec_path;
    uint64_t dense_timed; /* steps; 0: dense runs are trained over the link like all others */
    bool json;
};

/* ---- arguments ------------------------------------------------------------------------------- */

static error_t add_run(struct compare_options *o, const char *text)
{
    char where[32];
    snprintf(where, sizeof where, "--run %zu", o->plan.count + 1);
    if (plan_add(&o->plan, NULL, text, where) == TG_OK)
        return 0;
    console_error("%s", tg_error());
    return EINVAL;
}

static error_t set_dense_timed(struct compare_options *o, const char *text)
{
    char *end = NULL;
    errno = 0;
    unsigned long long n = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || errno || n < 1 || n > 1000000) {
        console_error("--dense-timed \"%.64s\": allowed: 1 to 1000000 steps", text);
        return EINVAL;
    }
    o->dense_timed = n;
    return 0;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct compare_options *o = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &o->common;
        return 0;
    case 'r':
        return add_run(o, arg);
    case 's':
        o->spec_path = arg;
        return 0;
    case 't':
        return set_dense_timed(o, arg);
    case 'j':
        o->json = true;
        return 0;
    }
    return ARGP_ERR_UNKNOWN;
}

static tg_status make_plan(struct compare_options *o, bool mpi)
{
    if (o->spec_path)
        TG_TRY(spec_file_read(o->spec_path, &o->common, &o->plan));
    if (o->plan.count == 0)
        return tg_fail(TG_E_SPEC, "nothing to compare: allowed: --run RUN or --spec FILE, see "
                                  "telegrad compare --help");
    return plan_resolve(&o->plan, &o->common, mpi);
}

/* ---- the runs -------------------------------------------------------------------------------- */

struct work {
    const struct launch *launch;
    const struct compare_options *options;
    const train_data *data;
    struct records *records;
    struct compare_row *rows; /* (count) finished runs */
    size_t count;
    bool interrupted;
};

static bool is_named(tg_kind kind, const char *text, const char *name)
{
    tg_spec *spec = NULL;
    bool same =
        tg_registry_parse(kind, text, &spec) == TG_OK && strcmp(tg_spec_name(spec), name) == 0;
    tg_spec_free(spec);
    return same;
}

static tg_status one(const struct work *w, const struct run_options *o, const char *name,
                     const char *title, struct run_result *result_p)
{
    const struct run_about about = {name, w->launch, o, w->data};
    return run_job(&about, title, w->records, NULL, result_p);
}

/* The step of a dense run over the link, on a few steps: the whole of it would take too long. */
static tg_status time_steps(struct work *w, const struct planned_run *run, struct compare_row *row)
{
    struct run_options o = run->options;
    struct run_result timed;
    char name[256], title[256];
    o.steps = w->options->dense_timed;
    o.evaluate = false;
    snprintf(name, sizeof name, "%.240s (timed)", run->name);
    snprintf(title, sizeof title, "%.240s timed", run->name);
    TG_TRY(one(w, &o, name, title, &timed));
    w->interrupted = timed.end.interrupted;
    row->timed_steps = timed.end.steps;
    row->timed_ms = timed.end.step_ms_median;
    run_result_free(&timed);
    return TG_OK;
}

static tg_status run_planned(struct work *w, size_t i)
{
    const struct planned_run *run = &w->options->plan.runs[i];
    struct run_options o = run->options;
    struct compare_row row = {.name = run->name};
    char title[256];
    row.dense = is_named(TG_KIND_METHOD, o.method, "dense") &&
                is_named(TG_KIND_STRATEGY, o.strategy, "ssgd");
    bool apart = w->options->dense_timed && row.dense && o.link;
    if (apart)
        o.link = NULL;
    snprintf(title, sizeof title, "%zu/%zu %.200s", i + 1, w->options->plan.count, run->name);
    TG_TRY(one(w, &o, run->name, title, &row.result));
    w->interrupted = row.result.end.interrupted;
    if (apart && !w->interrupted) {
        tg_status status = time_steps(w, run, &row);
        if (status != TG_OK) {
            run_result_free(&row.result);
            return status;
        }
    }
    if (w->interrupted)
        run_result_free(&row.result);
    else
        w->rows[w->count++] = row;
    return TG_OK;
}

static tg_status report(const struct work *w)
{
    if (w->launch->rank != 0)
        return TG_OK;
    if (w->records)
        TG_TRY(records_add(w->records, report_record(w->rows, w->count)));
    if (w->count == 0)
        return TG_OK;
    if (w->options->json)
        return report_json(w->rows, w->count);
    const struct run_about about = {NULL, w->launch, &w->options->common, w->data};
    return report_table(&about, w->rows, w->count);
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
    if (o->common.out && l->rank == 0)
        status = records_open(o->common.out, &w.records);
    if (status == TG_OK)
        status = run_open_data(&o->common, &data);
    w.data = data;
    for (size_t i = 0; i < o->plan.count && status == TG_OK && !w.interrupted; i++) {
        status = run_planned(&w, i);
        if (status != TG_OK)
            status = tg_fail(status, "run \"%.64s\": %s", o->plan.runs[i].name, tg_error());
    }
    if (status == TG_OK)
        status = report(&w);
    if (status == TG_OK) {
        *exit_status_p = w.interrupted ? stop_exit_status() : CLI_OK;
        struct records *records = w.records;
        w.records = NULL;
        status = records_commit(records);
    }
    records_abandon(w.records);
    for (size_t i = 0; i < w.count; i++)
        run_result_free(&w.rows[i].result);
    free(w.rows);
    train_data_close(data);
    return status;
}

static int run_compare(struct compare_options *o)
{
    struct launch launch = {0};
    int rank, exit_status = CLI_OK;
    tg_status status = make_plan(o, launch_under_mpi(&rank));
    if (status == TG_OK)
        status = launch_open(&launch);
    if (status != TG_OK) {
        console_error("%s", tg_error());
        return cli_exit_status(status);
    }
    stop_install();
    status = compare(&launch, o, &exit_status);
    if (status != TG_OK)
        return launch_fail(&launch, status);
    launch_close(&launch);
    return exit_status;
}

int cmd_compare(int argc, char **argv)
{
    static const struct argp_option list[] = {{.name = "run", .key = 'r', .arg = "RUN"},
                                              {.name = "spec", .key = 's', .arg = "FILE"},
                                              {.name = "dense-timed", .key = 't', .arg = "N"},
                                              {.name = "json", .key = 'j'},
                                              {0}};
    const struct argp_child children[] = {{.argp = options_argp(OPT_COMPARE)}, {0}};
    const struct argp parser = {.options = list, .parser = parse, .children = children};
    struct compare_options o = {0};
    options_defaults(&o.common, 4);
    int exit_status = options_parse(&parser, "compare", help_compare, argc, argv, &o);
    if (exit_status < 0)
        exit_status = run_compare(&o);
    plan_free(&o.plan);
    return exit_status;
}
