/* time to finish = seconds of training; if timed: median step over the link * steps
 * time per step = time to finish / steps, because runs may have different numbers of steps
 * speed-up = time per step of the first dense S-SGD run that did not fail / time per step
 * A run that diverged skipped steps, so its ratio and speed-up would mean nothing. */
#include "command/compare/compare_report.h"
#include "command/train/cli_run.h"
#include "command/output/jsonl.h"
#include "command/output/console.h"
#include "command/output/format.h"
#include "command/output/output.h"
#include "command/output/table.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define REASON_MOST 60 /* characters of a failure in the table */

static double time_to_finish(const struct compare_row *row)
{
    if (row->timed_steps)
        return row->timed_ms / 1000 * (double)row->result.end.steps;
    return row->result.end.seconds;
}

static double step_seconds(const struct compare_row *row)
{
    return time_to_finish(row) / (double)row->result.end.steps;
}

static bool did_fail(const struct compare_row *row)
{
    return row->failed || row->result.verdict.failed;
}

/* The run that others are compared with; count: there is none. */
static size_t base_of(const struct compare_row *rows, size_t count)
{
    size_t i = 0;
    while (i < count && (!rows[i].dense || did_fail(&rows[i])))
        i++;
    return i;
}

static double speed_up(const struct compare_row *rows, size_t count, const struct compare_row *row)
{
    const size_t base = base_of(rows, count);
    return base < count && !did_fail(row) ? step_seconds(&rows[base]) / step_seconds(row) : NAN;
}

static double ratio_of(const struct compare_row *row, double ratio)
{
    return did_fail(row) ? (double)NAN : ratio;
}

void report_row_free(struct compare_row *row)
{
    run_result_free(&row->result);
    free(row->failed);
    row->failed = NULL;
}

/* ---- text ------------------------------------------------------------------------------------ */

static void fill_failed(struct table *t, const struct compare_row *row)
{
    char *reason = format_utf8(row->failed), *text = NULL;
    if (reason)
        format_shorten(reason, REASON_MOST);
    if (!reason || asprintf(&text, "failed: %s", reason) < 0)
        text = NULL;
    table_rest(t, text ? text : "failed");
    free(text);
    free(reason);
}

static void fill_row(struct table *t, const struct compare_row *rows, size_t count,
                     const struct compare_row *row)
{
    const struct run_result *result = &row->result;
    char text[64], name[256];
    const char *mark = row->timed_steps ? "*" : "";
    table_row(t);
    snprintf(name, sizeof name, "%.240s%s", row->name, result->verdict.count > 0 ? " !" : "");
    table_cell(t, name);
    if (row->failed) {
        fill_failed(t, row);
        return;
    }
    if (isfinite(result->end.test_accuracy))
        snprintf(text, sizeof text, "%.2f %%", 100 * result->end.test_accuracy);
    else
        snprintf(text, sizeof text, "-");
    table_cell(t, text);
    table_cell(t, format_bytes(result->end.bytes_per_step).text);
    table_cell(t, format_ratio(ratio_of(row, result->end.ratio), "x").text);
    snprintf(text, sizeof text, "%s%s", format_ratio(1e3 * step_seconds(row), "").text, mark);
    table_cell(t, text);
    snprintf(text, sizeof text, "%s%s", format_seconds(time_to_finish(row)).text, mark);
    table_cell(t, text);
    table_cell(t, format_ratio(speed_up(rows, count, row), "x").text);
}

static void print_footnote(const struct compare_row *rows, size_t count)
{
    size_t i = 0;
    while (i < count && !rows[i].timed_steps)
        i++;
    if (i < count)
        printf("* extrapolated from %" PRIu64 " steps over the link; trained without it\n",
               rows[i].timed_steps);
}

static void print_lengths(const struct compare_row *rows, size_t count)
{
    uint64_t least = UINT64_MAX, most = 0;
    for (size_t i = 0; i < count; i++) {
        const uint64_t steps = rows[i].result.end.steps;
        least = !rows[i].failed && steps < least ? steps : least;
        most = !rows[i].failed && steps > most ? steps : most;
    }
    if (least < most)
        printf("the runs have %" PRIu64 " to %" PRIu64
               " steps: the speed-up is that of a step, not of the time to finish\n",
               least, most);
}

/* Say which run the others are compared with, if the first that might be failed. */
static void print_base(const struct compare_row *rows, size_t count)
{
    const size_t base = base_of(rows, count);
    size_t first = 0;
    while (first < count && !rows[first].dense)
        first++;
    if (first < base && base < count)
        printf("the speed-up is over %s, the first dense run that did not fail\n", rows[base].name);
}

/* Explain the marks behind names. */
static void print_remarks(const struct compare_row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++)
        for (size_t r = 0; r < rows[i].result.verdict.count; r++)
            printf("! %s: %s\n", rows[i].name, rows[i].result.verdict.remark[r].text);
}

/* ---- which rates ---- */

static bool same_optimizer(const struct compare_row *a, const struct compare_row *b)
{
    return strcmp(options_optimizer(a->options), options_optimizer(b->options)) == 0;
}

