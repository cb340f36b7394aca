/* telegrad bench exchange: the cost of exchanges, compared with a prediction. */
#include "bench/exchange/bench_exchange.h"
#include "command/bench/bench_args.h"
#include "command/bench/bench_exchange_model.h"
#include "command/bench/bench_exchange_report.h"
#include "command/output/cli.h"
#include "command/output/console.h"
#include "command/output/format.h"
#include "command/output/stop.h"
#include "command/job/launch.h"
#include "command/job/options.h"
#include "telegrad/registry.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINKS_MAX = 16, METHODS_MAX = 64, WORKERS_MAX = 16 };
#define ELEMENTS 1000000
#define WORKERS 4
#define LONG 5.0 /* seconds of a row; longer ones are announced */

static const char *const usual[] = {"dense",
                                    "dense:exchange=ring",
                                    "dense:exchange=halving",
                                    "dense:exchange=allgather",
                                    "topk:density=0.001",
                                    "topk:density=0.001,exchange=reducescatter",
                                    "dgc",
                                    "dgc:exchange=reducescatter",
                                    "powersgd",
                                    "powersgd:exchange=allgather"};

struct command {
    bench_exchange_options o;
    const char *method[METHODS_MAX];
    size_t workers[WORKERS_MAX];
    bench_link link[LINKS_MAX];
    bench_link real;
    struct cli_words words;
    const char *model; /* NULL: --elements is used */
    void *opened;      /* by bench_exchange_model_open */
    struct net_options net;
    struct launch launch;
    struct bench_exchange_report report;
};

/* ---- arguments ------------------------------------------------------------------------------- */

static tg_status add_method(struct command *c, const char *text)
{
    tg_spec *spec;
    if (c->o.methods == METHODS_MAX)
        return tg_fail(TG_E_SPEC, "%.64s: allowed: at most %d methods", text, METHODS_MAX);
    TG_TRY(tg_registry_parse(TG_KIND_METHOD, text, &spec));
    tg_spec_free(spec);
    c->method[c->o.methods++] = text;
    return TG_OK;
}

static tg_status read_link(const char *text, bench_link *link)
{
    bench_link read = {.text = text};
    if (strcmp(text, "none") == 0)
        read.text = NULL;
    else
        TG_TRY(tg_link_parse(text, &read.link));
    *link = read;
    return TG_OK;
}

enum { JSON = OPTIONS_KEY, WORKERS_KEY, LINK, REAL_LINK, ELEMENTS_KEY, MODEL, BEHIND, SECONDS };

static tg_status set(void *input, int key, char *arg)
{
    struct command *c = input;
    size_t count;
    switch (key) {
    case JSON:
        c->report.json = true;
        return TG_OK;
    case WORKERS_KEY:
        launch_wants_more();
        return bench_args_list("workers", arg, 2, BENCH_EXCHANGE_WORKERS, WORKERS_MAX, c->workers,
                               &c->o.nworkers);
    case LINK:
        if (c->o.links == LINKS_MAX)
            return tg_fail(TG_E_SPEC, "--link %.64s: allowed: at most %d links", arg, LINKS_MAX);
        TG_TRY(read_link(arg, &c->link[c->o.links]));
        c->o.links++;
        return TG_OK;
    case REAL_LINK:
        TG_TRY(tg_link_parse(arg, &c->real.link));
        c->real.text = arg;
        c->real.real = true;
        return TG_OK;
    case ELEMENTS_KEY:
        return bench_args_list("elements", arg, 1, (size_t)1 << 28, 1, &c->o.n, &count);
#ifdef HAVE_TRAIN
    case MODEL:
        TG_TRY(bench_exchange_model_check(arg));
        c->model = arg;
        return TG_OK;
#endif
    case BEHIND:
        return bench_args_list("behind", arg, 1, (size_t)1 << 28, 1, &c->o.behind, &count);
    default:
        return bench_args_real("seconds", arg, 0.001, 3600, &c->o.seconds);
    }
}

static struct cli_words *words_of(void *input)
{
    return &((struct command *)input)->words;
}

