/* Which ranks share a machine, according to MPI. */
#include "telegrad/mpi.h"
#include "base/arg.h"
#include "transport/mpi_impl.h"

static int find_nodes(MPI_Comm comm, MPI_Comm *node, int *nodes)
{
    int rank, lowest;
    int error = MPI_Comm_rank(comm, &rank);
    if (error == MPI_SUCCESS)
        error = MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, node);
    if (error == MPI_SUCCESS)
        error = MPI_Allreduce(&rank, &lowest, 1, MPI_INT, MPI_MIN, *node);
    if (error == MPI_SUCCESS)
        error = MPI_Allgather(&lowest, 1, MPI_INT, nodes, 1, MPI_INT, comm);
    return error;
}

tg_status tg_transport_mpi_nodes(MPI_Comm comm, int *nodes)
{
    TG__ARG(nodes);
    MPI_Comm node = MPI_COMM_NULL;
    if (comm == MPI_COMM_NULL)
        return tg_fail(TG_E_ARG, "tg_transport_mpi_nodes: comm is MPI_COMM_NULL");
    if (!tg__mpi_is_up())
        return tg_fail(TG_E_STATE,
                       "tg_transport_mpi_nodes: MPI is not initialised, or finalised already");
    TG_TRY(tg__mpi_await_all(comm));
    const int error = find_nodes(comm, &node, nodes);
    if (node != MPI_COMM_NULL)
        (void)MPI_Comm_free(&node);
    return error == MPI_SUCCESS
               ? TG_OK
               : tg_fail(TG_E_PEER, "tg_transport_mpi_nodes: MPI failed with error %d", error);
}
