#include "command/job/launch.h"
#include "command/job/spec_words.h"
#include "command/output/cli.h"
#include "command/output/console.h"
#include "command/output/output.h"
#include "command/output/stop.h"
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define TEXT_BYTES 1024 /* as long as tg_error() can be */

/* The value of a non-negative integer in the environment; -1: there is none. */
static int env_number(const char *name)
{
    const char *text = getenv(name);
    char *end = NULL;
    long v = text ? strtol(text, &end, 10) : -1;
    return text && *text && !*end && v >= 0 && v <= 1000000 ? (int)v : -1;
}

static bool wants_more; /* than to be a rank of a job */

void launch_wants_more(void)
{
    wants_more = true;
}

bool launch_under_mpi(int *rank_p, int *size_p)
{
    /* Open MPI; MPICH and Slurm's PMI; srun --mpi=pmix (a batch script has no PMIX_RANK). */
    static const char *const names[][2] = {{"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"},
                                           {"PMI_SIZE", "PMI_RANK"},
                                           {"SLURM_STEP_NUM_TASKS", "PMIX_RANK"}};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        int size = env_number(names[i][0]), rank = env_number(names[i][1]);
        if (size > (wants_more ? 1 : 0) && rank >= 0) {
            *rank_p = rank;
            *size_p = size;
            return true;
        }
    }
    *rank_p = 0;
    *size_p = 0;
    return false;
}

/* How many processes a launcher started that connects none of them, as it does those of its own
 * library; 0: none did. */
static int started_by_others(const char **by_p)
{
    *by_p = "torchrun";
    if ((getenv("TORCHELASTIC_RUN_ID") || getenv("MASTER_ADDR")) && env_number("RANK") >= 0 &&
        env_number("WORLD_SIZE") > 1)
        return env_number("WORLD_SIZE");
    *by_p = "Horovod";
    return env_number("HOROVOD_RANK") >= 0 && env_number("HOROVOD_SIZE") > 1
               ? env_number("HOROVOD_SIZE")
               : 0;
}

tg_status launch_check_alone(const struct net_options *net)
{
    const int tasks = env_number("SLURM_STEP_NUM_TASKS");
    const char *by;
    if (launch_of_processes(net))
        return TG_OK;
    const int others = started_by_others(&by);
    if (others > 0)
        return tg_fail(TG_E_SPEC,
                       "started by %s as one of %d processes that do not know each other: use "
                       "mpirun -n %d, or --listen at rank 0 and --join at the others, or --workers "
                       "N for a separate job in each process",
                       by, others, others);
    if (tasks > 1)
        return tg_fail(TG_E_SPEC,
                       "started by srun as one of %d tasks that do not know each other: use srun "
                       "--mpi=pmix (or another of srun --mpi=list, depending on how MPI was "
                       "built), or --workers N for a separate job in each task",
                       tasks);
    return TG_OK;
}

tg_status launch_check_one(const char *command)
{
    int rank, size;
    if (launch_under_mpi(&rank, &size) && size > 1)
        return tg_fail(TG_E_SPEC, "%s runs in one process: start it without mpirun", command);
    return TG_OK;
}

bool launch_of_processes(const struct net_options *net)
{
    const char *how;
    int rank, size;
    (void)job_transport_own(net, &how);
    return how || launch_under_mpi(&rank, &size);
}

uint64_t launch_ranks_told(const struct net_options *net, uint64_t workers)
{
    int rank, size;
    if (launch_under_mpi(&rank, &size))
        return (uint64_t)size;
    return launch_of_processes(net) ? net->ranks : workers;
}

const char *launch_ranks_option(const struct net_options *net)
{
    const char *how;
    return job_transport_own(net, &how)->count;
}

tg_status launch_open(struct launch *l, const struct job_call *call)
{
    struct launch opened = {.trains = call->trains};
    const char *how;
    int rank, size;
    *l = opened;
    opened.transport = job_transport_own(call->net, &how);
    opened.processes = how;
    opened.alone = opened.transport->alone;
    if (launch_under_mpi(&rank, &size) && !job_transport_find("mpi"))
        return tg_fail(TG_E_UNSUPPORTED, "started by mpirun, but this telegrad was built without "
                                         "MPI: use --workers N without mpirun");
    if (opened.alone)
        stop_install(true);        /* waiting for others may take minutes */
    if (opened.transport->abort) { /* a rank that fails here ends the others as well */
        opened.rank = rank;
        *l = opened;
        console_errors_wait(false); /* launch_fail decides who speaks first */
    }
    if (how) { /* losing the log of one rank must not end the job */
        output_outlive_readers();
        TG_TRY(opened.transport->open(call, &opened.rank, &opened.size));
    }
    opened.speaks = opened.rank == 0 || opened.alone;
    console_errors_wait(false);
    *l = opened;
    return TG_OK;
}

void launch_close(const struct launch *l)
{
    if (l->processes)
        l->transport->close(TG_OK);
}

