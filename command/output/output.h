/* Standard output: the one place that knows whether the output arrived, and why not. Main thread
 * only. */
#ifndef TG_CLI_OUTPUT_H
#define TG_CLI_OUTPUT_H

#include "command/output/table.h"
#include "telegrad/base.h"

/* Call first: from then on stdout remembers why its first write failed. */
void output_open(void);

/* From now on a reader of standard output or standard error that goes away does not end this
 * process: writing fails, as on a full disk. */
void output_outlive_readers(void);

/* Flush the output. Errors TG_E_IO, permanently: "cannot write to standard output: ..." */
TG_NODISCARD tg_status output_flush(void);

/* Print the rows of the table that have not been printed yet, and flush. Errors TG_E_IO,
 * TG_E_NOMEM */
TG_NODISCARD tg_status output_table(struct table *t);

/* Returns the command's exit status at its end. If it is CLI_OK but the output did not arrive, the
 * result is CLI_FAILED, with a message unless an error was already printed. */
int output_end(int exit_status);

#endif
