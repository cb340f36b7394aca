/* What the run's method and strategy are known to lose compared with dense training. */
#ifndef TG_CLI_LOSS_NOTES_H
#define TG_CLI_LOSS_NOTES_H

#include "command/job/options.h"

/* Add warnings to o->settled, once its method and strategy are settled, if the table in
 * docs/results/defaults.md has a network like the run's in which they, or others that differ only
 * in a shorter delay, a higher density or a higher rank, lost more than seeds differ by.
 * Errors TG_E_SPEC */
TG_NODISCARD tg_status loss_notes_check(struct run_options *o);

#endif
