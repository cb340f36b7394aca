/* Chooses what the command line leaves open about the optimizer of a run, and collects the notes to
 * print before the run. */
#ifndef TG_CLI_RUN_DEFAULTS_H
#define TG_CLI_RUN_DEFAULTS_H

#include "command/job/options.h"

/* Fill o->settled, once all options are set. The default optimizer is the one that the strategy
 * needs, else that of the rate hint of the method (with ssgd) or of the strategy
 * (tg_registry_rate_hint), else OPT_OPTIMIZER. An optimizer of the same name takes its values for
 * the keys that were not given, except that a momentum given in the method (dgc:momentum=0.5) takes
 * precedence. Errors TG_E_SPEC */
TG_NODISCARD tg_status run_defaults_settle(struct run_options *o);

#endif
