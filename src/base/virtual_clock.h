/* Waiting on a clock: see the virtual one of telegrad/clock.h. These functions take any clock: on
 * one that is not virtual they are plain pthread. */
#ifndef TG_BASE_VIRTUAL_CLOCK_H
#define TG_BASE_VIRTUAL_CLOCK_H

#include "telegrad/clock.h"
#include <pthread.h>

#define TG__NEVER INT64_MAX

typedef enum tg__waited {
    TG__WOKEN,     /* maybe for nothing: look again */
    TG__TIMED_OUT, /* it is when_ns */
    TG__STUCK      /* all members wait, none with a deadline; or the caller is no member */
} tg__waited;

/* Wait on cond, made by tg__cond_init (mutex held), until tg__clock_signal or until the clock
 * reaches when_ns. */
tg__waited tg__clock_wait(const tg_clock *clock, pthread_cond_t *cond, pthread_mutex_t *mutex,
                          int64_t when_ns);
/* Wake all that wait on cond: time does not go on before they have run. Any thread. */
void tg__clock_signal(const tg_clock *clock, pthread_cond_t *cond);
/* TG_E_STATE, and the text that says what TG__STUCK means. */
TG_NODISCARD tg_status tg__clock_stuck(void);

#endif
