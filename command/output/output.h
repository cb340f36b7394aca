/* Standard output: one place that knows whether what was printed arrived, and why not. By the main
 * thread. */
#ifndef TG_CLI_OUTPUT_H
#define TG_CLI_OUTPUT_H

#include "command/output/table.h"
#include "telegrad/base.h"

/* First of all: from here on stdout remembers why its first write failed. */
void output_open(void);

/* Send off what was printed. Errors TG_E_IO, for good: "cannot write to standard output: ..." */
TG_NODISCARD tg_status output_flush(void);

/* Print the rows that were not printed yet, and send them off. Errors TG_E_IO, TG_E_NOMEM */
TG_NODISCARD tg_status output_table(struct table *t);

/* At the end of the command: its exit status, or CLI_FAILED if it is CLI_OK and what was printed
 * did not arrive, which is said unless an error was said already. */
int output_end(int exit_status);

#endif
