/* Which ranks this rank waits for, now and in total. The engine reports when its caller waits for
 * an operation; the pump, which sleeps meanwhile, knows whose messages are missing. */
#ifndef TG_WAITS_H
#define TG_WAITS_H

#include "exchange/pump.h"
#include "telegrad/transport.h"
#include "telegrad/clock.h"

#include <stdatomic.h>

struct tg__waits {
    void (*tell)(void *arg, const tg_wait *wait); /* NULL: log it */
    void *arg;
    _Atomic int64_t since_ns; /* start of the caller's wait; 0: no caller waits */
    int64_t looked_ns;        /* from here on for the driving thread: time of the last look */
    int64_t told_ns;          /* time of the last call of tell */
    uint64_t step;            /* of the exchange launched last; those between steps do not count */
    int64_t logged_since_ns, log_next; /* the wait logged last, and the length of its next line */
    struct {
        int64_t until_ns;         /* its waits are counted up to this time */
        bool missing;             /* scratch */
        _Atomic int64_t total_ns; /* any thread may read it */
    } peer[];                     /* (ranks and servers) */
};

/* Release it with free().
 * Errors  TG_E_NOMEM */
TG_NODISCARD tg_status tg__waits_create(size_t peers, tg__waits **w_p);

/* A caller begins, and stops, waiting for an operation. One caller at a time. */
void tg__waits_begin(tg__waits *w, const tg_clock *clock);
void tg__waits_end(tg__waits *w);

/* Called by the pump for all its channels with waits after it slept from from_ns to to_ns. The part
 * in which a caller waited is counted for every rank whose message of the watched rounds was
 * missing; if none was, for every rank that had not taken a message. */
void tg__waits_slept(tg__pump *p, int64_t from_ns, int64_t to_ns);
/* Report the current waits, if it is time. */
void tg__waits_tell(tg__pump *p, int64_t now);

#endif
