/* Waiting for all ranks of an MPI job before what MPI does with all of them, in which it would wait
 * without limit, deaf to signals, and with the processor busy. */
#ifndef TG_CLI_MPI_MEET_H
#define TG_CLI_MPI_MEET_H

#include "telegrad/base.h"

/* What ranks meet for. Those that come for different things were started differently. */
enum mpi_meet_for { MPI_MEET_TO_START, MPI_MEET_FOR_NODES, MPI_MEET_TO_CONNECT };

/* Wait until all ranks of MPI_COMM_WORLD have called this. Says whom it waits for after 10 seconds,
 * as a run does. Errors TG_E_STOPPED (a signal came), TG_E_PEER (a rank did not come within
 * timeout_s), TG_E_MISMATCH (a rank came for something else), TG_E_NOMEM. After an error the
 * process must end. */
TG_NODISCARD tg_status mpi_meet(enum mpi_meet_for what, double timeout_s);

#endif
