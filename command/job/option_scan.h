/* Finds arguments that look like options but are not, before argp sees them, so that the message
 * can suggest what was meant. */
#ifndef TG_CLI_OPTION_SCAN_H
#define TG_CLI_OPTION_SCAN_H

#include <argp.h>
#include "telegrad/base.h"

#define OPTION_SCAN_REPEATABLE 1 /* an argp_option's group */

/* Check the arguments argv (argc) up to "--" or an option that asks for help. Every argument that
 * begins with "-" must be an option of `parser` or its children, or an unambiguous abbreviation of
 * a long one. Options that take a value must have one; long options that take none must have none.
 * An option with a value may be given once, unless its group is OPTION_SCAN_REPEATABLE. Errors
 * TG_E_SPEC */
TG_NODISCARD tg_status option_scan(const struct argp *parser, const char *command, int argc,
                                   char **argv);

/* Fail because `word` is not an option, and the command takes only options. Errors TG_E_SPEC,
 * always */
TG_NODISCARD tg_status option_scan_surplus(const struct argp *parser, const char *command,
                                           const char *word);

#endif
