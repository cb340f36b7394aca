/* stderr: errors, the library's messages, and the status line of a terminal. A mutex protects all
 * of it; every function may be called from any thread. */
#ifndef TG_CLI_CONSOLE_H
#define TG_CLI_CONSOLE_H

#include <stdbool.h>
#include "telegrad/base.h"

/* Whether stderr is a terminal. A status line is shown only there, remarks also with --verbose. */
bool console_terminal(void);

/* Columns of that terminal; 80 if unknown. */
int console_columns(void);

/* The width for a table on standard output: the environment's COLUMNS (1 to 10000; at least 20 are
 * taken), else that of the terminal; 0 (no limit) if it is not a terminal. */
int console_out_columns(void);

/* From now on print only errors and console_say: ranks other than 0 of an MPI job. */
void console_quiet(void);

/* From now on print only errors: --quiet. */
void console_silent(void);

/* From now on print remarks and information even if stderr is no terminal, unless quiet:
 * --verbose. */
void console_verbose(void);

/* From now on delay errors by two seconds (or stop doing so). All processes of an MPI job find the
 * same mistake in their arguments, and the first to print it ends the others. */
void console_errors_wait(bool wait);

/* Whether an error has been printed. */
bool console_has_spoken(void);

/* Print "telegrad: MESSAGE" to stderr, in any case. */
void console_error(const char *format, ...) TG_PRINTF(1, 2);

/* Print "telegrad: MESSAGE" or "telegrad: warning: MESSAGE" to stderr, unless quiet. */
void console_note(const char *format, ...) TG_PRINTF(1, 2);
void console_warning(const char *format, ...) TG_PRINTF(1, 2);

/* Print "telegrad: MESSAGE" to stderr on any rank, quiet or not, but not when silent: for what
 * other ranks cannot know. */
void console_say(const char *format, ...) TG_PRINTF(1, 2);

/* Print a remark for a person: on terminals, or with --verbose. */
void console_remark(const char *format, ...) TG_PRINTF(1, 2);

/* Replace the status line by `line` (terminals only); "" removes it. */
void console_status(const char *line);

/* Print the library's log here: warnings always, information where remarks are shown, a repeated
 * message once. */
void console_take_log(void);

#endif
