/* telegrad bench strategy: the strategies' own arithmetic on this machine. */
#include "bench/strategy/bench_strategy.h"
#include "command/bench/bench_args.h"
#include "command/bench/bench_ratio.h"
#include "command/bench/bench_table.h"
#include "command/job/launch.h"
#include "command/job/options.h"
#include "command/output/cli.h"
#include "command/output/console.h"
#include "command/output/format.h"
#include "command/output/jsonl.h"
#include "command/output/output.h"
#include <math.h>

enum { N_MIN = 1000, N_MAX = 1 << 29 };

struct command {
    bool json;
    size_t rows, failed;
    struct table *table;
    bench_strategy_options o;
};

enum { JSON = 1, SIZE, FILTER, SECONDS };

static tg_status set(void *input, int key, char *arg)
{
    struct command *c = input;
    size_t count;
    switch (key) {
    case JSON:
        c->json = true;
        return TG_OK;
    case SIZE:
        return bench_args_list("elements", arg, N_MIN, N_MAX, 1, &c->o.n, &count);
    case FILTER:
        c->o.filter = arg;
        return TG_OK;
    default:
        return bench_args_real("seconds", arg, 0.001, 3600, &c->o.seconds);
    }
}

static const struct cli_option options[] = {
    {.help = "Options"},
    {"elements", SIZE, "N", "10000000", NULL,
     "elements of the model; it takes the memory of up to 20 vectors of N f32"},
    {"filter", FILTER, "NAME", NULL, "strategies",
     "only rows whose strategy or optimizer contains NAME"},
    {"seconds", SECONDS, "S", "0.5", NULL, "time per row, or a few rounds if they take longer"},
    {"json", JSON, NULL, NULL, NULL, "print JSON lines"},
    {0}};

/* ---- what is printed ------------------------------------------------------------------------- */

static void begin(void *arg, const char *strategy, const char *optimizer)
{
    char line[128];
    (void)arg;
    snprintf(line, sizeof line, "%.60s, %.40s", strategy, optimizer);
    console_status(line);
}

static tg_status row_json(const bench_strategy_row *row)
{
    json_t *json =
        json_pack("{s:s, s:s, s:s, s:s, s:I, s:o, s:I, s:o, s:o, s:o}", "type", "bench_strategy",
                  "strategy", row->strategy, "optimizer", row->optimizer, "level", tg_cpu_level(),
                  "n", (json_int_t)row->n, "error", jsonl_text(row->error), "samples",
                  (json_int_t)row->samples, "passes", jsonl_real(row->passes), "ms",
                  jsonl_real(row->ms), "ratio", bench_ratio_json(&row->ratio));
    return jsonl_print_new(json);
}

static tg_status head(struct command *c, const bench_strategy_row *row)
{
    TG_TRY(bench_table_create(7, &c->table));
    printf("n = %s, %s\n", format_count(row->n).text, tg_cpu_level());
    table_cell(c->table, "strategy           "); /* as wide as the longest name to come */
    table_cell(c->table, "       optimizer");
    table_cell(c->table, "passes");
    table_cell(c->table, "ms a step");
    table_cell(c->table, "ratio");
    table_cell(c->table, "  min");
    table_cell(c->table, "  max");
    return TG_OK;
}

static tg_status row_table(struct command *c, const bench_strategy_row *row)
{
    if (c->table == NULL)
        TG_TRY(head(c, row));
    table_row(c->table);
    table_cell(c->table, row->strategy);
    table_cell(c->table, row->optimizer);
    if (row->error != NULL) {
        bench_table_error(c->table, row->error);
    } else {
        bench_table_figure(c->table, "%.2f", row->passes);
        bench_table_figure(c->table, row->ms < 10 ? "%.3f" : "%.1f", row->ms);
        bench_table_figure(c->table, "%.2f", row->ratio.median);
        bench_table_figure(c->table, "%.2f", row->ratio.min);
        bench_table_figure(c->table, "%.2f", row->ratio.max);
    }
    return output_table(c->table);
}

static tg_status row(void *arg, const bench_strategy_row *row)
{
    struct command *c = arg;
    console_status("");
    c->rows++;
    c->failed += row->error != NULL;
    return c->json ? row_json(row) : row_table(c, row);
}

static tg_status measure(struct command *c)
{
    c->o.arg = c;
    const tg_status status = bench_strategy(&c->o);
    console_status("");
    TG_TRY(status);
    if (c->rows == 0)
        return tg_fail(TG_E_SPEC,
                       "--filter \"%.64s\": no row matches; allowed: part of a strategy's or an "
                       "optimizer's spec, such as dga or adam",
                       c->o.filter);
    return c->failed
               ? tg_fail(TG_E_STATE, "%zu of %zu rows could not be measured", c->failed, c->rows)
               : TG_OK;
}

static int cmd_bench_strategy(int argc, char **argv)
{
    struct command c = {.o = {.n = 10000000, .seconds = 0.5, .begin = begin, .row = row}};
    int result = options_parse(&command_bench_strategy, argc, argv, &c);
    if (result < 0) {
        tg_status status = launch_check_one("bench strategy");
        if (status == TG_OK)
            status = measure(&c);
        result = cli_end(status);
    }
    table_destroy(c.table);
    return result;
}

const struct cli_command command_bench_strategy = {
    .name = "bench strategy",
    .run = cmd_bench_strategy,
    .summary = "the arithmetic of strategies",
    .usage = "[OPTION]...",
    .about =
        "Time the arithmetic of each strategy with each optimizer on one core, over plain arrays: "
        "nothing is exchanged, and no gradient is computed. Strategies with rounds are timed over "
        "whole rounds of 4 steps (gossip: 8).\n\n"
        "passes: the vectors of N elements that a step must read or write, each at most read once "
        "and written once. ratio: the time over that of as many bytes at the speed of axpy "
        "(r += g), measured in turn: median, minimum, maximum. 1 is as fast as memory.",
    .options = options,
    .set = set,
    .examples = "telegrad bench strategy --elements 1000000 --seconds 0.05 --filter dga"};
