/* telegrad bench server: how fast a server takes gradients on this machine. */
#include "bench/server/bench_server.h"
#include "command/bench/bench_args.h"
#include "command/bench/bench_table.h"
#include "command/job/launch.h"
#include "command/job/options.h"
#include "command/job/server_mode.h"
#include "command/output/cli.h"
#include "command/output/console.h"
#include "command/output/format.h"
#include "command/output/jsonl.h"
#include "command/output/output.h"
#include "telegrad/registry.h"
#include "telegrad/server.h"
#include "telegrad/transport.h"
#include <math.h>
#include <string.h>

enum { N_MIN = 1000, N_MAX = 1 << 29, MODES_MAX = 8, METHODS_MAX = 32 };

static const char *const usual[] = {"dense", "fp16", "2bit:threshold=auto", "topk:density=0.01",
                                    "dgc:density=0.001,warmup=0"};

struct command {
    bool json;
    size_t rows, failed;
    struct table *table;
    struct cli_words words;
    const char *modes[MODES_MAX], *methods[METHODS_MAX];
    bench_server_options o;
};

enum { JSON = 1, SIZE, WORKERS, MODE, SECONDS };

static tg_status set(void *input, int key, char *arg)
{
    struct command *c = input;
    char normal[SERVER_MODE_TEXT];
    size_t count;
    switch (key) {
    case JSON:
        c->json = true;
        return TG_OK;
    case SIZE:
        return bench_args_list("elements", arg, N_MIN, N_MAX, 1, &c->o.n, &count);
    case WORKERS:
        return bench_args_list("workers", arg, 1, TG_RANKS_MAX - 1, 1, &c->o.workers, &count);
    case MODE:
        if (c->o.nmodes == MODES_MAX)
            return tg_fail(TG_E_SPEC, "--mode %.64s: allowed: at most %d modes", arg, MODES_MAX);
        c->modes[c->o.nmodes++] = arg;
        return tg_server_mode_normal(arg, normal, sizeof normal);
    default:
        return bench_args_real("seconds", arg, 0.001, 3600, &c->o.seconds);
    }
}

static const struct cli_option options[] = {
    {.help = "Options"},
    {"elements", SIZE, "N", "1000000", NULL, "elements of the gradient"},
    {"workers", WORKERS, "P", "4", NULL, "workers, which are threads"},
    {"mode", MODE, "MODE", "sum and async", NULL,
     "mode of the server: sum, sync, async, ...; repeatable"},
    {"seconds", SECONDS, "S", "1", NULL, "time per row"},
    {"json", JSON, NULL, NULL, NULL, "print JSON lines"},
    {0}};

/* ---- what is printed ------------------------------------------------------------------------- */

static void begin(void *arg, const char *mode, const char *method)
{
    char line[160];
    (void)arg;
    snprintf(line, sizeof line, "%.60s, %.80s", mode, method);
    console_status(line);
}

/* Gradient that a core of the server takes, bits a second, had it come as f32. */
static double gradient_bits(const bench_server_row *row)
{
    return row->error ? (double)NAN : 32 * row->elements / row->cpu_seconds;
}

static tg_status row_json(const bench_server_row *row)
{
    const bool fine = row->error == NULL;
    json_t *json = json_pack(
        "{s:s, s:s, s:s, s:s, s:I, s:I, s:o, s:I, s:o, s:o, s:o, s:o, s:o, s:o}", "type",
        "bench_server", "mode", row->mode, "method", row->method, "level", tg_cpu_level(), "n",
        (json_int_t)row->n, "workers", (json_int_t)row->workers, "error", jsonl_text(row->error),
        "steps", (json_int_t)row->steps, "seconds", jsonl_real(fine ? row->seconds : (double)NAN),
        "cpu_seconds", jsonl_real(fine ? row->cpu_seconds : (double)NAN), "elements",
        jsonl_real(fine ? row->elements : (double)NAN), "bytes_in",
        jsonl_real(fine ? row->bytes_in : (double)NAN), "bytes_out",
        jsonl_real(fine ? row->bytes_out : (double)NAN), "gradient_bits_s",
        jsonl_real(gradient_bits(row)));
    return jsonl_print_new(json);
}

static tg_status head(struct command *c, const bench_server_row *row)
{
    char method[128];
    int width = 26;
    TG_TRY(bench_table_create(8, &c->table));
    printf("n = %s, %zu workers, %s\n", format_count(row->n).text, row->workers, tg_cpu_level());
    table_cell(c->table, "mode ");
    for (size_t i = 0; i < c->o.nmethods; i++)
        width = (int)strlen(c->methods[i]) > width ? (int)strlen(c->methods[i]) : width;
    snprintf(method, sizeof method, "%-*s", width, "method");
    table_cell(c->table, method);
    table_cell(c->table, "steps");
    table_cell(c->table, "ms a step");
    table_cell(c->table, "ms of server");
    table_cell(c->table, "bytes of each");
    table_cell(c->table, "to each");
    table_cell(c->table, "Gbit/s a core");
    return TG_OK;
}

