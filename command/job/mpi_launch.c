#include "command/job/mpi_launch.h"
#include "telegrad/mpi.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

tg_status mpi_launch_open(int *rank_p, int *size_p)
{
    int provided, rank, size;
    /* The session starts a communication thread only if MPI provides this level. */
    if (MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &provided) != MPI_SUCCESS ||
        MPI_Comm_rank(MPI_COMM_WORLD, &rank) != MPI_SUCCESS ||
        MPI_Comm_size(MPI_COMM_WORLD, &size) != MPI_SUCCESS)
        return tg_fail(TG_E_PEER, "MPI did not start");
    *rank_p = rank;
    *size_p = size;
    return TG_OK;
}

void mpi_launch_close(void)
{
    (void)MPI_Finalize();
}

tg_status mpi_launch_transport(tg_transport **t_p)
{
    return tg_transport_mpi(MPI_COMM_WORLD, t_p);
}

tg_status mpi_launch_nodes(int *nodes)
{
    return tg_transport_mpi_nodes(MPI_COMM_WORLD, nodes);
}

void mpi_launch_abort(int exit_status)
{
    (void)MPI_Abort(MPI_COMM_WORLD, exit_status);
    _Exit(exit_status);
}

/* Anything after the version, behind a comma or on further lines, is about packages and
 * builders. */
void mpi_launch_version(char *text, size_t room)
{
    char all[MPI_MAX_LIBRARY_VERSION_STRING];
    int len;
    if (MPI_Get_library_version(all, &len) != MPI_SUCCESS)
        len = 0;
    all[len] = '\0';
    snprintf(text, room, "%.*s", (int)strcspn(all, ",\n"), all);
}
