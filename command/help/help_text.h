/* Print the text of --help to standard output. The width is that of the terminal or of COLUMNS,
 * from 40 to 100 columns; 80 if both are unknown. */
#ifndef TG_CLI_HELP_TEXT_H
#define TG_CLI_HELP_TEXT_H

#include "command/help/command.h"

/* Returns CLI_OK or CLI_FAILED. */
int help_text(const struct cli_command *command);

/* Print the help of telegrad itself, which lists `commands` (ends with NULL). */
int help_text_main(const struct cli_command *const *commands, const char *example);

#endif
