/* Options for runs in simulated time, and for links that differ between ranks. */
#ifndef TG_CLI_CLOCK_OPTIONS_H
#define TG_CLI_CLOCK_OPTIONS_H

#include "command/job/options.h"
#include "command/job/transports.h"

/* The times that --tau accepts, for messages. */
#define CLOCK_OPTIONS_TIME "a time such as 150ms (above 0, up to 3600s)"
#define CLOCK_OPTIONS_TAU                   \
    "measured, " CLOCK_OPTIONS_TIME ", or " \
    "a FILE of records that train --clock virtual --out wrote"

/* Set --tau or --jitter, or add a --slow or --link-of. The value is borrowed.
 * Errors TG_E_SPEC: the message names the value and what is allowed */
TG_NODISCARD tg_status clock_options_tau(struct run_options *o, const char *value);
TG_NODISCARD tg_status clock_options_jitter(struct run_options *o, const char *value);
TG_NODISCARD tg_status clock_options_slow(struct run_options *o, const char *value);
TG_NODISCARD tg_status clock_options_link_of(struct run_options *o, const char *value);

/* Append the links of a run, if it has some, to what ranks must agree on before they can talk. */
void clock_options_tell_links(const struct run_options *o, char command[JOB_COMMAND]);

#endif
