/* telegrad serve: a parameter server whose workers come and go. Compiled only with
 * libtelegrad-net. */
#include "command/bench/bench_args.h"
#include "command/job/launch.h"
#include "command/job/options.h"
#include "command/job/server_mode.h"
#include "command/job/tcp_join.h"
#include "command/output/cli.h"
#include "command/output/console.h"
#include "command/output/format.h"
#include "command/output/outfile.h"
#include "command/output/output.h"
#include "command/output/stop.h"
#include "command/serve/metrics.h"
#include "command/serve/monitor.h"
#include "command/serve/replay_progress.h"
#include "command/serve/serve_check.h"
#include "command/serve/server_records.h"
#include "telegrad/clock.h"
#include "telegrad/server.h"
#include "telegrad/tools.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SECOND INT64_C(1000000000)
#define LOG_EVERY_S 10

struct command {
    struct net_options net;
    const char *mode, *optimizer, *shard, *journal, *status_at, *out;
    int number, shards;                      /* of --shard */
    double workers, min, timeout_s, every_s; /* min 0: not given */
    double deadline_ns;                      /* 0: none */
    /* While it runs. */
    struct tcp_lists lists;
    tg_server *server;
    struct monitor *monitor;
    struct server_records *records;
    struct replay_progress replay;
    int64_t begin_ns, told_ns;
    uint64_t told_answers, seen_answers;
    unsigned hangups; /* seen so far */
    struct server_events *events;
    double began_s, moved_s; /* Unix time: of the start, of the last answer */
};

/* ---- options --------------------------------------------------------------------------------- */

enum {
    LISTEN = OPTIONS_KEY,
    WORKERS,
    MIN,
    DEADLINE,
    MODE,
    OPTIMIZER,
    SHARD,
    KEY,
    ALLOW,
    INSECURE,
    TIMEOUT,
    JOURNAL,
    STATUS,
    OUT,
    LOG_EVERY
};

static tg_status set(void *input, int key, char *arg)
{
    struct command *c = input;
    switch (key) {
    case LISTEN:
        c->net.listen = arg;
        return TG_OK;
    case WORKERS:
        return bench_args_real("workers", arg, 1, TG_RANKS_MAX - 1, &c->workers);
    case MIN:
        return bench_args_real("min", arg, 1, TG_RANKS_MAX - 1, &c->min);
    case DEADLINE:
        return tg_time_parse(arg, strlen(arg), &c->deadline_ns) && c->deadline_ns >= 1e6
                   ? TG_OK
                   : tg_fail(TG_E_SPEC,
                             "--deadline \"%.64s\": allowed: 1ms or more, in " TG_UNITS_TIME, arg);
    case MODE:
        c->mode = server_mode_own(arg);
        return TG_OK;
    case OPTIMIZER:
        c->optimizer = arg;
        return TG_OK;
    case SHARD:
        c->shard = arg;
        return TG_OK;
    case STATUS:
        c->status_at = arg;
        return TG_OK;
    case OUT:
        c->out = arg;
        return TG_OK;
    case LOG_EVERY:
        return bench_args_real("log-every", arg, 0.1, 1e6, &c->every_s);
    case JOURNAL:
        c->journal = arg;
        return TG_OK;
    case KEY:
        c->net.key = arg;
        return TG_OK;
    case ALLOW:
        c->net.allow = arg;
        return TG_OK;
    case INSECURE:
        c->net.insecure = true;
        return TG_OK;
    default:
        return bench_args_real("timeout", arg, 0.1, 1e6, &c->timeout_s);
    }
}

