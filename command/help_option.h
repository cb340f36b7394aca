/* The outputs of `telegrad help` for installation and completion:
 *   telegrad help --completion bash|zsh    a script of the shell
 *   telegrad help --man                    the manual page
 *   telegrad help --names KIND             names of a registry, one per line */
#ifndef TG_CLI_HELP_OPTION_H
#define TG_CLI_HELP_OPTION_H

#include "command/help/command.h"

/* Whether the word is one of these options. */
bool help_option_is(const char *word);

/* Run the option in argv[0] (argc arguments). commands ends with NULL. Prints errors; returns an
 * exit status. */
int help_option(const struct cli_command *const *commands, int argc, char **argv);

#endif
