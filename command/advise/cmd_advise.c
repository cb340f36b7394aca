/* telegrad advise: which strategy and method to use over a network, and why. */
#include "command/advise/advise.h"
#include "command/advise/advise_measure.h"
#include "bench/exchange/bench_exchange.h"
#include "command/output/cli.h"
#include "command/train/cli_run.h"
#include "command/job/clock_options.h"
#include "command/job/options_check.h"
#include "command/output/outfile.h"
#include "command/output/stop.h"
#include "telegrad/tools.h"
#include <inttypes.h>
#include <string.h>

struct command {
    struct run_options o;
    bool json, measure;
    const char *svg, *server_link;
    struct launch launch;
};

enum {
    MODEL = OPTIONS_KEY,
    LINK,
    WORKERS,
    BATCH,
    PRECISION,
    TAU,
    DRIVER,
    SERVERS,
    SERVER_LINK,
    SLOW,
    JITTER,
    DATA,
    JSON,
    SVG,
    MEASURE
};

#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)

static const struct cli_option options[] = {
    {.help = "What is trained"},
    {"model", MODEL, "SPEC", "lenet5", "models", "network: see telegrad models"},
    {"workers", WORKERS, "N", "4", NULL, "workers, up to " TEXT(TG_SIM_WORLD_MAX)},
    {"batch", BATCH, "N", "32", NULL, "samples per worker in each step"},
    {"precision", PRECISION, "fp32|bf16", "fp32", NULL,
     "number format of forward and backward passes"},
    {.help = "Network and computing time"},
    {"link", LINK, "LINK", NULL, NULL,
     "rate and delay: 100mbit,20ms or up=5mbit,down=50mbit,delay=9ms"},
    {"tau", TAU, "measured|TIME", "measured", NULL,
     "computing time of a step: measured here on one core, or a time such as 150ms"},
    {"driver", DRIVER, "auto|thread|inline", "auto", NULL,
     "whether compression has a core of its own, or shares that of the training (inline)"},
    {"servers", SERVERS, "N", "0", NULL,
     "also say whether parameter servers pay, up to N beside the workers"},
    {"server-link", SERVER_LINK, "LINK", "none", NULL,
     "with --servers: rate and delay of each server"},
    {"slow", SLOW, "RANK:TIMESx", NULL, NULL,
     "with --servers: a worker that takes longer to compute, as in train; repeatable"},
    {"jitter", JITTER, "PERCENT%", "0%", NULL,
     "with --servers: in each step each worker takes up to this much longer to compute"},
    {"measure", MEASURE, NULL, NULL, NULL,
     "measure computing and network first, between the processes of mpirun, --listen and --join, "
     "or between threads over "
     "the link given; --link may be left out"},
    {"data", DATA, "SPEC", "mnist if found, else glyphs", "data",
     "with --measure: data to train on"},
    {.help = "Output"},
    {"svg", SVG, "FILE.svg", NULL, NULL,
     "draw the step time over the rate and over the delay of the link"},
    {"json", JSON, NULL, NULL, NULL, "print everything as one JSON object"},
    {0}};

/* Set an option as train does, but refuse what advise does not allow. */
static tg_status set_common(struct run_options *o, int key, const char *arg)
{
    const struct cli_option *option = options;
    while (option->key != key)
        option++;
    const tg_status status = options_set(o, OPT_TRAIN, option->name, arg);
    if (key == WORKERS && (status != TG_OK || o->workers > TG_SIM_WORLD_MAX))
        return tg_fail(TG_E_SPEC, "--workers \"%.64s\": allowed: 2 to %d", arg, TG_SIM_WORLD_MAX);
    if (key == TAU && (status != TG_OK || (o->tau && o->tau_ns == 0)))
        return tg_fail(TG_E_SPEC, "--tau \"%.64s\": allowed: measured, or " CLOCK_OPTIONS_TIME,
                       arg);
    return status;
}

static tg_status set(void *input, int key, char *arg)
{
    struct command *c = input;
    if (key == JSON)
        c->json = true;
    else if (key == MEASURE)
        c->measure = true;
    else if (key == SERVER_LINK)
        c->server_link = strcmp(arg, "none") == 0 ? NULL : arg;
    else if (key != SVG)
        return set_common(&c->o, key, arg);
    else if (*arg)
        c->svg = arg;
    else
        return tg_fail(TG_E_SPEC, "--svg has no value: allowed: FILE.svg");
    return TG_OK;
}

static tg_status check_servers(const struct command *c)
{
    const struct run_options *o = &c->o;
    tg_link link;
    const struct {
        const char *name;
        bool given;
    } more[] = {
        {"server-link", c->server_link}, {"slow", o->slow_count > 0}, {"jitter", o->jitter > 0}};
    for (size_t i = 0; i < TG_COUNT(more); i++)
        if (more[i].given && o->servers == 0)
            return tg_fail(TG_E_SPEC, "--%s requires --servers N", more[i].name);
    if (o->servers == 0)
        return TG_OK;
    if (c->measure)
        return tg_fail(TG_E_SPEC, "--servers and --measure cannot be combined: servers are not "
                                  "measured, give --link and --tau");
    if (c->server_link && o->servers > OPT_MAX_LINKS)
        return tg_fail(TG_E_SPEC,
                       "--servers %" PRIu64 " with --server-link: allowed: at most %d, because "
                       "train has as many --link-of",
                       o->servers, OPT_MAX_LINKS);
    for (size_t i = 0; i < o->slow_count; i++)
        if ((uint64_t)o->slow[i].rank >= o->workers)
            return tg_fail(TG_E_SPEC, "--slow %d:...: allowed: ranks 0 to %" PRIu64,
                           o->slow[i].rank, o->workers - 1);
    if (c->server_link && tg_link_parse(c->server_link, &link) != TG_OK)
        return tg_fail(TG_E_SPEC, "--server-link: %s", tg_error());
    return TG_OK;
}

