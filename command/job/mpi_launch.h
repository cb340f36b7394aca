/* All MPI calls of the command. Compiled only if MPI was found (HAVE_MPI). */
#ifndef TG_CLI_MPI_LAUNCH_H
#define TG_CLI_MPI_LAUNCH_H

#include "telegrad/transport.h"

/* Errors TG_E_PEER (MPI_Init failed) */
TG_NODISCARD tg_status mpi_launch_open(int *rank_p, int *size_p);
void mpi_launch_close(void);

/* Create a transport over all processes of the job (collective call). */
TG_NODISCARD tg_status mpi_launch_transport(tg_transport **t_p);

/* Find the machine of each process: nodes (size of the job), in the form that session.h expects
 * (collective call). */
TG_NODISCARD tg_status mpi_launch_nodes(int *nodes);

/* End all processes of the job with this exit status. */
_Noreturn void mpi_launch_abort(int exit_status);

/* "Open MPI v4.1.4", cut to room. May be called before mpi_launch_open. */
void mpi_launch_version(char *text, size_t room);

#endif
