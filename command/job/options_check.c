#include "command/job/options_check.h"
#include "command/job/launch.h"
#include "command/job/server_mode.h"
#include "command/job/spec_words.h"
#include "command/output/outfile.h"
#include "telegrad/server.h"
#include "telegrad/transport.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Refuse options that need gradients, weights or ranks, which do not exist with --sim-only. */
static tg_status check_sim_only(const struct run_options *o)
{
    static const char *const no[] = {"save",           "save-weights", "resume", "init",   "trace",
                                     "dump-gradients", "fault",        "nodes",  "dry-run"};
    if (!o->sim_only)
        return o->workers <= TG_RANKS_MAX
                   ? TG_OK
                   : tg_fail(TG_E_SPEC,
                             "--workers %" PRIu64 ": allowed: 1 to %d, or with --clock virtual "
                             "--sim-only to %d",
                             o->workers, TG_RANKS_MAX, TG_SIM_WORLD_MAX);
    if (!o->virtual_clock || !options_given(o, "tau"))
        return tg_fail(
            TG_E_SPEC,
            "--sim-only requires --clock virtual and --tau (measured, a time or a file)");
    if (o->fusion == OPT_FUSION_AUTO || o->fusion == OPT_FUSION_LAGS)
        return tg_fail(TG_E_SPEC,
                       "--sim-only and --fusion %s cannot be combined: it is measured "
                       "between ranks; give a size in bytes",
                       o->fusion == OPT_FUSION_AUTO ? "auto" : "lags");
    for (size_t i = 0; i < sizeof no / sizeof no[0]; i++)
        if (options_given(o, no[i]))
            return tg_fail(
                TG_E_SPEC,
                "--sim-only and --%s cannot be combined: --sim-only computes and sends nothing",
                no[i]);
    if (o->server_deadline > 0)
        return tg_fail(TG_E_SPEC,
                       "--sim-only and --server-deadline cannot be combined: simulated servers "
                       "wait for all workers; without --sim-only they have a deadline");
    return TG_OK;
}

/* "mpirun" of "under mpirun", "--join" of "with --join" */
static const char *launched_by(const char *launcher)
{
    const char *space = strchr(launcher, ' ');
    return space ? space + 1 : launcher;
}

/* Check simulated time, and options that only make sense with it. */
static tg_status check_clock(const struct run_options *o, const char *launcher)
{
    static const char *const own[] = {"tau", "slow", "jitter"};
    TG_TRY(check_sim_only(o));
    if (o->virtual_clock && launcher)
        return tg_fail(
            TG_E_SPEC,
            "--clock virtual %s: its workers are threads of one process: start it without %s, with "
            "--workers N",
            launcher, launched_by(launcher));
    for (size_t i = 0; !o->virtual_clock && i < sizeof own / sizeof own[0]; i++)
        if (options_given(o, own[i]))
            return tg_fail(TG_E_SPEC, "--%s requires --clock virtual", own[i]);
    for (size_t i = 0; i < o->slow_count; i++)
        if ((uint64_t)o->slow[i].rank >= o->workers)
            return tg_fail(TG_E_SPEC, "--slow %d:...: allowed: ranks 0 to %" PRIu64,
                           o->slow[i].rank, o->workers - 1);
    for (size_t i = 0; !launcher && i < o->links_of_count; i++)
        if (o->links_of[i].rank >= o->workers + o->servers)
            return tg_fail(TG_E_SPEC, "--link-of %" PRIu64 "=%.64s: allowed: ranks 0 to %" PRIu64,
                           o->links_of[i].rank, o->links_of[i].link ? o->links_of[i].link : "none",
                           o->workers + o->servers - 1);
    return TG_OK;
}

/* A message that is under way longer than a rank waits for it fails every exchange. */
static tg_status check_delay(const struct run_options *o, const char *option, const char *text)
{
    tg_link link = {.struct_size = sizeof link};
    if (text)
        TG_TRY(tg_link_parse(text, &link));
    if ((double)(link.delay_ns + link.jitter_ns) / 1e9 < options_timeout(o))
        return TG_OK;
    return tg_fail(TG_E_SPEC,
                   "--%s %.64s: the delay, with its jitter %g s, is not shorter than --timeout, %g "
                   "s: no message would arrive in time: use a longer --timeout",
                   option, text, (double)(link.delay_ns + link.jitter_ns) / 1e9,
                   options_timeout(o));
}

static tg_status check_delays(const struct run_options *o, const char *launcher)
{
    if (o->workers < 2 && !launcher)
        return TG_OK;
    TG_TRY(check_delay(o, "link", o->link));
    for (size_t i = 0; i < o->links_of_count; i++)
        TG_TRY(check_delay(o, "link-of", o->links_of[i].link));
    return TG_OK;
}