int launch_world(const struct launch *l, const struct run_options *o)
{
    return l->processes ? l->size - (int)o->servers : (int)o->workers;
}

bool launch_servers_keep(const struct run_options *o)
{
    return strcmp(o->strategy, "server") == 0;
}

const char *launch_server_mode(const struct run_options *o)
{
    return o->server_mode ? o->server_mode : launch_servers_keep(o) ? "sync" : "sum";
}

bool launch_is_async(const struct run_options *o, int64_t *staleness_p)
{
    static const char key[] = "staleness=";
    const char *mode = o->server_mode ? o->server_mode : "";
    if (o->servers == 0 || !launch_servers_keep(o) || !spec_same_name(mode, "async"))
        return false;
    const char *bound = strstr(mode, key);
    *staleness_p = bound ? strtoll(bound + sizeof key - 1, NULL, 10) : -1;
    return *staleness_p != 0;
}

bool launch_serves(const struct launch *l, const struct run_options *o)
{
    return o->servers > 0 && l->processes && l->rank >= launch_world(l, o);
}

tg_status launch_check_servers(const struct launch *l, const struct run_options *o)
{
    if (!l->processes || o->servers == 0 || launch_world(l, o) > 0)
        return TG_OK;
    return tg_fail(TG_E_SPEC, "--servers %d of %d processes: at least one must train",
                   (int)o->servers, l->size);
}

tg_status launch_check_machines(const struct launch *l)
{
    if (!l->alone)
        return TG_OK;
    int *nodes = malloc((size_t)l->size * sizeof *nodes);
    if (!nodes)
        return tg_fail(TG_E_NOMEM, "out of memory: nodes of %d ranks", l->size);
    tg_status status = l->transport->nodes(nodes);
    for (int r = 0; r < l->size && status == TG_OK; r++)
        if (nodes[r] != 0)
            status = tg_fail(TG_E_SPEC,
                             "--link and --link-of emulate a link between processes of one "
                             "machine, but rank %d is on another than rank 0",
                             r);
    free(nodes);
    return status;
}

/* Sleep for ms. Returns false if a signal arrives in that time: the rank that spoke first has
 * aborted the job. stopped: a signal had already arrived before, so signals say nothing. */
static bool still_alone_after(int ms, bool stopped)
{
    const struct timespec slice = {.tv_nsec = 10000000};
    for (int i = 0; i < ms / 10 && (stopped || !stop_signal); i++)
        nanosleep(&slice, NULL);
    return stopped || !stop_signal;
}

/* Who speaks, in an MPI job: nothing for rank 0, which speaks for all that find the same error, and
 * if the text names a rank already. */
static void name_speaker(const char *text, char *who, size_t room)
{
    char host[HOST_NAME_MAX + 1] = "";
    int rank, size;
    who[0] = '\0';
    if (!launch_under_mpi(&rank, &size) || rank == 0 || strncmp(text, "rank ", 5) == 0 ||
        strncmp(text, "server ", 7) == 0)
        return;
    if (gethostname(host, sizeof host - 1) != 0)
        host[0] = '\0';
    snprintf(who, room, "rank %d%s%s%s: ", rank, host[0] ? " (" : "", host, host[0] ? ")" : "");
}

static void say(const struct launch *l, const char *text, bool stopped)
{
    char who[HOST_NAME_MAX + 32];
    if (stopped) {
        console_error("interrupted by %s%s", stop_signal_name(),
                      l->trains ? " before the first step" : "");
        return;
    }
    name_speaker(text, who, sizeof who);
    console_error("%s%s", who, text);
}

int launch_fail(const struct launch *l, tg_status status)
{
    const bool stopped = status == TG_E_STOPPED;
    int exit_status = stopped ? stop_exit_status() : cli_exit_status(status);
    if (l->processes && l->transport->abort) {
        char text[TEXT_BYTES];
        snprintf(text, sizeof text, "%s", tg_error());
        /* Often all ranks find the same error at once. The lowest rank speaks, and its abort
         * silences the others. Ranks that only know that a peer is gone wait a second longer. */
        const bool of_others = status == TG_E_PEER || status == TG_E_STATE;
        /* If all ranks received the signal, one is the first to stop its set-up, a second later;
         * the others only see it leave. A younger signal may come from the abort of a rank that
         * failed. */
        const bool asked = stopped || (of_others && stop_came_before(900));
        const int lead_ms = of_others && !asked ? 1000 : 0, step_ms = asked ? 50 : 200;
        const int rank = l->rank < 10 ? l->rank : 10;
        if (asked)
            exit_status = stop_exit_status();
        if (still_alone_after(lead_ms + step_ms * rank, asked))
            say(l, text, asked);
        l->transport->abort(exit_status);
    }
    say(l, tg_error(), stopped);
    if (l->processes)
        l->transport->close(status);
    return exit_status;
}
