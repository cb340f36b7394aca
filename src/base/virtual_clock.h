/* Waiting on a clock (see virtual time in telegrad/clock.h). These functions take any clock; on one
 * that is not virtual they are plain pthread calls. */
#ifndef TG_BASE_VIRTUAL_CLOCK_H
#define TG_BASE_VIRTUAL_CLOCK_H

#include "telegrad/clock.h"
#include <pthread.h>

#define TG__NEVER INT64_MAX

typedef enum tg__waited {
    TG__WOKEN,     /* possibly spuriously: check the condition again */
    TG__TIMED_OUT, /* when_ns has been reached */
    TG__STUCK      /* all members wait without a deadline; or the caller is not a member */
} tg__waited;

/* Wait on cond, with the mutex held, until tg__clock_signal or until the clock reaches when_ns.
 * cond  initialised by tg__cond_init */
tg__waited tg__clock_wait(const tg_clock *clock, pthread_cond_t *cond, pthread_mutex_t *mutex,
                          int64_t when_ns);
/* Wake all threads that wait on cond. Time stands still until they have run. May be called from any
 * thread. */
void tg__clock_signal(const tg_clock *clock, pthread_cond_t *cond);
/* Whether a clock of the caller's can be used; `what` names it in messages.
 * Errors  TG_E_ARG: struct_size, a missing function */
TG_NODISCARD tg_status tg__clock_check(const char *what, const tg_clock *clock);
/* Fail with TG_E_STATE and a text for TG__STUCK. */
TG_NODISCARD tg_status tg__clock_stuck(void);

#endif
