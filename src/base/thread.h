/* Thread helper: pthreads with the checks in one place. */
#ifndef TG_BASE_THREAD_H
#define TG_BASE_THREAD_H

#include "telegrad/base.h"
#include <pthread.h>
#include <signal.h>

/* What a thread of the library blocks: all signals, which are for the caller's threads, except
 * those for its own faults. A blocked one would kill the process without calling its handler
 * (sanitizers, crash reporters). */
static inline sigset_t tg__thread_signals(void)
{
    static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS};
    sigset_t blocked;
    sigfillset(&blocked);
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++)
        sigdelset(&blocked, faults[i]);
    return blocked;
}

/* Start a thread named `name` (at most 15 characters, shown by debuggers). It blocks
 * tg__thread_signals().
 * Errors  TG_E_NOMEM */
TG_NODISCARD tg_status tg__thread_start(const char *name, void *(*run)(void *), void *arg,
                                        pthread_t *thread_p);

/* A condition variable on CLOCK_MONOTONIC. */
TG_NODISCARD tg_status tg__cond_init(pthread_cond_t *cond);

/* Wait on cond (mutex held) until signalled or until tg_clock_monotonic() reaches when_ns. Returns
 * false on time-out. */
bool tg__cond_wait_until(pthread_cond_t *cond, pthread_mutex_t *mutex, int64_t when_ns);

#endif
