/* Virtual time: a clock that knows its threads, so that what they wait for costs no time.
 *
 * Threads that take part (members) have turns: one at a time runs, and time stands still while it
 * does. When it waits, sleeps or works (tg_clock_work), the turn goes to the member whose next
 * event is earliest, and time jumps there; of equal times the smallest `order` is first. So
 * whatever members do is in one order, which follows from what they do alone: no kernel's
 * scheduling, no number of cores and no load changes it. Work is the exception: while a member
 * works, others have their turns up to the moment when the work is over in virtual time, and there
 * they wait until it is over in fact. So work of several members runs on as many cores as there
 * are.
 *
 * Critical sections of members are never contended if no member works within one. Threads that are
 * no members (loaders of data) run beside all this, and cost no virtual time.
 *
 * These functions take any clock: on one that is not virtual they are plain pthread. */
#ifndef TG_BASE_VIRTUAL_CLOCK_H
#define TG_BASE_VIRTUAL_CLOCK_H

#include "telegrad/base.h"
#include <pthread.h>

#define TG__NEVER INT64_MAX

/* Errors TG_E_NOMEM */
TG_NODISCARD tg_status tg__virtual_create(int64_t start_ns, tg_clock **clock_p);
void tg__virtual_destroy(tg_clock *clock); /* no members are left; NULL is fine */

/* The calling thread takes part from here on, and runs when this returns. order: among members
 * whose events are at the same time, the smallest first; different for each. A thread has one
 * clock. Errors TG_E_NOMEM, TG_E_STATE (it has one already) */
TG_NODISCARD tg_status tg__clock_enter(const tg_clock *clock, uint64_t order);
void tg__clock_leave(const tg_clock *clock);

typedef struct tg__clock_thread {
    pthread_t thread;
    void *member;
} tg__clock_thread;

/* tg__thread_start of a thread that takes part from this moment until `run` returns. *t_p stays in
 * place until joined. */
TG_NODISCARD tg_status tg__clock_thread_start(const tg_clock *clock, uint64_t order,
                                              const char *name, void *(*run)(void *), void *arg,
                                              tg__clock_thread *t_p);
/* Wait until it has returned. Any thread. */
void tg__clock_thread_join(const tg_clock *clock, tg__clock_thread *t);

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
