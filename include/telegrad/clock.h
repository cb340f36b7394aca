/* telegrad/clock.h - time as an object: the clock on the wall, and a program's own. */
#ifndef TELEGRAD_CLOCK_H
#define TELEGRAD_CLOCK_H

#include "telegrad/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Time as an object, so that a simulation can supply its own. Nanoseconds from an arbitrary start;
 * never goes back. Both functions may be called from any thread. */
typedef struct tg_clock tg_clock;
struct tg_clock {
    size_t struct_size; /* sizeof(tg_clock) */
    void *arg;
    int64_t (*now_ns)(void *arg);
    void (*sleep_until_ns)(void *arg, int64_t when_ns); /* returns at once if when_ns is past */
    /* NULL where time is measured. Simulated time: what the calling thread does from here to its
     * next call of any of these functions takes ns, however long it takes in fact; until then it
     * must not touch what another thread of the simulation may change. */
    void (*work)(void *arg, int64_t ns);
};

/* CLOCK_MONOTONIC. */
TG_API const tg_clock *tg_clock_monotonic(void);

static inline int64_t tg_now_ns(const tg_clock *clock)
{
    return clock ? clock->now_ns(clock->arg) : 0;
}

/* On a clock of simulated time: see tg_clock.work. Otherwise nothing: it will be measured. */
static inline void tg_clock_work(const tg_clock *clock, int64_t ns)
{
    if (clock && clock->struct_size >= sizeof *clock && clock->work)
        clock->work(clock->arg, ns);
}

/* ---- virtual time ---------------------------------------------------------------------------- */

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
 * no members (loaders of data) run beside all this, and cost no virtual time. */

/* Errors TG_E_NOMEM */
TG_API TG_NODISCARD tg_status tg_clock_virtual_create(int64_t start_ns, tg_clock **clock_p);
TG_API void tg_clock_virtual_destroy(tg_clock *clock); /* no members are left; NULL is fine */

/* The functions below take any clock: on one that is not virtual they are plain threads. */

/* The calling thread takes part from here on, and runs when this returns. order: among members
 * whose events are at the same time, the smallest first; different for each. A thread has one
 * clock. Errors TG_E_NOMEM, TG_E_STATE (it has one already) */
TG_API TG_NODISCARD tg_status tg_clock_enter(const tg_clock *clock, uint64_t order);
TG_API void tg_clock_leave(const tg_clock *clock);

/* Start a thread that takes part from this moment until `run` returns. It is named `name` (at most
 * 15 characters, shown by debuggers) and blocks all signals but its own faults (SIGSEGV, ...), so
 * that they reach the caller's threads. Errors TG_E_NOMEM */
typedef struct tg_clock_thread tg_clock_thread;
TG_API TG_NODISCARD tg_status tg_clock_thread_start(const tg_clock *clock, uint64_t order,
                                                    const char *name, void *(*run)(void *),
                                                    void *arg, tg_clock_thread **t_p);
/* Wait until it has returned, and free it. Any thread. */
TG_API void tg_clock_thread_join(const tg_clock *clock, tg_clock_thread *t);

#ifdef __cplusplus
}
#endif
#endif