static const struct cli_option options[] = {
    {.help = "Training"},
    {"mode", MODE, "MODE", "async", NULL,
     "when the parameters are updated: async, by each gradient as it comes; async:staleness=4, the "
     "same, but a worker more than 4 steps ahead of the slowest one waits; "
     "async:compensate=0.04, with compensation of the delay; sync, once per step, by the mean of "
     "the gradients of all workers that are there; sync:combine=trimmed,f=1, by a rule that "
     "tolerates one wrong gradient. dist_async and dist_sync, MXNet's names, are async and sync"},
    {"min", MIN, "N", "1", NULL, "with sync: a step waits until N workers take part"},
    {"deadline", DEADLINE, "TIME", "none", NULL,
     "with sync: a step waits so long, from its first gradient on, for those of other workers, if "
     "at least --min have come, e.g. 500ms or 2s. A worker that is late keeps its gradient for "
     "its next one, and goes on where the others are"},
    {"optimizer", OPTIMIZER, "SPEC", OPT_OPTIMIZER, "optimizers",
     "update rule: sgd, adam or adamw. Each worker gives the same one, and sets the learning rate"},
    {"journal", JOURNAL, "DIR", NULL, NULL,
     "keep the parameters in this folder: a gradient is answered once it is on disk, and a server "
     "that is started again continues where it stopped, bit for bit"},
    {"status", STATUS, ":PORT", NULL, NULL,
     "serve /metrics (for Prometheus) and /healthz to this machine; HOST:PORT: also to others"},
    {"out", OUT, "FILE", NULL, NULL,
     "write JSON records, one per line, for telegrad report; a server that continues with its "
     "journal appends them"},
    {"log-every", LOG_EVERY, "S", "10", NULL, "with --out: seconds between records"},
    {.help = "Workers and network"},
    {"listen", LISTEN, "tcp://HOST:PORT", NULL, NULL,
     "where workers call, e.g. tcp://0.0.0.0:4242; required"},
    {"workers", WORKERS, "N", "16", NULL,
     "the most workers at a time; each trains on one N-th of the data"},
    {"shard", SHARD, "I/N", "0/1", NULL,
     "be server I, from 0, of N servers, each of which keeps a part of the parameters"},
    {"key", KEY, "FILE", NULL, NULL, "this server's private key: see telegrad key new"},
    {"allow", ALLOW, "FILE", NULL, NULL,
     "file of the workers' public keys, a key and a name per line; read again on SIGHUP"},
    {"insecure", INSECURE, NULL, NULL, NULL,
     "use no keys and no encryption: anyone who reaches the port can train, and can read and "
     "change everything"},
    {"timeout", TIMEOUT, "S", "50", NULL,
     "how long workers wait for one that is silent, or whose connection broke (sync, staleness)"},
    {0}};

static tg_status read_shard(struct command *c)
{
    char *end = NULL;
    long number = 0, shards = 1;
    if (c->shard) {
        const bool digit = strspn(c->shard, "0123456789") > 0;
        number = strtol(c->shard, &end, 10);
        const bool two = digit && *end == '/' && strspn(end + 1, "0123456789") > 0;
        shards = two ? strtol(end + 1, &end, 10) : 0;
    }
    if ((end && *end) || shards < 1 || shards > TG_SERVERS_MAX || number < 0 || number >= shards)
        return tg_fail(TG_E_SPEC,
                       "--shard \"%.64s\": allowed: I/N, with N servers, 1 to %d, and I from 0 to "
                       "N - 1",
                       c->shard, TG_SERVERS_MAX);
    c->number = (int)number;
    c->shards = (int)shards;
    return TG_OK;
}

