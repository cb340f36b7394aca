/* SIGINT, SIGTERM and SIGHUP: the first asks the run to stop after its step, the second ends the
 * process. A SIGHUP that is ignored, or that has a handler already, stays so. */
#ifndef TG_CLI_STOP_H
#define TG_CLI_STOP_H

#include <signal.h>
#include <stdbool.h>

/* 0, or the signal that this process received; if another rank's signal ended the run, that one. */
extern volatile sig_atomic_t stop_signal;

/* speaks: this process says that a signal ended it */
void stop_install(bool speaks);
/* For commands with nothing to finish: the first signal ends the process. */
void stop_install_at_once(bool speaks);

/* What the first signal says, from its handler, if it has no effect of its own. A constant. */
void stop_say_first(const char *text);

/* Whether this process received a signal at least so many milliseconds ago. */
bool stop_came_before(long ms);

/* Remove this file if a signal ends the process. The name is copied, at most PATH_MAX bytes; NULL:
 * no file. */
void stop_guard_file(const char *path);

/* The exit status of an interrupted run: 128 + the signal. */
int stop_exit_status(void);

/* The rank whose signal ended the run; -1: this process's own. */
extern int stop_rank;

/* "interrupted by SIGINT" or, of another rank's signal, "rank 1 was interrupted by SIGINT". Stays
 * valid until the next call. */
const char *stop_words(void);

/* "SIGINT", "SIGTERM" or "SIGHUP", whichever ended the run. */
const char *stop_signal_name(void);

#endif