/* Check that no output replaces another file. Folders hold files of other names. */
static tg_status check_files(const struct run_options *o)
{
    const struct {
        const char *option, *path;
    } files[] = {{"out", outfile_is_stdout(o->out) ? NULL : o->out},
                 {"trace", o->trace},
                 {"save-weights", o->save_weights},
                 {"save", o->save_dir},
                 {"dump-gradients", o->dump_gradients},
                 {"resume", o->resume_dir},
                 {"init", o->init},
                 {"tau", o->tau_ns == 0 ? o->tau : NULL}};
    enum { WRITTEN = 3 }; /* the first WRITTEN names are files */
    if (outfile_is_stdout(o->trace))
        return tg_fail(TG_E_SPEC, "--trace -: a trace must go to a file; only --out takes - for "
                                  "the standard output (./- is a file of that name)");
    if (o->out)
        TG_TRY(outfile_check_plain("--out", o->out));
    if (o->trace)
        TG_TRY(outfile_check_plain("--trace", o->trace));
    if (outfile_is_stdout(o->save_weights))
        return tg_fail(TG_E_SPEC,
                       "--save-weights -: weights must go to a file (./- is a file of that "
                       "name)");
    for (size_t i = 0; i < WRITTEN; i++)
        for (size_t k = i + 1; files[i].path && k < sizeof files / sizeof files[0]; k++)
            if (files[k].path && outfile_same(files[i].path, files[k].path))
                return tg_fail(TG_E_SPEC,
                               "--%s \"%.64s\": this is the path of --%s: choose another",
                               files[i].option, files[i].path, files[k].option);
    return TG_OK;
}

/* Some combinations are refused only by a session (two different momenta), so create one before any
 * work is done. */
static tg_status check_session(const struct run_options *o)
{
    tg_session_config config = {.struct_size = sizeof config,
                                .overlap = o->overlap,
                                .method = o->method,
                                .rules = o->rules,
                                .nrules = o->rule_count,
                                .strategy = o->strategy,
                                .optimizer = options_optimizer(o),
                                .seed = o->seed,
                                .steps_per_epoch = 1000, /* any number: for durations in epochs */
                                .driver = TG_DRIVER_INLINE};
    tg_transport *t = NULL;
    tg_session *s = NULL;
    TG_TRY(tg_transport_inproc(1, &t));
    tg_status status = tg_session_create(&config, t, &s);
    if (status == TG_OK)
        tg_session_destroy(s);
    tg_transport_destroy(t);
    return status;
}

tg_status options_check_length(const struct run_options *o)
{
    if (!options_given(o, "steps") || !options_given(o, "epochs"))
        return TG_OK;
    return tg_fail(TG_E_SPEC,
                   "--steps %" PRIu64 " with --epochs %" PRIu64
                   ": each sets the length of the run, so give only one of them",
                   o->steps, o->epochs);
}

static tg_status check_workers(const struct run_options *o, const struct job_transport *own,
                               const char *launcher)
{
    if (!options_given(o, "workers"))
        return launch_check_alone(&o->net);
    return launcher ? tg_fail(TG_E_SPEC,
                              "--workers %" PRIu64 " %s: each process is one worker, so use %s",
                              o->workers, launcher, own->count)
                    : TG_OK;
}

static tg_status check_transport(const struct run_options *o, const struct job_transport *own,
                                 const char *launcher)
{
    if (!o->transport || strcmp(o->transport, own->name) == 0)
        return TG_OK;
    if (launcher)
        return tg_fail(TG_E_SPEC,
                       "--transport %s %s: each process is one worker: allowed: %s; or start it "
                       "without %s, with --workers N",
                       o->transport, launcher, own->name, launched_by(launcher));
    return tg_fail(TG_E_SPEC, "--transport %s requires %s", o->transport,
                   job_transport_find(o->transport)->requires);
}

/* A server of the job's ranks with these options can be created. */
static tg_status create_server(const struct run_options *o, tg_server_config config)
{
    const uint64_t told = launch_ranks_told(&o->net, o->workers + o->servers);
    const int ranks = told <= o->servers                 ? 1
                      : told - o->servers < TG_RANKS_MAX ? (int)(told - o->servers)
                                                         : TG_RANKS_MAX - 1;
    const int size = ranks + 1;
    tg_transport **t = calloc((size_t)size, sizeof *t);
    int *nodes = calloc((size_t)size, sizeof *nodes);
    tg_server *s;
    tg_status status = t && nodes ? tg_transport_inproc(size, t)
                                  : tg_fail(TG_E_NOMEM, "out of memory: %d ranks", size);
    for (int r = 0; status == TG_OK && r < ranks; r++) /* auto: the machines are not known yet */
        nodes[r] = o->nodes == OPT_NODES_AUTO || o->nodes == 0 ? r : r / (int)o->nodes;
    config.nodes = o->nodes > 0 ? nodes : NULL;
    if (status == TG_OK) {
        status = tg_server_create(t[ranks], 1, &config, &s);
        if (status == TG_OK)
            tg_server_destroy(s);
        for (int i = 0; i < size; i++)
            tg_transport_destroy(t[i]);
    }
    free(nodes);
    free(t);
    return status;
}