static const struct cli_option options[] = {
    {.help = "Workers and network"},
    {"workers", WORKERS_KEY, "N,..", "4", NULL,
     "threads of this process; not under mpirun or over a network"},
    {"link", LINK, "LINK", "none", NULL,
     "emulate a link: 100mbit,20ms; none is memory; repeatable"},
    {"real-link", REAL_LINK, "LINK", NULL, NULL,
     "between processes: what the links really are, to predict from"},
    {.help = "What is exchanged"},
    {"elements", ELEMENTS_KEY, "N", "1000000", NULL, "elements of the gradient, in matrices"},
#ifdef HAVE_TRAIN
    {"model", MODEL, "SPEC", NULL, "models", "the tensors of a model, instead of --elements"},
#endif
    {"behind", BEHIND, "N", NULL, NULL,
     "launch N more urgent elements behind it, and measure their time"},
    {"seconds", SECONDS, "S", "1", NULL, "time per row, or one step if it takes longer"},
    {.help = "Output"},
    {"json", JSON, NULL, NULL, NULL, "print JSON lines"},
    {0}};

/* Take the METHODs, and check the options that depend on each other. */
static tg_status check(struct command *c)
{
    const bool processes = launch_of_processes(&c->net);
    for (size_t i = 0; i < c->words.count; i++)
        TG_TRY(add_method(c, c->words.word[i]));
    TG_TRY(net_options_check(&c->net));
    if (processes && c->o.nworkers > 0)
        return tg_fail(TG_E_SPEC, "--workers under mpirun or over a network: each process is one "
                                  "worker: use mpirun -n N, or --listen with --ranks N");
    if (c->o.nworkers == 0)
        TG_TRY(launch_check_alone(&c->net));
    if (!processes && c->real.text)
        return tg_fail(TG_E_SPEC,
                       "--real-link %.64s requires mpirun, --listen or --join; --link %.64s "
                       "emulates that link",
                       c->real.text, c->real.text);
    if (c->real.text && c->o.links > 0)
        return tg_fail(TG_E_SPEC,
                       "--real-link and --link cannot be combined: --link emulates a link");
    if (c->model && c->o.n > 0)
        return tg_fail(TG_E_SPEC,
                       "--model and --elements cannot be combined: each says what is exchanged");
    return TG_OK;
}

static tg_status complete(struct command *c)
{
    if (c->o.methods == 0)
        for (size_t i = 0; i < sizeof usual / sizeof usual[0]; i++)
            TG_TRY(add_method(c, usual[i]));
    if (c->real.text)
        c->link[c->o.links++] = c->real;
    if (c->o.links == 0)
        c->link[c->o.links++] = (bench_link){.text = NULL};
    if (c->o.nworkers == 0)
        c->workers[c->o.nworkers++] = c->launch.processes ? (size_t)c->launch.size : WORKERS;
#ifdef HAVE_TRAIN
    if (c->model)
        TG_TRY(bench_exchange_model_open(c->model, &c->o, &c->opened));
#endif
    if (c->o.n == 0)
        c->o.n = ELEMENTS;
    for (size_t i = 0; i < c->o.methods; i++)
        if ((int)strlen(c->method[i]) > c->report.name_width)
            c->report.name_width = (int)strlen(c->method[i]);
    for (size_t i = 0; i < c->o.links; i++)
        if (c->link[i].text && (int)strlen(c->link[i].text) > c->report.link_width)
            c->report.link_width = (int)strlen(c->link[i].text);
    c->report.transport = c->launch.transport->name;
    c->o.method = c->method;
    c->o.workers = c->workers;
    c->o.link = c->link;
    return TG_OK;
}

/* ---- measuring ------------------------------------------------------------------------------- */

/* The heading comes at once, and whoever waits learns for how long. */
static tg_status begin(void *arg, const bench_exchange_row *row, double seconds)
{
    struct command *c = arg;
    char line[200], time[64] = "";
    TG_TRY(bench_exchange_report_begin(&c->report, row));
    if (seconds >= LONG)
        snprintf(time, sizeof time, ": about %s", format_seconds(seconds).text);
    snprintf(line, sizeof line, "%.80s, %zu workers, %.40s%s", row->method, row->workers,
             row->link->text ? row->link->text : "no link", time);
    if (time[0] && !console_terminal())
        console_note("%s", line);
    console_status(line);
    return TG_OK;
}

