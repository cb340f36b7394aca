/* telegrad doctor: who reaches whom, over which links, and what to change. Compiled only with
 * libtelegrad-net. */
#include "command/bench/bench_args.h"
#include "command/doctor/doctor_findings.h"
#include "command/job/launch.h"
#include "command/job/options.h"
#include "command/job/tcp_join.h"
#include "command/output/cli.h"
#include "command/output/console.h"
#include "command/output/output.h"
#include "command/output/stop.h"
#include <stdio.h>
#include <stdlib.h>

struct command {
    struct net_options net;
    double seconds, timeout_s;
    bool json;
    /* While it runs. */
    tg_net *job;
    tg_net_peer_info before; /* measuring the current pair */
    int rank, size, pairs;   /* done */
    struct doctor_findings found;
};

/* ---- options --------------------------------------------------------------------------------- */

enum { JSON = OPTIONS_KEY, SECONDS, TIMEOUT };

static tg_status set(void *input, int key, char *arg)
{
    struct command *c = input;
    switch (key) {
    case JSON:
        c->json = true;
        return TG_OK;
    case SECONDS:
        return bench_args_real("seconds", arg, 0.01, 600, &c->seconds);
    default:
        return bench_args_real("timeout", arg, 0.1, 1e6, &c->timeout_s);
    }
}

static const struct cli_option options[] = {
    {.help = "Measuring"},
    {"seconds", SECONDS, "S", "1", NULL, "time to send in each direction of each pair of ranks"},
    {"timeout", TIMEOUT, "S", "600", NULL,
     "time for all ranks to join, and how long one may be silent after that"},
    {.help = "Output"},
    {"json", JSON, NULL, NULL, NULL, "print one JSON object"},
    {0}};

static struct net_options *net_of(void *input)
{
    return &((struct command *)input)->net;
}

static tg_status check(const struct command *c)
{
    if (!net_options_join(&c->net))
        return tg_fail(TG_E_SPEC, "doctor requires --listen tcp://0.0.0.0:PORT (rank 0) or --join "
                                  "tcp://HOST:PORT (the others)");
    TG_TRY(net_options_check(&c->net));
    return c->net.listen && c->net.ranks == 1
               ? tg_fail(TG_E_SPEC,
                         "--ranks 1: one rank has no link to measure: allowed: 2 and more")
               : TG_OK;
}

/* ---- measuring ------------------------------------------------------------------------------- */

static bool stopped(void *arg)
{
    const struct command *c = arg;
    tcp_join_refresh(&c->net, c->job);
    return stop_signal != 0;
}

static struct doctor_way *way_to(struct command *c, int peer)
{
    return &c->found.way[c->rank * c->size + peer];
}

/* Take down what the connection to a rank says of itself. */
static void ask_connection(struct command *c, int peer, tg_net_peer_info *info)
{
    *info = (tg_net_peer_info){.struct_size = sizeof *info};
    if (tg_net_peer(c->job, peer, info) != TG_OK) /* cannot be: the rank is one of the job */
        console_error("%s", tg_error());
}

static void begin(void *arg, int peer)
{
    struct command *c = arg;
    char line[100];
    ask_connection(c, peer, &c->before);
    snprintf(line, sizeof line, "measuring the link to rank %d, %d of %d", peer, c->pairs + 1,
             c->size - 1);
    console_status(line);
}

static void end(void *arg, int peer)
{
    struct command *c = arg;
    struct doctor_way *way = way_to(c, peer);
    tg_net_peer_info after;
    ask_connection(c, peer, &after);
    way->relayed = after.way == TG_NET_RELAYED;
    way->local = after.way == TG_NET_LOCAL;
    way->sent = (double)(after.packets_sent - c->before.packets_sent);
    way->resent = (double)(after.packets_resent - c->before.packets_resent);
    snprintf(c->found.machine[c->rank].congestion, sizeof c->found.machine->congestion, "%s",
             after.congestion);
    c->pairs++;
    console_status("");
}

