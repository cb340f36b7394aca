/* Arguments that look like options and are none: found before argp sees them, so that the message
 * can say which one was meant. */
#ifndef TG_CLI_OPTION_SCAN_H
#define TG_CLI_OPTION_SCAN_H

#include <argp.h>
#include "telegrad/base.h"

/* Every argument of argv (argc) up to "--" or a call for help that begins with "-" has to be an
 * option of `parser` or its children, or the beginning of a long one's name. Errors TG_E_SPEC */
TG_NODISCARD tg_status option_scan(const struct argp *parser, const char *command, int argc,
                                   char **argv);

#endif
