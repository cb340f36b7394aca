/* What `telegrad help` prints for installations and for completion:
 *   telegrad help --completion bash|zsh    a script of the shell
 *   telegrad help --man                    the manual page
 *   telegrad help --names KIND             names of a registry, a line each */
#ifndef TG_CLI_HELP_OPTION_H
#define TG_CLI_HELP_OPTION_H

#include "command/help/command.h"

/* Whether this is one of these options. */
bool help_option_is(const char *word);

/* argv (argc) begins with it. commands ends with NULL. Returns an exit status; prints what is wrong. */
int help_option(const struct cli_command *const *commands, int argc, char **argv);

#endif