static tg_status check_server_mode(const struct run_options *o)
{
    const bool keeps = launch_servers_keep(o);
    if (o->server_mode)
        TG_TRY(server_mode_check("server-mode", o->server_mode, "sum|sync|async"));
    if (o->server_mode && keeps == spec_same_name(o->server_mode, "sum"))
        return tg_fail(TG_E_SPEC,
                       keeps ? "--server-mode sum with --strategy server: servers that sum do not "
                               "keep parameters: allowed: sync, async"
                             : "--server-mode %.64s requires --strategy server, whose parameters "
                               "servers keep",
                       o->server_mode);
    const char *mode = launch_server_mode(o);
    if (o->server_deadline > 0 && strncmp(mode, "sync", 4) != 0 &&
        strncmp(mode, "async:staleness=0", 17) != 0)
        return tg_fail(TG_E_SPEC,
                       "--server-deadline %g requires --strategy server and --server-mode sync; "
                       "this one is %.64s",
                       o->server_deadline, mode);
    if (o->server_deadline > 0 && o->nodes > 0)
        return tg_fail(TG_E_SPEC, "--server-deadline and --nodes cannot be combined: of a node's "
                                  "workers, only one would learn that it is late");
    if (o->server_deadline >= 0.8 * options_timeout(o))
        return tg_fail(TG_E_SPEC, "--server-deadline %g: allowed: less than 0.8 of --timeout, %g",
                       o->server_deadline, options_timeout(o));
    const tg_server_config config = {.struct_size = sizeof config,
                                     .mode = mode,
                                     .optimizer = keeps ? options_optimizer(o) : NULL};
    return create_server(o, config);
}

/* A worker of servers that run elsewhere. */
static tg_status check_worker(const struct run_options *o)
{
    const struct {
        bool given;
        const char *name, *why;
    } no[] = {{o->servers > 0, "servers N", "they run elsewhere"},
              {o->server_deadline > 0, "server-deadline", "the server's own --deadline says it"},
              {o->save_dir, "save DIR",
               "the optimizer's memory is the servers'; --save-weights FILE writes the weights"},
              {o->resume_dir, "resume DIR", "the optimizer's memory is the servers'"},
              {o->link || o->links_of_count > 0, "link", "a link is emulated between ranks"},
              {o->dry_run, "dry-run", "the plan depends on the servers"},
              {o->nodes > 0, "nodes", "workers are not connected to each other"}};
    if (o->anew && o->init)
        return tg_fail(TG_E_SPEC, "--anew and --init cannot be combined: --anew trains on with the "
                                  "servers' parameters");
    for (size_t i = 0; i < TG_COUNT(no); i++)
        if (no[i].given)
            return tg_fail(TG_E_SPEC, "--server and --%s cannot be combined: %s", no[i].name,
                           no[i].why);
    if (o->server_mode) {
        char normal[SERVER_MODE_TEXT];
        TG_TRY(server_mode_check("server-mode", o->server_mode, "async|sync"));
        TG_TRY(tg_server_mode_normal(o->server_mode, normal, sizeof normal));
    }
    return launch_servers_keep(o)
               ? TG_OK
               : tg_fail(TG_E_SPEC,
                         "--server with --strategy %.64s: telegrad serve keeps the parameters: "
                         "allowed: --strategy server; train --servers N has the others, with a "
                         "fixed group of workers",
                         o->strategy);
}

/* A checkpoint of servers is that of one moment, in which all workers are at the same step. */
static tg_status check_checkpoints(const struct run_options *o)
{
    int64_t staleness;
    if (!o->save_dir && !o->resume_dir)
        return TG_OK;
    if (o->server_deadline > 0)
        return tg_fail(TG_E_SPEC,
                       "--server-deadline cannot be combined with --save and --resume: workers "
                       "that are late leave out steps, and do not meet to save; --save-weights "
                       "FILE writes the weights");
    if (!launch_is_async(o, &staleness))
        return TG_OK;
    if (o->virtual_clock)
        return tg_fail(TG_E_SPEC,
                       "--save and --resume with --clock virtual and --server-mode %.64s: workers "
                       "make different numbers of steps, and do not meet to save: allowed: in real "
                       "time, or --server-mode sync",
                       o->server_mode);
    return o->save_dir && !o->save_every
               ? tg_fail(TG_E_SPEC,
                         "--save with --server-mode %.64s requires --save-every N: workers meet "
                         "every N steps to save, and stop there if they are interrupted",
                         o->server_mode)
               : TG_OK;
}

