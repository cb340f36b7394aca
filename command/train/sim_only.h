/* train and compare --sim-only: predicts how long training would take. Nothing is computed or
 * sent. */
#ifndef TG_CLI_SIM_ONLY_H
#define TG_CLI_SIM_ONLY_H

#include "command/train/records.h"

/* Print the figures and write o->out. *exit_status_p is set if the run was interrupted; what was
 * simulated until then is written. Data are opened only if the number of samples is not known
 * otherwise.
 * Errors those of the simulation and of the records; TG_E_IO (no data, and no --steps) */
TG_NODISCARD tg_status sim_only(const struct launch *l, const struct run_options *o,
                                int *exit_status_p);

struct sim_only_data {
    const char *name;
    size_t samples; /* images or tokens to train on; 0: unknown, and --steps is given */
};

/* Errors as above, for the data */
TG_NODISCARD tg_status sim_only_find(const struct run_options *o, struct sim_only_data *data_p);
/* Simulate one run of several and write only its records. *result_p is set on success only; release
 * it with run_result_free. Errors those of the simulation and of the records */
TG_NODISCARD tg_status sim_only_run(const struct run_about *about, const struct sim_only_data *data,
                                    struct records *records, struct run_result *result_p);

#endif