static tg_status row_table(struct command *c, const bench_server_row *row)
{
    if (c->table == NULL)
        TG_TRY(head(c, row));
    table_row(c->table);
    table_cell(c->table, row->mode);
    table_cell(c->table, row->method);
    if (row->error != NULL) {
        bench_table_error(c->table, row->error);
    } else {
        const double steps = (double)row->steps;
        bench_table_figure(c->table, "%.0f", steps);
        bench_table_figure(c->table, "%.3f", 1e3 * row->seconds / steps);
        bench_table_figure(c->table, "%.3f", 1e3 * row->cpu_seconds / steps);
        table_cell(c->table, format_bytes(row->bytes_in / steps / (double)row->workers).text);
        table_cell(c->table, format_bytes(row->bytes_out / steps / (double)row->workers).text);
        bench_table_figure(c->table, "%.1f", 1e-9 * gradient_bits(row));
    }
    return output_table(c->table);
}

static tg_status row(void *arg, const bench_server_row *row)
{
    struct command *c = arg;
    console_status("");
    c->rows++;
    c->failed += row->error != NULL;
    return c->json ? row_json(row) : row_table(c, row);
}

/* ---- the command ----------------------------------------------------------------------------- */

static tg_status add_method(struct command *c, const char *text)
{
    tg_spec *spec;
    if (c->o.nmethods == METHODS_MAX)
        return tg_fail(TG_E_SPEC, "%.64s: allowed: at most %d methods", text, METHODS_MAX);
    TG_TRY(tg_registry_parse(TG_KIND_METHOD, text, &spec));
    tg_spec_free(spec);
    const char *exchange = strstr(text, "exchange=");
    if (exchange != NULL && strncmp(exchange, "exchange=twoway", strlen("exchange=twoway")) != 0)
        return tg_fail(TG_E_SPEC,
                       "%.64s: servers are reached by exchange=star and twoway alone: allowed: a "
                       "method without exchange= (star), or with exchange=twoway",
                       text);
    c->methods[c->o.nmethods++] = text;
    return TG_OK;
}

static tg_status measure(struct command *c)
{
    if (c->o.nmodes == 0) {
        c->modes[c->o.nmodes++] = "sum";
        c->modes[c->o.nmodes++] = "async";
    }
    for (size_t i = 0; i < c->words.count; i++)
        TG_TRY(add_method(c, c->words.word[i]));
    for (size_t i = 0; c->words.count == 0 && i < TG_COUNT(usual); i++)
        TG_TRY(add_method(c, usual[i]));
    c->o.arg = c;
    c->o.modes = c->modes;
    c->o.methods = c->methods;
    const tg_status status = bench_server(&c->o);
    console_status("");
    TG_TRY(status);
    return c->failed
               ? tg_fail(TG_E_STATE, "%zu of %zu rows could not be measured", c->failed, c->rows)
               : TG_OK;
}

static struct cli_words *words_of(void *input)
{
    return &((struct command *)input)->words;
}

static int cmd_bench_server(int argc, char **argv)
{
    struct command c = {
        .o = {.n = 1000000, .workers = 4, .seconds = 1, .begin = begin, .row = row}};
    int result = options_parse(&command_bench_server, argc, argv, &c);
    if (result < 0) {
        tg_status status = launch_check_one("bench server");
        if (status == TG_OK)
            status = measure(&c);
        result = cli_end(status);
    }
    table_destroy(c.table);
    return result;
}

const struct cli_command command_bench_server = {
    .name = "bench server",
    .run = cmd_bench_server,
    .summary = "how many gradients a parameter server can take",
    .usage = "[OPTION]... [METHOD]...",
    .about =
        "Measure a parameter server. It and its workers are threads, connected by memory. In each "
        "step, each worker sends a gradient of N numbers, coded by METHOD; the server decodes and "
        "sums them (mode sum), or updates its parameters by them, and answers with N f32. Default: "
        "dense, fp16, 2bit, topk and dgc.\n\n"
        "ms of server: processor time of the server's thread in a step. This includes copying "
        "messages, but not a network. Gbit/s a core: the gradients taken in that time, counted as "
        "f32: 32 N bits for each worker.",
    .operands = "methods",
    .options = options,
    .set = set,
    .words_of = words_of,
    .examples = "telegrad bench server --elements 100000 --seconds 0.05 dgc:density=0.01,warmup=0"};
