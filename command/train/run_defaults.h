/* The optimizer of a run, as far as the command line leaves it open, and what is to be said of it
 * before the run. */
#ifndef TG_CLI_RUN_DEFAULTS_H
#define TG_CLI_RUN_DEFAULTS_H

#include "command/job/options.h"

/* Fill o->settled, once all options are set. The default is that of the strategy, that of the
 * method's rate hint (beside ssgd) or the strategy's (tg_registry_rate_hint), or OPT_OPTIMIZER. An
 * optimizer of the same name has its values for those keys that were not given; but the momentum is
 * that of a method which names its own (dgc:momentum=0.5), as there is one. Errors TG_E_SPEC */
TG_NODISCARD tg_status run_defaults_settle(struct run_options *o);

#endif
