/* The learning rates that suit methods and strategies (tg_rate_hint), as multiples of the rate of
 * OPT_OPTIMIZER. */
#ifndef TG_CLI_RATE_HINTS_H
#define TG_CLI_RATE_HINTS_H

#include "command/job/options.h"
#include "telegrad/registry.h"

/* The method or strategy that sets the rate of the run if none is given; hint NULL: none does. */
typedef struct rate_wish {
    const tg_rate_hint *hint;
    tg_kind kind;
    const char *spec; /* name or spec string that the hint belongs to */
} rate_wish;

rate_wish rate_wish_of(const struct run_options *o);

/* The optimizer that a hint asks for, by the name of OPT_OPTIMIZER, whose rate is `rate`. */
void rate_hint_optimizer(const tg_rate_hint *hint, double rate, char text[64]);

/* Whether all that a strategy exchanges is dense, so that it never uses the method.
 * Errors TG_E_SPEC */
TG_NODISCARD tg_status rate_hint_is_dense(const char *strategy, bool *dense_p);

/* Add warnings to o->settled, once its optimizer is settled: about the method, and those of rules,
 * at a rate for which they are not known to learn; about strategies and methods that learn worse at
 * their defaults, whatever the rate. Errors TG_E_SPEC */
TG_NODISCARD tg_status rate_hints_check(struct run_options *o);

#endif
