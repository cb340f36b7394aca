/* train --sim-only: how long training would take, with nothing computed and nothing sent. */
#ifndef TG_CLI_SIM_ONLY_H
#define TG_CLI_SIM_ONLY_H

#include "cli/launch.h"

/* Prints the figures, and writes o->out. *exit_status_p is set if the run was interrupted: what was
 * played until then is written. Data are opened only where nothing else
 * says how many there are.
 * Errors those of the simulation and of the records; TG_E_IO (no data, and no --steps) */
TG_NODISCARD tg_status sim_only(const struct launch *l, const struct run_options *o,
                                int *exit_status_p);

#endif