static tg_status check(struct command *c)
{
    if (c->journal && !c->journal[0])
        return tg_fail(TG_E_SPEC, "--journal \"\": allowed: a folder");
    if (c->every_s > 0 && !c->out)
        return tg_fail(TG_E_SPEC, "--log-every %g requires --out FILE, which receives the records",
                       c->every_s);
    TG_TRY(read_shard(c));
    TG_TRY(serve_check_network(&c->net));
    if (c->workers > (double)(int)c->workers)
        return tg_fail(TG_E_SPEC, "--workers %g: allowed: a whole number", c->workers);
    TG_TRY(serve_check_mode(c->mode, c->optimizer, (int)c->workers));
    if (c->min > c->workers || c->min > (double)(int)c->min)
        return tg_fail(TG_E_SPEC, "--min %g: allowed: a whole number, at most --workers, %g",
                       c->min, c->workers);
    char mode[SERVER_MODE_TEXT];
    TG_TRY(tg_server_mode_normal(c->mode, mode, sizeof mode));
    const bool gathers =
        strncmp(mode, "sync:", 5) == 0 || strncmp(mode, "async:staleness=0,", 18) == 0;
    if (c->min > 0 && !gathers)
        return tg_fail(TG_E_SPEC, "--min %g requires --mode sync; this one is %.64s", c->min,
                       c->mode);
    if (c->deadline_ns > 0 && !gathers)
        return tg_fail(TG_E_SPEC, "--deadline %gs requires --mode sync; this one is %.64s",
                       c->deadline_ns / 1e9, c->mode);
    return c->deadline_ns >= c->timeout_s * 1e9
               ? tg_fail(TG_E_SPEC, "--deadline %gs: allowed: less than --timeout, %gs",
                         c->deadline_ns / 1e9, c->timeout_s)
               : TG_OK;
}

/* ---- serving --------------------------------------------------------------------------------- */

static void write_done(const struct command *c, char *line, size_t room)
{
    tg_server_stats s = {.struct_size = sizeof s};
    if (!c->server || tg_server_get_stats(c->server, &s) != TG_OK)
        return;
    const double seconds = (double)(tg_now_ns(tg_clock_monotonic()) - c->begin_ns) / 1e9;
    snprintf(line, room, "%llu answer%s, %s received (%s/s), %s sent, in %s",
             (unsigned long long)s.sums, s.sums == 1 ? "" : "s",
             format_bytes((double)s.bytes_in).text, format_bytes((double)s.bytes_in / seconds).text,
             format_bytes((double)s.bytes_out).text, format_seconds(seconds).text);
}

static void write_state(const struct command *c, char *line, size_t room)
{
    char done[300] = "";
    tg_server_stats s = {.struct_size = sizeof s};
    if (!c->server || tg_server_get_stats(c->server, &s) != TG_OK)
        return;
    write_done(c, done, sizeof done);
    snprintf(line, room, "%d worker%s now; %s", s.ranks, s.ranks == 1 ? "" : "s", done);
}

static void write_metrics(void *arg, FILE *f)
{
    const struct command *c = arg;
    tg_server_stats s = {.struct_size = sizeof s};
    const struct metrics m = {.stats = &s,
                              .events = c->events,
                              .seats = (int)c->workers,
                              .records_lost = server_records_lost(c->records),
                              .began_s = c->began_s,
                              .moved_s = c->moved_s};
    if (c->server && tg_server_get_stats(c->server, &s) == TG_OK)
        metrics_write(&m, f);
}

