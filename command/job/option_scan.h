/* Arguments that look like options and are none: found before argp sees them, so that the message
 * can say which one was meant. */
#ifndef TG_CLI_OPTION_SCAN_H
#define TG_CLI_OPTION_SCAN_H

#include <argp.h>
#include "telegrad/base.h"

/* Every argument of argv (argc) up to "--" or a call for help that begins with "-" has to be an
 * option of `parser` or its children, or the beginning of one long option's name. Each that takes a
 * value has one, and a long one that takes none has none. Errors TG_E_SPEC */
TG_NODISCARD tg_status option_scan(const struct argp *parser, const char *command, int argc,
                                   char **argv);

/* That word, which is no option, is of no use to a command that takes options only. Always fails.
 * Errors TG_E_SPEC */
TG_NODISCARD tg_status option_scan_surplus(const struct argp *parser, const char *command,
                                           const char *word);

#endif
