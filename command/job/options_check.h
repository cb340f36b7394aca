/* What the options of a run must fulfil together, before any work is done. */
#ifndef TG_CLI_OPTIONS_CHECK_H
#define TG_CLI_OPTIONS_CHECK_H

#include "command/job/options.h"

/* Also what only a session finds out about method, strategy and optimizer.
 * mpi      this process is a rank of an MPI job
 * Errors   TG_E_SPEC, TG_E_NOMEM, TG_E_UNSUPPORTED */
TG_NODISCARD tg_status options_check(const struct run_options *o, bool mpi);

/* That one option at most says how long runs are. Not for a run of several, whose own steps take
 * the place of common epochs. Errors TG_E_SPEC */
TG_NODISCARD tg_status options_check_length(const struct run_options *o);

#endif
