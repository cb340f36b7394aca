/* stderr: errors, the library's messages, and the status line of a terminal. One mutex around all
 * of it; every function may be called from any thread. */
#ifndef TG_CLI_CONSOLE_H
#define TG_CLI_CONSOLE_H

#include <stdbool.h>
#include "telegrad/base.h"

/* Whether stderr is a terminal; only then a status line and remarks are shown. */
bool console_terminal(void);

/* Columns of that terminal; 80 if it does not say. */
int console_columns(void);

/* Columns to print a table of on standard output: the environment's COLUMNS (20 to 10000), else
 * those of its terminal; 0, no limit: it is none. */
int console_out_columns(void);

/* No message but errors, and what console_say says, from here on: ranks other than 0 of an MPI job.
 */
void console_quiet(void);

/* No message but errors from here on: --quiet. */
void console_silent(void);

/* Remarks and information from here on although stderr is no terminal, unless quiet: --verbose. */
void console_verbose(void);

/* Errors wait two seconds from here on (or no more): all processes of an MPI job find the same
 * mistake in their arguments, and the first to speak ends the others. */
void console_errors_wait(bool wait);

/* Whether an error was printed. */
bool console_has_spoken(void);

/* "telegrad: MESSAGE" on stderr, whatever it is. */
void console_error(const char *format, ...) TG_PRINTF(1, 2);

/* "telegrad: MESSAGE" and "telegrad: warning: MESSAGE" on stderr, whatever it is, unless quiet. */
void console_note(const char *format, ...) TG_PRINTF(1, 2);
void console_warning(const char *format, ...) TG_PRINTF(1, 2);

/* "telegrad: MESSAGE" on stderr, of any rank, quiet or not, but not silent: what another rank
 * cannot know. */
void console_say(const char *format, ...) TG_PRINTF(1, 2);

/* A remark that only a person wants: on terminals, or with --verbose. */
void console_remark(const char *format, ...) TG_PRINTF(1, 2);

/* Draw `line` over the last status line (terminals only); "" removes it. */
void console_status(const char *line);

/* Send the library's log here: warnings always, information where remarks are shown, a repeated
 * message once. */
void console_take_log(void);

#endif