static tg_status share(struct command *c, tg_transport *t, const struct doctor_measure *m)
{
    json_t *mine = doctor_findings_of(&c->found, c->rank);
    char *text = mine ? json_dumps(mine, JSON_COMPACT) : NULL;
    char **all = calloc((size_t)c->size, sizeof *all);
    tg_status status =
        text && all ? TG_OK : tg_fail(TG_E_NOMEM, "out of memory: findings of %d ranks", c->size);
    if (status == TG_OK)
        status = doctor_share(t, m, text, all);
    for (int r = 0; r < c->size && status == TG_OK; r++)
        if (r != c->rank)
            status = doctor_findings_take(&c->found, r, all[r]);
    for (int r = 0; all && r < c->size; r++)
        free(all[r]);
    free(all);
    free(text);
    json_decref(mine);
    return status;
}

static tg_status measure(struct command *c, tg_transport *t)
{
    const struct doctor_measure m = {.seconds = c->seconds,
                                     .timeout_s = c->timeout_s,
                                     .stop = stopped,
                                     .begin = begin,
                                     .end = end,
                                     .arg = c};
    struct doctor_link *links = calloc((size_t)c->size, sizeof *links);
    doctor_machine_look(&c->found.machine[c->rank]);
    tg_status status = links ? doctor_measure(t, &m, links)
                             : tg_fail(TG_E_NOMEM, "out of memory: links of %d ranks", c->size);
    console_status("");
    for (int p = 0; p < c->size && status == TG_OK; p++)
        way_to(c, p)->link = links[p];
    free(links);
    return status == TG_OK ? share(c, t, &m) : status;
}

static tg_status run(struct command *c)
{
    tg_transport *t;
    tcp_join_await_hangups(&c->net);
    TG_TRY(tcp_join(&c->net, "doctor", 0, c->timeout_s, &c->job));
    c->rank = tg_net_rank(c->job);
    c->size = tg_net_size(c->job);
    console_note("joined as rank %d of %d", c->rank, c->size);
    tg_status status = doctor_findings_create(c->size, &c->found);
    if (status == TG_OK)
        status = tg_transport_tcp(c->job, &t);
    if (status != TG_OK) {
        tg_net_leave(c->job, tg_error());
        return status;
    }
    status = measure(c, t);
    tg_transport_destroy(t);
    return status == TG_OK ? doctor_report(&c->found, c->json) : status;
}

static int cmd_doctor(int argc, char **argv)
{
    struct command c = {.seconds = 1, .timeout_s = NET_OPTIONS_PATIENCE};
    const int result = options_parse(&command_doctor, argc, argv, &c);
    if (result >= 0)
        return result;
    tg_status status = check(&c);
    stop_install(true);
    if (status == TG_OK)
        status = run(&c);
    doctor_findings_free(&c.found);
    return status == TG_OK ? CLI_OK : launch_fail(&(struct launch){.rank = c.rank}, status);
}

const struct cli_command command_doctor = {
    .name = "doctor",
    .run = cmd_doctor,
    .summary = "examine the network between machines, before training over it",
    .usage = "--listen tcp://HOST:PORT --ranks N [OPTION]...\n--join tcp://HOST:PORT [OPTION]...",
    .about = "Run it on every machine with the same --listen or --join options as training. Every "
             "rank prints the same report: how each pair of ranks is connected, its delay, its "
             "rates and the packets sent again; the machines, their clocks and their versions; and "
             "what to change.\n\ndelay: half of the shortest of 15 round trips. jitter: half of "
             "the median's excess over it. Rates are those of one connection at a time in each "
             "pair; pairs without a common rank are measured at the same time. buffers: the "
             "system's limit for a connection. clock: difference from rank 0's clock.",
    .options = options,
    .set = set,
    .net = net_options_list,
    .net_of = net_of,
    .examples =
        "telegrad doctor --listen tcp://0.0.0.0:4242 --ranks 3 --key a.key \\\n  --allow "
        "friends\ntelegrad doctor --join tcp://host-a:4242 --key b.key --peer-key tgk1:..."};