static bool all_alike(const struct compare_row *rows, size_t count)
{
    size_t i = 1;
    while (i < count && same_optimizer(&rows[0], &rows[i]))
        i++;
    return i >= count;
}

/* If runs have different optimizers, print a line for each, with its runs. */
static void print_optimizers(const struct compare_row *rows, size_t count)
{
    for (size_t i = 0; i < count && !all_alike(rows, count); i++) {
        size_t k = 0;
        while (k < i && !same_optimizer(&rows[k], &rows[i]))
            k++;
        if (k < i)
            continue;
        printf("optimizer %s:", options_optimizer(rows[i].options));
        for (k = i; k < count; k++)
            if (same_optimizer(&rows[k], &rows[i]))
                printf("%s %s", k > i ? "," : "", rows[k].name);
        putchar('\n');
    }
}

static void print_data(const struct run_about *a, const char *simulated)
{
    if (simulated)
        printf("%s on %s", a->options->model, simulated);
    else
        printf("%s on %s (%s), %s to train, %s to test", a->options->model,
               train_data_name(a->data), train_data_origin(a->data),
               format_count(train_data_train(a->data)).text,
               format_count(train_data_test(a->data)).text);
}

static void print_caption(const struct run_about *a, const char *simulated,
                          const struct compare_row *rows, size_t count)
{
    const struct run_options *o = a->options;
    print_data(a, simulated);
    const bool alike = all_alike(rows, count);
    const int world = launch_world(a->launch, o);
    printf("; %d worker%s (%s), batch %" PRIu64 "%s%s%s%s\n", world, world == 1 ? "" : "s",
           simulated ? "simulated" : a->launch->transport->name, o->batch, o->link ? ", link " : "",
           o->link ? o->link : "", alike ? ", " : "",
           alike ? options_optimizer(rows[0].options) : "");
}

tg_status report_table(const struct run_about *about, const char *simulated,
                       const struct compare_row *rows, size_t count)
{
    static const char *const heads[] = {"run",     "test acc.",      "sent/step", "ratio",
                                        "ms/step", "time to finish", "speed-up"};
    const size_t columns = sizeof heads / sizeof heads[0];
    struct table *t = table_create(columns);
    if (!t)
        return tg_fail(TG_E_NOMEM, "out of memory: the table");
    table_fit(t, (size_t)console_out_columns());
    table_row(t);
    for (size_t i = 0; i < columns; i++)
        table_cell(t, heads[i]);
    for (size_t i = 0; i < count; i++)
        fill_row(t, rows, count, &rows[i]);
    print_caption(about, simulated, rows, count);
    const tg_status status = output_table(t);
    table_destroy(t);
    TG_TRY(status);
    print_footnote(rows, count);
    print_lengths(rows, count);
    print_base(rows, count);
    print_optimizers(rows, count);
    print_remarks(rows, count);
    return output_flush();
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static json_t *row_json(const struct compare_row *rows, size_t count, const struct compare_row *row)
{
    const train_end_info *end = &row->result.end;
    const struct run_options *o = row->options;
    return json_pack(
        "{s:s, s:s, s:o, s:s, s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:b, s:I, s:o, "
        "s:o, s:b, s:o}",                                                                 /**/
        "run", row->name,                                                                 /**/
        "method", row->failed ? options_method(o) : row->result.method,                   /**/
        "rules", records_rules(o),                                                        /**/
        "strategy", row->failed ? o->strategy : row->result.strategy,                     /**/
        "steps", (json_int_t)end->steps, "test_accuracy", jsonl_real(end->test_accuracy), /**/
        "bytes_per_step", jsonl_real(end->bytes_per_step),                                /**/
        "ratio", jsonl_real(ratio_of(row, end->ratio)),                                   /**/
        "ratio_wire", jsonl_real(ratio_of(row, end->ratio_wire)),                         /**/
        "step_ms", jsonl_real(1e3 * step_seconds(row)),                                   /**/
        "time_to_finish", jsonl_real(time_to_finish(row)),                                /**/
        "speed_up", jsonl_real(speed_up(rows, count, row)),                               /**/
        "extrapolated", (int)(row->timed_steps > 0),                                      /**/
        "timed_steps", (json_int_t)row->timed_steps, "failed", jsonl_text(row->failed), "remarks",
        verdict_json(&row->result.verdict), "diverged", (int)row->result.verdict.failed,
        "optimizer", jsonl_text(row->failed ? options_optimizer(o) : row->result.optimizer));
}

tg_status report_json(const struct compare_row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++)
        TG_TRY(jsonl_print_new(row_json(rows, count, &rows[i])));
    return TG_OK;
}

json_t *report_record(const struct compare_row *rows, size_t count)
{
    json_t *list = json_array();
    for (size_t i = 0; list && i < count; i++) {
        if (json_array_append_new(list, row_json(rows, count, &rows[i])) != 0) {
            json_decref(list);
            list = NULL;
        }
    }
    return list ? json_pack("{s:s, s:o}", "type", "table", "rows", list) : NULL;
}
