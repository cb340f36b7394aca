/* SIGINT and SIGTERM: the first asks the run to end after its step, the second ends the process. */
#ifndef TG_CLI_STOP_H
#define TG_CLI_STOP_H

#include <signal.h>

/* 0, or the signal that came to this process; after a run that another rank's signal ended, that.
 */
extern volatile sig_atomic_t stop_signal;

void stop_install(void);
/* Where there is nothing to finish: the first signal ends the process. */
void stop_install_at_once(void);

/* Remove this file (copied; at most PATH_MAX bytes) if a signal ends the process; NULL:
 * none. */
void stop_guard_file(const char *path);

/* The exit status of an interrupted run: 128 + the signal. */
int stop_exit_status(void);

/* "SIGINT" or "SIGTERM": which of them ended it. */
const char *stop_signal_name(void);

#endif