static tg_status check(const struct command *c)
{
    const struct run_options *o = &c->o;
    if (!c->measure)
        launch_wants_more();
    TG_TRY(check_servers(c));
    TG_TRY(net_options_check(&o->net));
    if (launch_of_processes(&o->net) && !c->measure)
        return tg_fail(TG_E_SPEC, "advise under mpirun or over a network requires --measure");
    if (c->measure && o->tau)
        return tg_fail(TG_E_SPEC, "--measure and --tau cannot be combined: --measure measures it");
    if (c->measure && o->workers > BENCH_EXCHANGE_WORKERS)
        return tg_fail(TG_E_SPEC, "--measure with --workers %" PRIu64 ": allowed: at most %d",
                       o->workers, BENCH_EXCHANGE_WORKERS);
    if (o->data && !c->measure)
        return tg_fail(TG_E_SPEC, "--data %.64s requires --measure", o->data);
    if (c->measure)
        TG_TRY(options_check(o));
    if (!launch_of_processes(&o->net) && o->workers < 2)
        return tg_fail(TG_E_SPEC,
                       "--workers %" PRIu64 ": a single worker exchanges nothing: allowed: 2 to %d",
                       o->workers, TG_SIM_WORLD_MAX);
    if (!o->link && !c->measure)
        return tg_fail(TG_E_SPEC,
                       "--link is missing: give a rate and a delay, such as --link 100mbit,20ms");
    if (!c->svg)
        return TG_OK;
    TG_TRY(outfile_check_ending("--svg", c->svg, ".svg", NULL));
    return outfile_check("--svg", c->svg, false);
}

static tg_status answer(const struct command *c, struct advise_answer *a)
{
    TG_TRY(advise_answer_make(a));
    if (c->svg)
        TG_TRY(advise_draw(a, c->svg));
    return c->json ? advise_print_json(a) : advise_print(a);
}

/* With --measure, the measured network replaces the one given. */
static tg_status take_link(const struct advise_answer *a, tg_link *link_p)
{
    const struct advise_measured *m = a->measured;
    tg_link link = {.struct_size = sizeof link};
    if (!m)
        return tg_link_parse(a->options->link, link_p);
    link.delay_ns = (int64_t)(1e9 * m->alpha);
    link.up_bps = link.down_bps = m->beta > 0 ? 8 / m->beta : 0;
    *link_p = link;
    return TG_OK;
}

static tg_status advise(const struct command *c, const struct advise_measured *measured)
{
    const struct run_options *o = &c->o;
    const int world = launch_world(&c->launch, o);
    train_job job = run_job_of(o, NULL);
    advice_request request = {.job = &job, .world = world};
    struct advise_answer a = {.options = o,
                              .workers = world,
                              .processes = c->launch.processes,
                              .link_text = o->link ? o->link : "as it is",
                              .measured = measured,
                              .server_link = {.struct_size = sizeof(tg_link)},
                              .server_link_text = c->server_link};
    advice *made;
    if (c->server_link)
        TG_TRY(tg_link_parse(c->server_link, &a.server_link));
    if (measured) {
        job.tau_ns = (int64_t)(1e9 * measured->tau);
        TG_TRY(advise_measure_data(o, &request.data));
    }
    TG_TRY(take_link(&a, &a.link));
    TG_TRY(advice_create(&request, &made));
    a.advice = made;
    const tg_status status = answer(c, &a);
    advice_destroy(made);
    return status;
}

static tg_status run(struct command *c)
{
    struct advise_measured measured = {0};
    if (!c->measure)
        return advise(c, NULL);
    if (c->launch.processes && c->launch.size < 2)
        return tg_fail(TG_E_SPEC, "a single process exchanges nothing: start at least two, e.g. "
                                  "with mpirun -n 2 or --ranks 2");
    TG_TRY(advise_measure(&c->launch, &c->o, &measured));
    return c->launch.rank == 0 ? advise(c, &measured) : TG_OK;
}

static struct net_options *net_of(void *input)
{
    return &((struct command *)input)->o.net;
}

static int cmd_advise(int argc, char **argv)
{
    struct command c = {.json = false};
    char command[JOB_COMMAND] = "advise";
    options_defaults(&c.o, 4);
    const int result = options_parse(&command_advise, argc, argv, &c);
    if (result >= 0)
        return result;
    tg_status status = check(&c);
    clock_options_tell_links(&c.o, command);
    if (status == TG_OK)
        status = launch_open(&c.launch, &(struct job_call){.net = &c.o.net,
                                                           .command = command,
                                                           .timeout_s = NET_OPTIONS_PATIENCE});
    if (status != TG_OK)
        return launch_fail(&c.launch, status);
    stop_install_at_once(c.launch.speaks);
    status = run(&c);
    if (status != TG_OK)
        return launch_fail(&c.launch, status);
    launch_close(&c.launch);
    return CLI_OK;
}

const struct cli_command command_advise = {
    .name = "advise",
    .run = cmd_advise,
    .summary = "say which strategy and method pay over a network, and why",
    .usage = "--link LINK [OPTION]...\n--measure [OPTION]...",
    .about = "Say which strategy and method to train with over a network, and why: predicted step "
             "times and bytes, the time model of CD-SGD, and where the choice changes. The answer "
             "ends with the command to run, and with the choice's cost in accuracy, if "
             "docs/results has a run of it.",
    .options = options,
    .set = set,
    .net = net_options_list,
    .net_of = net_of,
    .examples = "telegrad advise --model resnet20 --link 100mbit,20ms --workers 8"};