static tg_status check_servers(const struct run_options *o)
{
    if (o->net.server)
        return check_worker(o);
    if (o->anew)
        return tg_fail(TG_E_SPEC, "--anew requires --server tcp://HOST:PORT");
    if (o->servers == 0 && launch_servers_keep(o))
        return tg_fail(TG_E_SPEC,
                       "--strategy server requires --servers N, with N >= 1, or --server "
                       "tcp://HOST:PORT");
    if (o->servers == 0 && o->server_deadline > 0)
        return tg_fail(TG_E_SPEC, "--server-deadline %g requires --servers N", o->server_deadline);
    if (o->servers == 0)
        return o->server_mode
                   ? tg_fail(TG_E_SPEC, "--server-mode %.64s requires --servers N", o->server_mode)
                   : TG_OK;
    TG_TRY(check_server_mode(o));
    TG_TRY(check_checkpoints(o));
    int64_t staleness;
    if (o->save_weights && o->virtual_clock && launch_is_async(o, &staleness))
        return tg_fail(TG_E_SPEC,
                       "--save-weights with --clock virtual and --server-mode %.64s: workers make "
                       "different numbers of steps, and do not meet to save: allowed: in real "
                       "time, or --server-mode sync",
                       o->server_mode);
    if (o->nodes > 0 && o->virtual_clock && launch_is_async(o, &staleness))
        return tg_fail(TG_E_SPEC,
                       "--nodes with --clock virtual and --server-mode %.64s: workers share the "
                       "steps of the run, but those of a node make the same ones: allowed: in real "
                       "time, or --server-mode sync",
                       o->server_mode);
    return TG_OK;
}

tg_status options_check(const struct run_options *o)
{
    const char *launcher; /* what started the ranks, if they are processes; NULL: threads */
    const struct job_transport *own = job_transport_own(&o->net, &launcher);
    TG_TRY(net_options_check(&o->net));
    TG_TRY(check_workers(o, own, launcher));
    TG_TRY(check_transport(o, own, launcher));
    if (!launcher)
        for (size_t i = 0; i < o->fault_count; i++)
            if (o->faults[i].rank >= o->workers)
                return tg_fail(TG_E_SPEC, "--fault %" PRIu64 "=%.64s: allowed: ranks 0 to %" PRIu64,
                               o->faults[i].rank, o->faults[i].spec, o->workers - 1);
    TG_TRY(check_clock(o, launcher));
    TG_TRY(check_servers(o));
    if (o->nodes == OPT_NODES_AUTO && !launcher)
        return tg_fail(TG_E_SPEC,
                       "--nodes auto requires mpirun, --listen or --join, which know the machines; "
                       "--nodes N makes nodes of N workers each");
    if (o->init && o->resume_dir)
        return tg_fail(
            TG_E_SPEC,
            "--init and --resume cannot be combined: a checkpoint has weights of its own");
    if (o->save_every && !o->save_dir)
        return tg_fail(TG_E_SPEC, "--save-every %" PRIu64 " requires --save DIR", o->save_every);
    if (options_given(o, "log-every") && !o->out && !o->dry_run &&
        !o->net.join) /* rank 0 has the records */
        return tg_fail(TG_E_SPEC,
                       "--log-every %" PRIu64 " requires --out FILE, which receives the records",
                       o->log_every);
    if (o->json && !o->dry_run)
        return tg_fail(TG_E_SPEC,
                       "--json requires --dry-run; --out FILE writes the records of a run");
    if (o->dry_run && o->net.join)
        return tg_fail(TG_E_SPEC, "--dry-run and --join cannot be combined: rank 0 shows the plan "
                                  "of all, with --listen and --ranks N");
    if (o->dry_run && (o->out || o->save_dir || o->save_weights || o->trace || o->dump_gradients))
        return tg_fail(
            TG_E_SPEC,
            "--dry-run cannot be combined with --out, --save, --save-weights, --trace or "
            "--dump-gradients: nothing is trained, so there is nothing to write");
    if (o->dump_every && !o->dump_gradients)
        return tg_fail(TG_E_SPEC, "--dump-every %" PRIu64 " requires --dump-gradients DIR",
                       o->dump_every);
    TG_TRY(check_delays(o, launcher));
    TG_TRY(check_files(o));
    return check_session(o);
}
