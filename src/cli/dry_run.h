/* telegrad train --dry-run */
#ifndef TG_CLI_DRY_RUN_H
#define TG_CLI_DRY_RUN_H

#include "cli/options.h"

/* Print how each tensor would be exchanged and what that costs, as a table or one JSON object.
 * Errors those of train_plan, TG_E_IO */
TG_NODISCARD tg_status dry_run(const struct run_options *o);

#endif
