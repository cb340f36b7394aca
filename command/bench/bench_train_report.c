#include "command/bench/bench_train_report.h"
#include "command/bench/bench_ratio.h"
#include "command/bench/bench_table.h"
#include "command/output/format.h"
#include "command/output/jsonl.h"
#include "command/output/output.h"
#include "command/output/table.h"
#include <math.h>

/* GFLOP/s, counting a step as three forward passes: a backward pass is about two. */
static double gflops(const struct bench_train_row *row)
{
    const double workers = row->workers > 0 ? (double)row->workers : 1;
    return 3 * row->about.flops * (double)row->about.batch * workers / row->ms.median / 1e6;
}

static double samples_a_second(const struct bench_train_row *row)
{
    const double workers = row->workers > 0 ? (double)row->workers : 1;
    return workers * (double)row->about.batch * 1e3 / row->ms.median;
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static tg_status row_json(const struct bench_train_row *row)
{
    const train_bench_info *a = &row->about;
    json_t *json = json_pack("{s:s, s:o, s:I, s:I, s:s, s:o, s:o}", "type",
                             row->workers ? "bench_workers" : "bench_train", "model",
                             jsonl_text(row->spec), "batch", (json_int_t)a->batch, "workers",
                             (json_int_t)(row->workers ? row->workers : 1), "precision",
                             train_precision_names[row->precision], "error", jsonl_text(row->error),
                             "target", jsonl_real(row->target));
    json_t *figures =
        json_pack("{s:I, s:I, s:o, s:I, s:o, s:o, s:o}", "params", (json_int_t)a->params, "context",
                  (json_int_t)a->context, "flops_per_sample", jsonl_real(a->flops), "samples",
                  (json_int_t)row->samples, "ms", bench_ratio_json(&row->ms), "gflop_per_s",
                  jsonl_real(gflops(row)), "samples_per_s", jsonl_real(samples_a_second(row)));
    json_t *more =
        row->workers ? json_pack("{s:o, s:o}", "speedup", bench_ratio_json(&row->speedup),
                                 "processor_speedup", bench_ratio_json(&row->processor_speedup))
        : row->format[0]
            ? json_pack("{s:s, s:I, s:o, s:o}", "torch_format", row->format, "torch_samples",
                        (json_int_t)row->torch_samples, "torch_ms",
                        bench_ratio_json(&row->torch_ms), "ratio", bench_ratio_json(&row->ratio))
            : json_object();
    if (json && !row->error) {
        json_object_update(json, figures);
        json_object_update(json, more);
    }
    json_decref(figures);
    json_decref(more);
    return jsonl_print_new(json);
}

/* ---- the table ------------------------------------------------------------------------------- */

/* Print about four significant digits. */
static void ms_cells(struct table *t, const bench_ratio *ms)
{
    const char *format = ms->median < 10 ? "%.3f" : ms->median < 1000 ? "%.1f" : "%.0f";
    bench_table_figure(t, format, ms->median);
    bench_table_figure(t, format, ms->min);
    bench_table_figure(t, format, ms->max);
}

static void target_cell(struct table *t, double target)
{
    char text[32] = "";
    if (isfinite(target))
        snprintf(text, sizeof text, "%.2f", target);
    table_cell(t, text);
}

#define WIDTH 6 /* of a column of figures */

static tg_status head(struct bench_train_report *r, const struct bench_train_row *row)
{
    const bool workers = row->workers > 0;
    static const char *const common[] = {"batch", "ms", "min", "max", "GFLOP/s", "samples/s"},
                             *const group[] = {"workers", "speed-up",     "min",
                                               "max",     "by processor", "target"},
                             *const torch[] = {"torch ms",
                                               "min",
                                               "max",
                                               "       format",
                                               /* "channels_last" */ "ratio",
                                               "target"};
    TG_TRY(bench_table_create(7 + (workers ? 6 : r->torch ? 6 : 0), &r->table));
    if (row->precision != TRAIN_FP32)
        printf("convolutions and dense layers in %s%s\n", train_precision_names[row->precision],
               r->torch ? ", PyTorch's in fp32" : "");
    puts(workers ? "workers of one process, dense exchange, wall-clock time of a step"
                 : "one thread, processor time of a step: forward, backward, SGD with momentum");
    bench_table_title(r->table, -(int)r->name_width, "model");
    for (size_t i = 0; i < sizeof common / sizeof common[0]; i++)
        bench_table_title(r->table, WIDTH, common[i]);
    for (size_t i = 0; workers && i < sizeof group / sizeof group[0]; i++)
        bench_table_title(r->table, WIDTH, group[i]);
    for (size_t i = 0; r->torch && i < sizeof torch / sizeof torch[0]; i++)
        bench_table_title(r->table, WIDTH, torch[i]);
    return TG_OK;
}

static void worker_cells(struct table *t, const struct bench_train_row *row)
{
    table_cell(t, format_count(row->workers).text);
    bench_table_figure(t, "%.2f", row->speedup.median);
    bench_table_figure(t, "%.2f", row->speedup.min);
    bench_table_figure(t, "%.2f", row->speedup.max);
    bench_table_figure(t, "%.2f", row->processor_speedup.median);
    target_cell(t, row->target);
}

static void torch_cells(struct table *t, const struct bench_train_row *row)
{
    ms_cells(t, &row->torch_ms);
    table_cell(t, row->format);
    bench_table_figure(t, "%.2f", row->ratio.median);
    target_cell(t, row->target);
}

static void row_cells(struct bench_train_report *r, const struct bench_train_row *row)
{
    table_row(r->table);
    table_cell(r->table, row->spec);
    table_cell(r->table, format_count(row->about.batch).text);
    if (row->error) {
        bench_table_error(r->table, row->error);
        return;
    }
    ms_cells(r->table, &row->ms);
    bench_table_figure(r->table, "%.1f", gflops(row));
    bench_table_figure(r->table, samples_a_second(row) < 100 ? "%.1f" : "%.0f",
                       samples_a_second(row));
    if (row->workers)
        worker_cells(r->table, row);
    if (row->format[0])
        torch_cells(r->table, row);
}

/* ---- out ------------------------------------------------------------------------------------- */

tg_status bench_train_report_torch(struct bench_train_report *r, const char *version,
                                   double gemm_gflops)
{
    r->torch = true;
    if (r->json)
        return jsonl_print_new(json_pack("{s:s, s:s, s:o}", "type", "bench_torch_about", "version",
                                         version, "gemm_gflop_per_s", jsonl_real(gemm_gflops)));
    printf("PyTorch %s, whose matrix product (1024 x 1024) runs at %.1f GFLOP/s\n", version,
           gemm_gflops);
    return TG_OK;
}

static tg_status print_table(const struct bench_train_report *r)
{
    return r->table ? output_table(r->table) : TG_OK;
}

tg_status bench_train_report_row(struct bench_train_report *r, const struct bench_train_row *row)
{
    r->failed += row->error != NULL;
    if (r->json)
        return row_json(row);
    if (!r->table)
        TG_TRY(head(r, row));
    row_cells(r, row);
    return print_table(r);
}

tg_status bench_train_report_end(struct bench_train_report *r)
{
    const tg_status status = print_table(r);
    table_destroy(r->table);
    r->table = NULL;
    return status;
}