static double unix_time(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* A worker has come or left, or a call has failed. */
static void on_change(void *arg, const tg_net_event *event)
{
    struct command *c = arg;
    tg_server_stats s = {.struct_size = sizeof s};
    if (c->server && tg_server_get_stats(c->server, &s) == TG_OK)
        server_events_of_net(c->events, event, &s);
}

static void on_server_event(void *arg, const tg_server_event *event)
{
    const struct command *c = arg;
    server_events_of_server(c->events, event);
}

/* The server reads its journal. */
static void on_replay(void *arg, uint64_t bytes, uint64_t all)
{
    struct command *c = arg;
    const char *starts = replay_progress_step(&c->replay, bytes, all);
    if (starts && c->monitor)
        monitor_step(c->monitor, starts, write_metrics, c);
}

/* On a terminal each second; elsewhere each minute, if anything has come. */
static void tell_state(struct command *c, const tg_server_stats *s)
{
    const int64_t now = tg_now_ns(tg_clock_monotonic());
    char line[360] = "";
    if (now - c->told_ns < (console_terminal() ? SECOND : 60 * SECOND))
        return;
    c->told_ns = now;
    write_state(c, line, sizeof line);
    if (console_terminal())
        console_status(line);
    else if (s->sums > c->told_answers)
        console_note("step %llu; %s", (unsigned long long)s->step, line);
    c->told_answers = s->sums;
}

/* About ten times a second. */
static const tg_keys *tick(void *arg)
{
    struct command *c = arg;
    tg_server_stats s = {.struct_size = sizeof s};
    if (c->server && tg_server_get_stats(c->server, &s) == TG_OK) {
        tell_state(c, &s);
        if (s.sums > c->seen_answers)
            c->moved_s = unix_time();
        c->seen_answers = s.sums;
        if (c->records)
            server_records_tick(c->records, &s);
    }
    if (c->monitor)
        monitor_step(c->monitor, NULL, write_metrics, c);
    if (c->hangups != tcp_join_hangups()) { /* the file of the records may have been renamed */
        c->hangups = tcp_join_hangups();
        server_records_open_again(c->records);
    }
    return tcp_join_list_now(&c->lists);
}

static tg_status open_records(struct command *c, const tg_server_stats *s)
{
    const struct server_about about = {.listen = c->net.listen,
                                       .mode = c->mode,
                                       .optimizer = c->optimizer,
                                       .journal = c->journal,
                                       .out = c->out,
                                       .shard = c->number,
                                       .shards = c->shards,
                                       .workers = (int)c->workers,
                                       .timeout_s = c->timeout_s,
                                       .deadline_s = c->deadline_ns / 1e9,
                                       .every_s = c->every_s,
                                       .recovered = s->recovered,
                                       .recovered_step = s->recovered_step};
    if (c->out)
        TG_TRY(server_records_open(&about, &c->records));
    server_events_to(c->events, c->records);
    return TG_OK;
}

/* Write the last record. The server has run until `status`, which is returned unless that fails. */
static tg_status close_records(struct command *c, tg_status status)
{
    char why[1024];
    tg_server_stats s = {.struct_size = sizeof s};
    struct server_records *records = c->records;
    c->records = NULL;
    server_events_to(c->events, NULL);
    snprintf(why, sizeof why, "%s", tg_error());
    tg_status closed = tg_server_get_stats(c->server, &s);
    if (closed == TG_OK)
        closed = server_records_close(records, &s, status == TG_E_STOPPED ? NULL : why);
    return status == TG_E_STOPPED && closed != TG_OK ? closed : tg_fail(status, "%s", why);
}

/* Run it until it is told to stop. */
static tg_status run_server(struct command *c)
{
    char line[300] = "";
    const tg_status status = close_records(c, tg_server_run(c->server));
    console_status("");
    if (status == TG_E_STOPPED && !outfile_is_stdout(c->out)) { /* as asked */
        write_done(c, line, sizeof line);
        printf("%s\n", line);
    }
    return status == TG_E_STOPPED ? output_flush() : status;
}

static tg_status serve(struct command *c, tg_transport *t)
{
    const tg_server_config config = {.struct_size = sizeof config,
                                     .timeout_ms = (int64_t)(c->timeout_s * 1000),
                                     .stop = &stop_signal,
                                     .mode = c->mode,
                                     .optimizer = c->optimizer,
                                     .shard = c->number,
                                     .journal = c->journal,
                                     .shards = c->shards,
                                     .min_workers = (int64_t)c->min,
                                     .deadline_ms = (int64_t)(c->deadline_ns / 1e6),
                                     .on_event = on_server_event,
                                     .on_event_arg = c,
                                     .on_replay = on_replay,
                                     .on_replay_arg = c};
    tg_server_stats s = {.struct_size = sizeof s};
    tg_status status = tg_server_create(t, 1, &config, &c->server);
    console_status("");
    if (status == TG_E_STOPPED) { /* while it read its journal: as asked */
        console_note("%s", tg_error());
        return output_flush();
    }
    TG_TRY(status);
    TG_TRY(tg_server_get_stats(c->server, &s));
    status = open_records(c, &s);
    if (status != TG_OK) {
        tg_server_destroy(c->server);
        return status;
    }
    console_note("server %d of %d listens at %s for up to %d worker%s", c->number, c->shards,
                 c->net.listen, (int)c->workers, (int)c->workers == 1 ? "" : "s");
    if (c->journal && s.recovered > 0)
        console_note("journal %s: continues with %s parameters, after step %llu", c->journal,
                     format_count(s.recovered).text, (unsigned long long)s.recovered_step);
    else if (c->journal)
        console_note("journal %s: new; the first worker brings the parameters", c->journal);
    status = run_server(c);
    tg_server_destroy(c->server);
    c->server = NULL;
    return status;
}

static tg_status run(struct command *c)
{
    char about[512];
    tg_status status = TG_OK;
    int64_t until = 0;
    tg_net *net;
    tg_transport *t;
    tg_net_serve_config config = {.struct_size = sizeof config,
                                  .workers = (int)c->workers,
                                  .shard = c->number,
                                  .shards = c->shards,
                                  .job = "serve",
                                  .allow_now = tick,
                                  .allow_now_arg = c,
                                  .about = about,
                                  .on_change = on_change,
                                  .on_change_arg = c};
    server_mode_tell(about, sizeof about, c->optimizer, c->mode, c->deadline_ns / 1e9);
    c->every_s = c->every_s > 0 ? c->every_s : LOG_EVERY_S;
    c->began_s = unix_time();
    TG_TRY(server_events_create((int)c->workers, c->every_s, &c->events));
    c->begin_ns = c->told_ns = tg_now_ns(tg_clock_monotonic());
    tcp_join_await_hangups(&c->net);
    if (c->status_at)
        do
            status = monitor_open(c->status_at, &c->monitor);
        while (tcp_join_port_again(&until, &status));
    TG_TRY(status);
    TG_TRY(tcp_join_serve(&c->net, &config, &c->lists, &net));
    status = tg_transport_tcp(net, &t);
    if (status != TG_OK) {
        tg_net_destroy(net);
        return status;
    }
    status = serve(c, t);
    tg_transport_destroy(t);
    return status;
}

static int cmd_serve(int argc, char **argv)
{
    struct command c = {
        .mode = "async", .optimizer = OPT_OPTIMIZER, .workers = 16, .timeout_s = 50};
    const int result = options_parse(&command_serve, argc, argv, &c);
    if (result >= 0)
        return result;
    output_outlive_readers(); /* of the log */
    tg_status status = launch_check_one("serve");
    if (status == TG_OK)
        status = check(&c);
    stop_install(false);
    if (status == TG_OK)
        status = run(&c);
    tcp_join_lists_free(&c.lists);
    monitor_close(c.monitor);
    server_events_free(c.events);
    const int exit_status = cli_end(status);
    return status == TG_E_STOPPED ? stop_exit_status() : exit_status; /* before it served */
}

const struct cli_command command_serve = {
    .name = "serve",
    .run = cmd_serve,
    .summary = "run a parameter server for workers that come and go",
    .usage = "--listen tcp://HOST:PORT [OPTION]...",
    .about =
        "Keep the parameters of a network, and update them with the gradients of workers, which "
        "are telegrad train --server on any machine. Workers call the server, and do not talk to "
        "each other. A worker that joins gets the current parameters and continues at the others' "
        "step; nobody waits for one that leaves or dies. The first worker brings the initial "
        "parameters.\n\n"
        "The server ends on SIGINT or SIGTERM, and prints what it has done.",
    .options = options,
    .set = set,
    .examples = "telegrad serve --listen tcp://0.0.0.0:4242 --key server.key --allow workers\n"
                "telegrad train --server tcp://host-a:4242 --server-key tgk1:... --key b.key"};
