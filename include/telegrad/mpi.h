/* telegrad/mpi.h - the MPI transport (libtelegrad-mpi). The core library needs no MPI. */
#ifndef TELEGRAD_MPI_H
#define TELEGRAD_MPI_H

#include <mpi.h>
#include "telegrad/transport.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Ranks and size are those of comm, which is duplicated (collective call). MPI must be initialised;
 * with MPI_THREAD_MULTIPLE the session may use its communication thread, with less it runs inline.
 * MPI cannot cancel sends: after `shut` posted buffers live until the process ends. A rank that
 * shuts tells the others, who then get TG_E_PEER; one that dies cannot. Messages have at most 2^31
 * - 1 bytes (TG_E_ARG). Errors TG_E_ARG, TG_E_STATE (MPI not initialised or already finalised),
 * TG_E_NOMEM, TG_E_PEER, TG_E_UNSUPPORTED (an MPI with tags of less than 26 bits) */
TG_API TG_NODISCARD tg_status tg_transport_mpi(MPI_Comm comm, tg_transport **t_p);

/* Which node each rank of comm is of: nodes (size of comm) gets the lowest rank of those that share
 * memory with it, for tg_session_config.nodes. Collective call: all ranks get the same. Errors
 * TG_E_ARG, TG_E_STATE, TG_E_PEER */
TG_API TG_NODISCARD tg_status tg_transport_mpi_nodes(MPI_Comm comm, int *nodes);

#ifdef __cplusplus
}
#endif
#endif
