/* The text of --help on standard output: as wide as the terminal or COLUMNS says, from 40 to 100
 * columns; 80 if neither says. */
#ifndef TG_CLI_HELP_TEXT_H
#define TG_CLI_HELP_TEXT_H

#include "command/help/command.h"

/* Returns CLI_OK or CLI_FAILED. */
int help_text(const struct cli_command *command);

/* That of telegrad itself, which lists `commands` (ends with NULL). */
int help_text_main(const struct cli_command *const *commands);

#endif
