#include "command/bench/bench_report.h"
#include "command/bench/bench_ratio.h"
#include "command/bench/bench_table.h"
#include "command/output/format.h"
#include "command/output/jsonl.h"
#include "command/output/output.h"
#include "command/output/table.h"
#include <math.h>
#include <string.h>

/* ---- JSON ------------------------------------------------------------------------------------ */

static tg_status row_json(const bench_row *row)
{
    json_t *figures = json_pack(
        "{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:[o,o]}", "ns", jsonl_real(row->ns),
        "ns_per_element", jsonl_real(row->ns_each), "per_axpy", bench_ratio_json(&row->axpy),
        "per_memcpy", bench_ratio_json(&row->copy), "byte_limit", jsonl_real(row->limit),
        "over_limit", jsonl_real(row->axpy.median / row->limit), "gb_per_s", jsonl_real(row->gb_s),
        "bits", jsonl_real(row->bits), "relative_error", jsonl_real(row->error_norm), "target",
        jsonl_real(row->target[0]), jsonl_real(row->target[1]));
    json_t *index = json_pack("{s:o, s:o, s:o, s:o}", "over_entropy", jsonl_real(row->entropy),
                              "encode_ns_per_index", jsonl_real(row->index_ns[0]),
                              "decode_ns_per_index", jsonl_real(row->index_ns[1]),
                              "decode_add_ns_per_index", jsonl_real(row->index_ns[2]));
    json_t *json =
        json_pack("{s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:b, s:o}", "type", "bench", "group",
                  row->group, "name", row->name, "level", row->level, "n", (json_int_t)row->n,
                  "threads", (json_int_t)row->threads, "samples", (json_int_t)row->samples,
                  "missing", (int)row->missing, "error", jsonl_text(row->error));
    if (json && !row->error) {
        json_object_update(json, figures);
        if (strcmp(row->group, "index") == 0)
            json_object_update(json, index);
    }
    json_decref(figures);
    json_decref(index);
    return jsonl_print_new(json);
}

static tg_status comparison_json(const bench_comparison *c)
{
    return jsonl_print_new(
        json_pack("{s:s, s:s, s:s, s:I, s:b, s:o, s:o, s:o, s:o, s:o, s:o}", "type", "bench_torch",
                  "name", c->name, "level", c->level, "n", (json_int_t)c->n, "missing",
                  (int)c->missing, "error", jsonl_text(c->error), "ms", jsonl_real(c->ours_ms),
                  "torch_ms", jsonl_real(c->theirs_ms), "factor", jsonl_real(c->factor), "copy_ms",
                  jsonl_real(c->ours_copy_ms), "torch_copy_ms", jsonl_real(c->theirs_copy_ms)));
}

/* ---- tables ---------------------------------------------------------------------------------- */

static const char *const ratio_heads[] = {"/axpy", "min",   "max",  "limit", "over it", "/memcpy",
                                          "GB/s",  "ns/el", "bits", "error", "target"};
static const char *const index_heads[] = {"bits/index", "/entropy", "encode ns", "decode ns",
                                          "+ add ns"};
static const char *const torch_heads[] = {"ours ms", "torch ms", "factor", "copy ms", "torch copy"};
#define HEADS(list) list, sizeof list / sizeof list[0]

tg_status bench_report_end(struct bench_report *r)
{
    tg_status status = r->table ? output_table(r->table) : TG_OK;
    if (r->table)
        putchar('\n');
    table_destroy(r->table);
    r->table = NULL;
    return status == TG_OK ? output_flush() : status;
}

static const char *title_of(const char *group)
{
    return strcmp(group, "target") == 0   ? "codecs and their targets"
           : strcmp(group, "method") == 0 ? "methods at their defaults"
           : strcmp(group, "index") == 0  ? "index codings, by density"
           : strcmp(group, "kernel") == 0 ? "kernels"
                                          : "beside PyTorch";
}

/* Start a table for the group, unless the current one is of the same group. */
static tg_status head(struct bench_report *r, const char *group, size_t n, const char *level,
                      const char *const *heads, size_t count)
{
    if (r->table && r->n == n && strcmp(r->group, group) == 0)
        return TG_OK;
    TG_TRY(bench_report_end(r));
    r->group = group;
    r->n = n;
    TG_TRY(bench_table_create(count + 1, &r->table));
    printf("n = %s, %s\n", format_count(n).text, level);
    table_cell(r->table, title_of(group));
    for (size_t i = 0; i < count; i++)
        table_cell(r->table, heads[i]);
    return TG_OK;
}

static void ratio_cells(struct table *t, const bench_row *row)
{
    char target[32] = "";
    bench_table_figure(t, "%.2f", row->axpy.median);
    bench_table_figure(t, "%.2f", row->axpy.min);
    bench_table_figure(t, "%.2f", row->axpy.max);
    bench_table_figure(t, "%.2f", row->limit);
    bench_table_figure(t, "%.2f", row->axpy.median / row->limit);
    bench_table_figure(t, "%.2f", row->copy.median);
    bench_table_figure(t, "%.1f", row->gb_s);
    bench_table_figure(t, "%.3f", row->ns_each);
    bench_table_figure(t, "%.4g", row->bits);
    bench_table_figure(t, "%.3g", row->error_norm);
    if (isfinite(row->target[0]))
        snprintf(target, sizeof target, "%.2f / %.2f", row->target[0], row->target[1]);
    else if (isfinite(row->target[1]))
        snprintf(target, sizeof target, "- / %.2f", row->target[1]);
    table_cell(t, target);
}

static void index_cells(struct table *t, const bench_row *row)
{
    bench_table_figure(t, "%.2f", row->bits);
    bench_table_figure(t, "%.4f", row->entropy);
    for (size_t i = 0; i < 3; i++)
        bench_table_figure(t, "%.2f", row->index_ns[i]);
}

static void comparison_cells(struct table *t, const bench_comparison *c)
{
    bench_table_figure(t, "%.3f", c->ours_ms);
    bench_table_figure(t, "%.3f", c->theirs_ms);
    bench_table_figure(t, "%.1f x", c->factor);
    bench_table_figure(t, "%.3f", c->ours_copy_ms);
    bench_table_figure(t, "%.3f", c->theirs_copy_ms);
}

/* Print the first cell of a row, and the error if it has no figures. Returns whether it has any. */
static bool begin_row(struct bench_report *r, const char *name, bool missing, const char *error)
{
    char text[256];
    table_row(r->table);
    table_cell(r->table, name);
    if (!error)
        return true;
    snprintf(text, sizeof text, "%s%s", missing ? "missing: " : "error: ", error);
    table_rest(r->table, text);
    return false;
}

tg_status bench_report_row(struct bench_report *r, const bench_row *row)
{
    const bool index = strcmp(row->group, "index") == 0;
    r->rows++;
    r->failed += row->error != NULL;
    if (r->json)
        return row_json(row);
    TG_TRY(index ? head(r, row->group, row->n, row->level, HEADS(index_heads))
                 : head(r, row->group, row->n, row->level, HEADS(ratio_heads)));
    if (begin_row(r, row->name, row->missing, row->error))
        (index ? index_cells : ratio_cells)(r->table, row);
    return TG_OK;
}

tg_status bench_report_comparison(struct bench_report *r, const bench_comparison *c)
{
    r->rows++;
    r->failed += c->error != NULL;
    if (r->json)
        return comparison_json(c);
    TG_TRY(head(r, "torch", c->n, c->level, HEADS(torch_heads)));
    if (begin_row(r, c->name, c->missing, c->error))
        comparison_cells(r->table, c);
    return TG_OK;
}
