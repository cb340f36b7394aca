/* Where the ranks of a run live: as threads of this process, or as processes that mpirun started or
 * that meet over a network. */
#ifndef TG_CLI_LAUNCH_H
#define TG_CLI_LAUNCH_H

#include "command/job/options.h"
#include "command/job/transports.h"

struct launch {
    const struct job_transport *transport; /* never NULL */
    bool processes;                        /* each rank is a process; false: all are threads here */
    bool alone;     /* met the others over a network: each process has a user of its own */
    bool speaks;    /* to the user: rank 0, or each process that is alone */
    bool trains;    /* as in job_call; set by launch_open even if it fails */
    int rank, size; /* of this process; with threads: rank 0, and size is set by --workers */
};

/* Whether mpirun or Slurm started this process as a rank of a job, as which rank of how many (0 of
 * 0 otherwise). Reads only the environment, without calling MPI. */
bool launch_under_mpi(int *rank_p, int *size_p);

/* From now on a process that is the only one of its job counts as started by itself: it has threads
 * of its own, or meets others over a network. srun --pty bash, and mpirun -n 1, start such. */
void launch_wants_more(void);

/* Check that this process, if launch_of_processes says no, is not one of several tasks of srun
 * without --mpi: each would take itself for the whole job and write the same files. For commands
 * that were called without --workers. Errors TG_E_SPEC */
TG_NODISCARD tg_status launch_check_alone(const struct net_options *net);

/* Check that this process is not one of several ranks, which would all do the same and write the
 * same files. command: "report", for the message. Errors TG_E_SPEC */
TG_NODISCARD tg_status launch_check_one(const char *command);

/* Whether the ranks are processes: mpirun or the like started this one, or the options say where
 * they meet. */
bool launch_of_processes(const struct net_options *net);

/* The number of ranks, as far as the environment and the options say; 0: not known before the ranks
 * have met. workers: that of --workers, for threads */
uint64_t launch_ranks_told(const struct net_options *net, uint64_t workers);
/* What the user gives that number with: "--workers N". */
const char *launch_ranks_option(const struct net_options *net);

/* Join the job of which this process is a rank, if it is one. While waiting for others over a
 * network, a signal ends this with TG_E_STOPPED. Errors TG_E_UNSUPPORTED (an MPI job, but this
 * program was built without MPI, or with another MPI than the one that started it), TG_E_PEER, and
 * those of tcp_join */
TG_NODISCARD tg_status launch_open(struct launch *l, const struct job_call *call);
/* Leave the job. All ranks call it. */
void launch_close(const struct launch *l);

/* Check that all ranks are on one machine: an emulated link (--link) needs one clock. Ranks of an
 * MPI job are not checked. All ranks call it. Errors TG_E_SPEC (names a rank), TG_E_NOMEM */
TG_NODISCARD tg_status launch_check_machines(const struct launch *l);

/* Number of ranks of a run with these options, without servers. */
int launch_world(const struct launch *l, const struct run_options *o);
/* Whether the options' servers keep the parameters: --strategy server. */
bool launch_servers_keep(const struct run_options *o);
/* Their mode, given or by default. */
const char *launch_server_mode(const struct run_options *o);
/* Append the servers of a run, if it has some, to what ranks and servers must agree on before they
 * can talk: nothing else tells them how the other ones were started. */
void launch_tell_servers(const struct run_options *o, char command[JOB_COMMAND]);
/* Whether they apply each gradient as it comes. *staleness_p: the bound; -1: none. The mode has
 * been checked. */
bool launch_is_async(const struct run_options *o, int64_t *staleness_p);
/* Whether this process is one of the servers, and has to call launch_serve. */
bool launch_serves(const struct launch *l, const struct run_options *o);
/* Check that processes are left that train. Errors TG_E_SPEC */
TG_NODISCARD tg_status launch_check_servers(const struct launch *l, const struct run_options *o);
/* Be a server until all ranks have left; *stats_p: what it has done. Errors those of tg_server_run
 */
TG_NODISCARD tg_status launch_serve(const struct launch *l, const struct run_options *o,
                                    tg_server_stats *stats_p);

/* Train. Rank 0 (or this process's rank) runs on the calling thread, the other ranks of this
 * process on threads of their own, with the link and the faults that the options ask for. job, data
 * and events are as in train_run; all threads share job and data. Errors those of train_run: that
 * of the first detector in this process, with its message in tg_error() */
TG_NODISCARD tg_status launch_run(const struct launch *l, const struct run_options *o,
                                  const train_job *job, const train_data *data,
                                  const train_events *events, train_end_info *end_p);

/* Print why this process gives up: tg_error(), or for TG_E_STOPPED the signal, which then sets the
 * exit status. In an MPI job the rank that found the error speaks first and ends all others, so
 * this does not return. Over a network each process speaks for itself. *l may be all zero. Returns
 * the exit status. */
int launch_fail(const struct launch *l, tg_status status);

#endif
