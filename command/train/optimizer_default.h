/* The optimizer of a run, where the command line leaves it open. */
#ifndef TG_CLI_OPTIMIZER_DEFAULT_H
#define TG_CLI_OPTIMIZER_DEFAULT_H

#include "command/job/options.h"

/* Fill o->settled.optimizer, and add notes about it. The default is, in this order,
 *
 *   - what the strategy needs (tg_registry_strategy_optimizer),
 *   - what the rate hint of the method (with ssgd) or of the strategy asks for
 *     (tg_registry_rate_hint),
 *   - OPT_OPTIMIZER, if the method or that of a rule accumulates SGD's momentum itself, the
 *     strategy takes local steps of SGD at the optimizer's rate, or servers elsewhere make the
 *     steps,
 *   - the usual one of the model (model_usual_optimizer),
 *   - OPT_OPTIMIZER.
 *
 * An optimizer of the same name takes its values for the keys that were not given, and one named
 * sgd otherwise those of OPT_OPTIMIZER, except that a momentum given in the method
 * (dgc:momentum=0.5) takes precedence. Errors TG_E_SPEC */
TG_NODISCARD tg_status optimizer_default_settle(struct run_options *o);

#endif
