/* What a checkpoint has settled for the run that goes on from it: warm-ups that the command line
 * leaves open stay as they were when that run began. */
#ifndef TG_CLI_RESUMED_SPECS_H
#define TG_CLI_RESUMED_SPECS_H

#include "command/job/options.h"

struct resumed_specs {
    uint64_t step;
    char *method, *strategy; /* of the options, with the checkpoint's warm-ups; owned */
};

/* Of the newest checkpoint in o->resume_dir; not of the methods of rules, which it does not tell.
 * Errors  TG_E_MISMATCH (it has another method or strategy), those of tg_weights_open_newest */
TG_NODISCARD tg_status resumed_specs_read(const struct run_options *o, struct resumed_specs *r_p);
void resumed_specs_free(struct resumed_specs *r);

#endif
