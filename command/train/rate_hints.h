/* What methods and strategies say of the learning rate that they learn with (tg_rate_hint), as the
 * command takes it: multiples of the rate of OPT_OPTIMIZER. */
#ifndef TG_CLI_RATE_HINTS_H
#define TG_CLI_RATE_HINTS_H

#include "command/job/options.h"
#include "telegrad/registry.h"

/* Whose rate the run has where none is given; hint NULL: nobody's. */
typedef struct rate_wish {
    const tg_rate_hint *hint;
    tg_kind kind;
    const char *spec; /* what hint is of, a name or a spec string */
} rate_wish;

rate_wish rate_wish_of(const struct run_options *o);

/* The optimizer that a hint wishes for, with the name of OPT_OPTIMIZER. rate: of that */
void rate_hint_optimizer(const tg_rate_hint *hint, double rate, char text[64]);

/* Warnings into o->settled, once its optimizer is settled: of the method and of those of rules, at
 * a rate with which they are not known to learn; of strategies and methods that learn worse at
 * their defaults whatever the rate. Errors TG_E_SPEC */
TG_NODISCARD tg_status rate_hints_check(struct run_options *o);

#endif
