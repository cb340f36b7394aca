/* Ranks that are processes of an MPI job. */
#include "command/job/launch.h"
#include "command/job/mpi_meet.h"
#include "command/output/stop.h"
#include "telegrad/mpi.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static double timeout_s; /* of all meetings */

static const char *started(const struct net_options *net)
{
    int rank, told;
    (void)net;
    return launch_under_mpi(&rank, &told) ? "under mpirun" : NULL;
}

/* mpirun can start several: "mpirun -n 1 telegrad train : -n 1 telegrad compare". */
static tg_status check_command(const char *command, int rank, int size)
{
    char own[JOB_COMMAND] = "", (*all)[JOB_COMMAND] = malloc((size_t)size * sizeof *all);
    if (!all)
        return tg_fail(TG_E_NOMEM, "out of memory: commands of %d ranks", size);
    snprintf(own, sizeof own, "%s", command);
    tg_status status = TG_OK;
    if (MPI_Allgather(own, sizeof own, MPI_CHAR, all, sizeof own, MPI_CHAR, MPI_COMM_WORLD) !=
        MPI_SUCCESS)
        status = tg_fail(TG_E_PEER, "MPI did not start");
    for (int r = 0; r < size && status == TG_OK; r++)
        if (strcmp(own, all[r]) != 0)
            status = tg_fail(TG_E_MISMATCH,
                             "ranks were started differently: rank %d for \"%s\", rank %d for "
                             "\"%s\"",
                             rank, own, r, all[r]);
    free(all);
    return status;
}

static tg_status open_job(const struct job_call *call, int *rank_p, int *size_p)
{
    int provided, rank, size, first, told = 0;
    (void)launch_under_mpi(&first, &told);
    /* The session starts a communication thread only if MPI provides this level. */
    if (MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &provided) != MPI_SUCCESS ||
        MPI_Comm_rank(MPI_COMM_WORLD, &rank) != MPI_SUCCESS ||
        MPI_Comm_size(MPI_COMM_WORLD, &size) != MPI_SUCCESS)
        return tg_fail(TG_E_PEER, "MPI did not start");
    if (size == 1 && told > 1)
        return tg_fail(TG_E_UNSUPPORTED,
                       "started as rank %d of %d, but MPI finds this process alone: mpirun, or "
                       "srun --mpi, is not that of the MPI which telegrad was built with",
                       first, told);
    stop_install(rank == 0); /* waiting for others may take long */
    timeout_s = call->timeout_s;
    TG_TRY(mpi_meet(MPI_MEET_TO_START, timeout_s));
    TG_TRY(check_command(call->command, rank, size));
    *rank_p = rank;
    *size_p = size;
    return TG_OK;
}

static void close_job(tg_status status)
{
    (void)status;
    (void)MPI_Finalize();
}

static tg_status connect_job(tg_transport **t_p)
{
    TG_TRY(mpi_meet(MPI_MEET_TO_CONNECT, timeout_s));
    return tg_transport_mpi(MPI_COMM_WORLD, t_p);
}

static tg_status find_nodes(int *nodes)
{
    TG_TRY(mpi_meet(MPI_MEET_FOR_NODES, timeout_s));
    return tg_transport_mpi_nodes(MPI_COMM_WORLD, nodes);
}

static void abort_job(int exit_status)
{
    int initialized = 0;
    (void)MPI_Initialized(&initialized);
    if (initialized)
        (void)MPI_Abort(MPI_COMM_WORLD, exit_status);
    _Exit(exit_status);
}

/* Anything after the version, behind a comma or on further lines, is about packages and
 * builders. */
static void version(char *text, size_t room)
{
    char all[MPI_MAX_LIBRARY_VERSION_STRING];
    int len;
    if (MPI_Get_library_version(all, &len) != MPI_SUCCESS)
        len = 0;
    all[len] = '\0';
    snprintf(text, room, "%.*s", (int)strcspn(all, ",\n"), all);
}

const struct job_transport job_transport_mpi = {.name = "mpi",
                                                .about = "processes that mpirun or srun started",
                                                .requires = "mpirun or srun --mpi, which start its "
                                                            "processes: mpirun -n N telegrad ...",
                                                .count = "mpirun -n N or srun -n N",
                                                .started = started,
                                                .open = open_job,
                                                .close = close_job,
                                                .connect = connect_job,
                                                .nodes = find_nodes,
                                                .abort = abort_job,
                                                .version = version};
