/* What a checkpoint sets for the run that resumes it: warm-ups that are not given on the command
 * line stay as they were when the first run began. */
#ifndef TG_CLI_RESUMED_SPECS_H
#define TG_CLI_RESUMED_SPECS_H

#include "command/job/options.h"

struct resumed_specs {
    uint64_t step;
    char *method, *strategy; /* as in the options, with the checkpoint's warm-ups; owned */
};

/* Read them from the newest checkpoint in o->resume_dir. It does not contain the warm-ups of rules.
 * Errors  TG_E_MISMATCH (it has another method or strategy), those of tg_weights_open_saved */
TG_NODISCARD tg_status resumed_specs_read(const struct run_options *o, struct resumed_specs *r_p);
void resumed_specs_free(struct resumed_specs *r);

#endif
