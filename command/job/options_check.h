/* Checks, before any work is done, that the options of a run fit together. */
#ifndef TG_CLI_OPTIONS_CHECK_H
#define TG_CLI_OPTIONS_CHECK_H

#include "command/job/options.h"

/* Check all options, including what only a session finds out about method, strategy and optimizer.
 * Errors   TG_E_SPEC, TG_E_NOMEM, TG_E_UNSUPPORTED */
TG_NODISCARD tg_status options_check(const struct run_options *o);

/* Check that only one option sets the length of runs. Not for the runs of compare, whose own steps
 * replace common epochs. Errors TG_E_SPEC */
TG_NODISCARD tg_status options_check_length(const struct run_options *o);

#endif
