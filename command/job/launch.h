/* Where the ranks of a run live: threads of this process, or the processes of an MPI job. */
#ifndef TG_CLI_LAUNCH_H
#define TG_CLI_LAUNCH_H

#include "command/job/options.h"

struct launch {
    bool mpi;
    int rank, size; /* size: of the MPI job; without MPI each run says (--workers), rank is 0 */
};

/* Whether mpirun or Slurm started this process as one of a job (its environment says so), and as
 * which rank. Nothing of MPI is touched. */
bool launch_under_mpi(int *rank_p);

/* That this process, where launch_under_mpi says no, is not one of several tasks of srun without
 * --mpi, each of which would take itself for the whole job and write the same files. For commands
 * that were not told --workers. Errors TG_E_SPEC */
TG_NODISCARD tg_status launch_check_alone(void);

/* That this process is no rank of a job of several, which would all do the same, and write the same
 * files. command: "report", for the message. Errors TG_E_SPEC */
TG_NODISCARD tg_status launch_check_one(const char *command);

/* Joins the MPI job if there is one. Errors TG_E_UNSUPPORTED (MPI job, but built without MPI, or
 * with another than started it), TG_E_PEER */
TG_NODISCARD tg_status launch_open(struct launch *l);
/* Leaves the MPI job: all ranks call it. */
void launch_close(const struct launch *l);

/* "inproc" or "mpi"; never NULL. */
const char *launch_transport_name(const struct launch *l);
/* Ranks of a run with these options. */
int launch_world(const struct launch *l, const struct run_options *o);

/* Train: rank 0 (or this process's rank) on the calling thread, the others of this process on
 * threads of their own, over the link and with the faults that the options ask for. job, data,
 * events as in train_run; job and data are shared by all threads. Errors those of train_run: the
 * first detector's of this process, its text in tg_error() */
TG_NODISCARD tg_status launch_run(const struct launch *l, const struct run_options *o,
                                  const train_job *job, const train_data *data,
                                  const train_events *events, train_end_info *end_p);

/* Print tg_error() as the reason why this process gives up, or which signal did if it is
 * TG_E_STOPPED; then the exit status is that of the signal. In an MPI job: the rank that found the
 * error speaks first and ends all others, so this does not return. Returns the exit status. */
int launch_fail(const struct launch *l, tg_status status);

#endif