static tg_status row(void *arg, const bench_exchange_row *row)
{
    struct command *c = arg;
    if (c->launch.rank != 0)
        return TG_OK;
    console_status("");
    return bench_exchange_report_row(&c->report, row);
}

static tg_status measure(struct command *c)
{
    TG_TRY(complete(c));
    c->o.arg = c;
    c->o.begin = begin;
    c->o.row = row;
    if (c->launch.processes)
        c->o.connect = c->launch.transport->connect;
    for (size_t i = 0; i < c->o.links; i++)
        if (c->link[i].text && !c->link[i].real)
            TG_TRY(launch_check_machines(&c->launch));
    tg_status status = bench_exchange(&c->o);
    console_status("");
    const tg_status end = bench_exchange_report_end(&c->report);
    status = status == TG_OK ? end : status;
    return status == TG_OK && c->o.failed
               ? tg_fail(TG_E_STATE, "%zu rows could not be measured", c->o.failed)
               : status;
}

static struct net_options *net_of(void *input)
{
    return &((struct command *)input)->net;
}

/* What ranks must agree on before they can talk. */
static void describe(const struct command *c, char text[JOB_COMMAND])
{
    snprintf(text, JOB_COMMAND, "bench exchange of ");
    if (c->model)
        job_command_add(text, "--model %s", c->model);
    else
        job_command_add(text, "%zu elements", c->o.n > 0 ? c->o.n : ELEMENTS);
    if (c->o.behind > 0)
        job_command_add(text, " --behind %zu", c->o.behind);
    for (size_t i = 0; i < c->o.methods; i++)
        job_command_add(text, "%s %s", i == 0 ? " by" : ",", c->method[i]);
    for (size_t i = 0; i < c->o.links; i++)
        if (c->o.links > 1 || c->link[i].text)
            job_command_add(text, " over --link %s", c->link[i].text ? c->link[i].text : "none");
}

static int cmd_bench_exchange(int argc, char **argv)
{
    struct command c = {.o = {.seconds = 1}};
    char command[JOB_COMMAND];
    int result = options_parse(&command_bench_exchange, argc, argv, &c);
    if (result >= 0)
        return result;
    tg_status status = check(&c);
    describe(&c, command);
    if (status == TG_OK)
        status = launch_open(&c.launch, &(struct job_call){.net = &c.net,
                                                           .command = command,
                                                           .timeout_s = NET_OPTIONS_PATIENCE});
    if (status != TG_OK)
        return launch_fail(&c.launch, status);
    stop_install_at_once(c.launch.speaks);
    status = measure(&c);
#ifdef HAVE_TRAIN
    bench_exchange_model_close(c.opened);
#endif
    if (status != TG_OK)
        return launch_fail(&c.launch, status);
    launch_close(&c.launch);
    return CLI_OK;
}

const struct cli_command command_bench_exchange = {
    .name = "bench exchange",
    .run = cmd_bench_exchange,
    .summary = "exchanges between workers",
    .usage = "[OPTION]... [METHOD]...\nmpirun -n N telegrad bench exchange [OPTION]... [METHOD]...",
    .about =
        "Time exchanges of gradients, with nothing else to do, beside what they should take. "
        "METHODs are spec strings (default: a choice of them): see telegrad methods. Times are "
        "medians of the slowest worker.\n\n"
        "wire: one-way delays, and bytes in sequence over the rate. codec: time of compression, "
        "from the same steps with the network off. bound: one one-way delay, bytes sent over the "
        "rate, and codec; no exchange can be faster.",
    .operands = "methods",
    .options = options,
    .set = set,
    .words_of = words_of,
    .net = net_options_list,
    .net_of = net_of,
    .examples = "telegrad bench exchange dgc --link 100mbit --link 20mbit,50ms --model resnet18"};
