/* telegrad/mpi.h - the MPI transport (libtelegrad-mpi). The core library needs no MPI. */
#ifndef TELEGRAD_MPI_H
#define TELEGRAD_MPI_H

#include <mpi.h>
#include "telegrad/transport.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Create a transport over an MPI communicator. All ranks of comm call it, and it waits for them
 * without limit, mostly asleep.
 * comm      duplicated; gives ranks and size. Not an intercommunicator. MPI must be initialised
 * Threads   with MPI_THREAD_MULTIPLE a session may use its communication thread; with a lower level
 *           it runs inline
 * Messages  at most 2^31 - 1 bytes (TG_E_ARG)
 * Failure   a rank that shuts or destroys the transport tells the others, and those that wait for
 *           it get TG_E_PEER; a rank that dies cannot tell them. MPI cannot cancel sends: after
 *           `shut` posted buffers stay in use until the process ends
 * Destroy   before MPI_Finalize, on every rank, in any order. A rank that finalises first leaves
 *           there: those that wait for it get TG_E_PEER, and its later calls fail with TG_E_STATE.
 *           A session's communication thread must be idle then.
 *           The duplicate of comm is freed when all ranks have destroyed theirs, by a later call on
 *           this rank or in MPI_Finalize, and never if a rank failed
 * Errors    TG_E_ARG, TG_E_STATE (MPI not initialised, or finalised), TG_E_NOMEM, TG_E_PEER,
 *           TG_E_UNSUPPORTED (an MPI whose tags have fewer than 26 bits) */
TG_API TG_NODISCARD tg_status tg_transport_mpi(MPI_Comm comm, tg_transport **t_p);

/* Find the node of each rank, for tg_session_config.nodes. All ranks of comm call it and get the
 * same. It waits for them like tg_transport_mpi.
 * nodes   [out] (size of comm) for each rank, the lowest rank that it shares memory with
 * Errors  TG_E_ARG, TG_E_STATE, TG_E_PEER */
TG_API TG_NODISCARD tg_status tg_transport_mpi_nodes(MPI_Comm comm, int *nodes);

#ifdef __cplusplus
}
#endif
#endif
