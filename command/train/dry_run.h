/* telegrad train --dry-run */
#ifndef TG_CLI_DRY_RUN_H
#define TG_CLI_DRY_RUN_H

#include "command/job/launch.h"
#include "command/job/options.h"

/* Print how each tensor would be exchanged and at what cost, and what the run would choose: a table
 * followed by lines, or one JSON object.
 * Errors those of train_plan, TG_E_IO */
TG_NODISCARD tg_status dry_run(const struct launch *l, const struct run_options *o);

#endif
