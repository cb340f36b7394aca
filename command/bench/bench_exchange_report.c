#include "command/bench/bench_exchange_report.h"
#include "command/bench/bench_ratio.h"
#include "command/bench/bench_table.h"
#include "command/output/format.h"
#include "command/output/jsonl.h"
#include "command/output/output.h"
#include "command/output/table.h"
#include <math.h>
#include <sched.h>
#include <string.h>

/* Number of cores that this process may use, which its ranks share. */
static size_t cores(void)
{
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) == 0 ? (size_t)CPU_COUNT(&set) : 1;
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static tg_status row_json(const struct bench_exchange_report *r, const bench_exchange_row *row)
{
    json_t *json = json_pack("{s:s, s:o, s:I, s:s, s:o, s:b, s:I, s:I, s:I, s:I, s:o}", "type",
                             "bench_exchange", "method", jsonl_text(row->method), "workers",
                             (json_int_t)row->workers, "transport", r->transport, "link",
                             jsonl_text(row->link->text), "real_link", (int)row->link->real,
                             "cores", (json_int_t)cores(), "elements", (json_int_t)row->elements,
                             "tensors", (json_int_t)row->tensors, "behind", (json_int_t)row->behind,
                             "error", jsonl_text(row->error));
    if (json && !row->error) {
        json_t *figures = json_pack(
            "{s:s, s:I, s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "exchange",
            row->exchange, "samples", (json_int_t)row->samples, "rounds", (json_int_t)row->rounds,
            "delays", jsonl_real(row->delays), "bytes_sent", jsonl_real(row->bytes),
            "bytes_predicted", jsonl_real(row->bytes_predicted), "wire_ms",
            jsonl_real(row->wire_ms), "codec_ms", bench_ratio_json(&row->codec_ms), "processor_ms",
            jsonl_real(row->processor_ms), "ms", bench_ratio_json(&row->ms), "ratio",
            jsonl_real(row->ratio), "bound_ms", jsonl_real(row->bound_ms), "bound_ratio",
            jsonl_real(row->bound_ratio), "target", jsonl_real(row->target));
        json_object_update(json, figures);
        if (row->behind > 0)
            json_object_set_new(json, "behind_ms", bench_ratio_json(&row->behind_ms));
        json_decref(figures);
    }
    return jsonl_print_new(json);
}

/* ---- the table ------------------------------------------------------------------------------- */

static void ms_cell(struct table *t, double ms)
{
    bench_table_figure(t, ms < 10 ? "%.3f" : ms < 1000 ? "%.1f" : "%.0f", ms);
}

static tg_status head(struct bench_exchange_report *r, const bench_exchange_row *row)
{
    static const struct {
        const char *name;
        int width;
    } columns[] = {{"workers", 7}, {"delays", 6},   {"bytes sent", 11}, {"predicted", 11},
                   {"wire ms", 7}, {"codec ms", 8}, {"measured ms", 7}, {"ratio", 5},
                   {"/bound", 5},  {"target", 6},   {"behind ms", 7}};
    const size_t count = sizeof columns / sizeof columns[0] - (row->behind == 0);
    TG_TRY(bench_table_create(3 + count, &r->table));
    printf("%s elements in %zu tensor%s; wire: predicted; codec: with the network off; ratio: "
           "measured / (wire + codec);\n"
           "bound: one one-way delay + bytes sent / rate + codec\n",
           format_count(row->elements).text, row->tensors, row->tensors == 1 ? "" : "s");
    if (strcmp(r->transport, "mpi") == 0)
        printf("workers are processes of an MPI job; bytes are those handed to MPI\n");
    else if (strcmp(r->transport, "tcp") == 0)
        printf("workers are processes that met over a network; bytes are those handed to TCP\n");
    else
        printf("workers are threads that share %zu cores: where they are more, codec and measured "
               "time contain the waiting for one\n",
               cores());
    bench_table_title(r->table, -r->name_width, "method");
    bench_table_title(r->table, 13, "exchange");
    bench_table_title(r->table, r->link_width, "link");
    for (size_t i = 0; i < count; i++)
        bench_table_title(r->table, columns[i].width, columns[i].name);
    return TG_OK;
}

static void row_cells(struct table *t, const bench_exchange_row *row)
{
    char text[1024];
    table_row(t);
    table_cell(t, row->method);
    if (row->error) {
        bench_table_error(t, row->error);
        return;
    }
    table_cell(t, row->exchange);
    snprintf(text, sizeof text, "%s%s", row->link->text ? row->link->text : "none",
             row->link->real ? " (real)" : "");
    table_cell(t, text);
    table_cell(t, format_count(row->workers).text);
    bench_table_figure(t, "%g", row->delays);
    table_cell(t, format_count((uint64_t)(row->bytes + 0.5)).text);
    table_cell(t, format_count((uint64_t)(row->bytes_predicted + 0.5)).text);
    ms_cell(t, row->wire_ms);
    ms_cell(t, row->codec_ms.median);
    ms_cell(t, row->ms.median);
    bench_table_figure(t, "%.2f", row->ratio);
    bench_table_figure(t, "%.2f", row->bound_ratio);
    if (isfinite(row->target) || row->behind > 0)
        bench_table_figure(t, "%.2f", row->target);
    if (row->behind > 0)
        ms_cell(t, row->behind_ms.median);
}

static tg_status print_table(const struct bench_exchange_report *r)
{
    return r->table ? output_table(r->table) : TG_OK;
}

tg_status bench_exchange_report_begin(struct bench_exchange_report *r,
                                      const bench_exchange_row *row)
{
    if (r->json || r->table)
        return TG_OK;
    TG_TRY(head(r, row));
    return print_table(r);
}

tg_status bench_exchange_report_row(struct bench_exchange_report *r, const bench_exchange_row *row)
{
    if (r->json)
        return row_json(r, row);
    if (!r->table)
        TG_TRY(head(r, row));
    row_cells(r->table, row);
    return print_table(r);
}

tg_status bench_exchange_report_end(struct bench_exchange_report *r)
{
    const tg_status status = print_table(r);
    table_destroy(r->table);
    r->table = NULL;
    return status;
}
