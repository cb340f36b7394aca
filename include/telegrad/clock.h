/* telegrad/clock.h - time as an object: the system's monotonic clock, virtual time for simulations,
 * or a clock of your own. */
#ifndef TELEGRAD_CLOCK_H
#define TELEGRAD_CLOCK_H

#include "telegrad/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A clock. Time is in nanoseconds from an arbitrary start and never goes back. It is used where it
 * lies, so it must live as long as what uses it, unchanged.
 * Threads  all functions may be called from any thread */
typedef struct tg_clock tg_clock;
struct tg_clock {
    size_t struct_size; /* sizeof(tg_clock) */
    void *arg;
    int64_t (*now_ns)(void *arg);
    void (*sleep_until_ns)(void *arg, int64_t when_ns); /* returns at once if it is past */
    /* NULL: time is measured. Otherwise time is simulated: what the calling thread does from here
     * to its next call of any of these functions takes ns, whatever it takes in reality. Until then
     * the thread must not touch what another thread of the simulation may change. */
    void (*work)(void *arg, int64_t ns);
};

/* The system's CLOCK_MONOTONIC; static. */
TG_API const tg_clock *tg_clock_monotonic(void);

/* The current time; 0 if clock is NULL. */
static inline int64_t tg_now_ns(const tg_clock *clock)
{
    return clock ? clock->now_ns(clock->arg) : 0;
}

/* Announce work that takes ns (tg_clock.work). Does nothing on a clock that measures. */
static inline void tg_clock_work(const tg_clock *clock, int64_t ns)
{
    if (clock && TG_HAS(tg_clock, clock, work) && clock->work)
        clock->work(clock->arg, ns);
}

/* ---- virtual time ---------------------------------------------------------------------------- */

/* A virtual clock knows the threads that take part (its members), so waiting takes no real time.
 *
 * Turns    One member runs at a time, and time stands still while it does. When it waits, sleeps or
 *          works (tg_clock_work), the turn passes to the member with the earliest next event, and
 *          time jumps there. At equal times the member with the smallest `order` goes first. So the
 *          order of all events depends only on what the members do, never on scheduling, the number
 *          of cores or load.
 * Work     While a member works, others take their turns up to the virtual time at which the work
 *          ends, and wait there until it has ended in reality. So the work of several members runs
 *          in parallel on all cores.
 * Locks    A critical section of members is never contended, provided that no member works inside
 *          one.
 * Others   Threads that are not members (data loaders) run freely and take no virtual time. */

/* Create a virtual clock that starts at start_ns.
 * Errors  TG_E_NOMEM */
TG_API TG_NODISCARD tg_status tg_clock_virtual_create(int64_t start_ns, tg_clock **clock_p);
/* Free a virtual clock. Call it after all members have left. NULL is allowed. */
TG_API void tg_clock_virtual_destroy(tg_clock *clock);

/* The functions below take any clock. On one that is not virtual, threads are plain threads. */

/* Make the calling thread a member. It has the turn when this returns. A thread is a member of one
 * clock at most.
 * order   at equal times the smallest goes first; must be unique among members
 * Errors  TG_E_ARG, TG_E_NOMEM, TG_E_STATE (the thread is a member of a clock already) */
TG_API TG_NODISCARD tg_status tg_clock_enter(const tg_clock *clock, uint64_t order);
TG_API void tg_clock_leave(const tg_clock *clock);

/* Start a thread that is a member from now until `run` returns. It blocks all signals except its
 * own faults (SIGSEGV, ...), so that signals reach the caller's threads.
 * name    at most 15 characters; debuggers show it
 * Errors  TG_E_ARG, TG_E_NOMEM */
typedef struct tg_clock_thread tg_clock_thread;
TG_API TG_NODISCARD tg_status tg_clock_thread_start(const tg_clock *clock, uint64_t order,
                                                    const char *name, void *(*run)(void *),
                                                    void *arg, tg_clock_thread **t_p);
/* Wait until the thread's `run` has returned, and free it. May be called from any thread. */
TG_API void tg_clock_thread_join(const tg_clock *clock, tg_clock_thread *t);

#ifdef __cplusplus
}
#endif
#endif
