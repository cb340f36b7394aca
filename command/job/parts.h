/* Commands with parts, such as `telegrad bench codec`. */
#ifndef TG_CLI_PARTS_H
#define TG_CLI_PARTS_H

#include "command/help/command.h"

/* Run the part that argv[1] names, or print the help that it asks for. Returns an exit status. */
int parts_run(const struct cli_command *command, int argc, char **argv);

#endif
