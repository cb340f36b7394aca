/* Print the manual page telegrad(1) to standard output, with a section for each of `commands` (ends
 * with NULL). */
#ifndef TG_CLI_HELP_MAN_H
#define TG_CLI_HELP_MAN_H

#include "command/help/command.h"

void help_man(const struct cli_command *const *commands);

#endif
