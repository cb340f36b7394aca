/* Chooses what the command line leaves open about the optimizer, method and strategy of a run, and
 * collects the notes to print before the run. */
#ifndef TG_CLI_RUN_DEFAULTS_H
#define TG_CLI_RUN_DEFAULTS_H

#include "command/job/options.h"

/* Fill o->settled, once all options are set. The optimizer: see optimizer_default.h.
 * Errors TG_E_SPEC */
TG_NODISCARD tg_status run_defaults_settle(struct run_options *o);

#endif
