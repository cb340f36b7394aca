/* Print scripts that complete telegrad's commands, options and values to standard output. The
 * scripts call `telegrad help --names KIND` for names of the registry. `commands` ends with
 * NULL. */
#ifndef TG_CLI_HELP_COMPLETION_H
#define TG_CLI_HELP_COMPLETION_H

#include "command/help/command.h"

void help_completion_bash(const struct cli_command *const *commands);
void help_completion_zsh(const struct cli_command *const *commands);

#endif
