/* Whom a rank waits for: while it does, and how long in all. The engine says when its caller waits
 * for what is under way; the pump, which sleeps meanwhile, knows whose messages are missing. */
#ifndef TG_WAITS_H
#define TG_WAITS_H

#include "exchange/pump.h"
#include "telegrad/transport.h"
#include "telegrad/clock.h"

#include <stdatomic.h>

struct tg__waits {
    void (*tell)(void *arg, const tg_wait *wait); /* NULL: log it */
    void *arg;
    _Atomic int64_t since_ns;          /* a caller waits since then; 0: none does */
    int64_t looked_ns;                 /* the driving thread's from here: of the last look */
    int64_t told_ns;                   /* ... of the last tell ... */
    int64_t logged_since_ns, log_next; /* ... of which wait, and at what length the next line */
    int64_t *until_ns;                 /* (size) what is counted of each peer up to there */
    bool *missing;                     /* (size) scratch */
    _Atomic int64_t *total_ns;         /* (size) any thread may read */
};

/* Errors TG_E_NOMEM */
TG_NODISCARD tg_status tg__waits_create(int size, tg__waits **w_p);
void tg__waits_destroy(tg__waits *w); /* NULL is fine */

/* A caller begins to wait for what is under way; no longer waits. One at a time. */
void tg__waits_begin(tg__waits *w, const tg_clock *clock);
void tg__waits_end(tg__waits *w);

/* For the pump, of all channels that have waits. The pump has slept from from_ns to to_ns: while a
 * caller waited, that counts for every rank that a message of the watched rounds was missing from,
 * or had not been taken by where all had come. */
void tg__waits_slept(tg__pump *p, int64_t from_ns, int64_t to_ns);
/* Tell of the waits that are under way, if it is time. */
void tg__waits_tell(tg__pump *p, int64_t now);

#endif
