/* Options of runs by simulated time, and of links that differ. */
#ifndef TG_CLI_CLOCK_OPTIONS_H
#define TG_CLI_CLOCK_OPTIONS_H

#include "command/job/options.h"

/* What --tau may be of a run. */
#define CLOCK_OPTIONS_TIME "a time as 150ms (above 0, up to 3600s)"
#define CLOCK_OPTIONS_TAU                   \
    "measured, " CLOCK_OPTIONS_TIME ", or " \
    "a FILE of records that train --clock virtual --out wrote"

/* Take over a value (borrowed) of --tau, --jitter; add one of --slow, --link-of.
 * Errors TG_E_SPEC: names the value and what is allowed */
TG_NODISCARD tg_status clock_options_tau(struct run_options *o, const char *value);
TG_NODISCARD tg_status clock_options_jitter(struct run_options *o, const char *value);
TG_NODISCARD tg_status clock_options_slow(struct run_options *o, const char *value);
TG_NODISCARD tg_status clock_options_link_of(struct run_options *o, const char *value);

#endif
