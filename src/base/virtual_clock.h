/* Waiting on a clock (see virtual time in telegrad/clock.h). These functions accept any clock; for
 * clocks that are not virtual they are plain pthread calls. */
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
/* Wake all threads that wait on cond. Virtual time does not advance until they have run. May be
 * called from any thread. */
void tg__clock_signal(const tg_clock *clock, pthread_cond_t *cond);
/* Check that a clock supplied by the caller can be used; `what` names it in messages.
 * Errors  TG_E_ARG: struct_size, a missing function */
TG_NODISCARD tg_status tg__clock_check(const char *what, const tg_clock *clock);
/* Fail with TG_E_STATE and the text for TG__STUCK. */
TG_NODISCARD tg_status tg__clock_stuck(void);

#endif
