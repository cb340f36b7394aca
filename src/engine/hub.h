/* A hub: what the engines of a transport share, namely the failure, the queued and active
 * operations, and the right to drive. For the files of engine/ only; others use engine.h.
 *
 * One thread at a time drives. It takes up, moves and finishes the operations of all engines, so an
 * operation that this rank waits for never holds up one that another rank waits for. If an engine
 * wants a communication thread, that thread drives. Otherwise any waiting thread does, and when it
 * leaves, another one takes over. */
#ifndef TG_HUB_H
#define TG_HUB_H

#include "base/latch.h"
#include "base/thread.h"
#include "base/virtual_clock.h"
#include "engine/engine.h"
#include "telegrad/trace.h"

typedef struct tg__hub {
    struct tg__hub *next; /* in the list of all hubs; the list's lock guards this and: */
    unsigned members;     /* number of engines */
    bool is_orphan;       /* its owner has destroyed the transport; the last member does the work */

    tg_transport *transport;
    pthread_t owner;      /* the creating thread: only it may drive a transport bound to a thread */
    pthread_mutex_t lock; /* guards what follows, down to `held`, and the state of each op */
    pthread_cond_t changed;
    tg__op *queue;        /* sorted by priority, FIFO among equals */
    bool driving;         /* some thread drives */
    unsigned waiting;     /* threads that wait until no thread drives */
    unsigned seizing;     /* ... of them, those that go first: nobody else begins to drive */
    unsigned want_thread; /* engines with the thread driver */
    bool has_thread;      /* there is a communication thread; only it drives */
    bool quit;            /* the communication thread must end */
    bool starts_or_ends;  /* the communication thread is being started or joined */
    bool in_setup;        /* an engine is between begin_setup and end_setup */
    uint8_t claim[TG__CLAIM_BYTES];
    tg__latch failure;
    bool held;        /* the transport could not release posted buffers */
    bool must_shut;   /* failed on a thread that may not use the transport: the owner shuts it */
    tg__latch before; /* the failure of an earlier hub of this transport, which shut it. Constant */

    tg_clock_thread *thread; /* for the thread that starts or joins it */
    tg__pump pump;           /* from here on for the driving thread only */
    tg__op *active;          /* taken up, not finished */
} tg__hub;

struct tg__engine {
    tg__hub *hub;
    tg_trace *trace;
    bool threaded;

    uint32_t sequence;       /* of the next operation; from here on guarded by the hub's lock */
    tg__op *oldest, *newest; /* operations that are not DONE */
    uint64_t bytes_sent, bytes_near;

    uint32_t first,
        /* number of tags: exchange i has first + i % at_once. Constant while something is in
         * flight */
        at_once;
    tg__channel channel; /* for the driving thread only, while something is in flight */
    tg__op *given;       /* to be freed at the end */
    /* for the calling thread only */
    bool all_know;          /* see tg__engine_all_know */
    uint64_t control_bytes; /* see tg__engine_control_bytes */
    /* guarded by the hub's lock; NULL: no stop is ever requested */
    bool (*wants_stop)(const void *arg);
    const void *stop_arg;
    /* time of the stop request, by tg_clock_monotonic; 0: none. For the driving thread */
    int64_t stop_ns;
};

/* Find or create the hub of a transport, and become a member.
 * Errors  TG_E_NOMEM */
TG_NODISCARD tg_status tg__hub_enter(tg_transport *t, tg__hub **h_p);
/* Stop being a member; the last one frees the hub. */
void tg__hub_leave(tg__hub *h);

/* Register, and withdraw, one member's need for a communication thread.
 * Errors  TG_E_NOMEM */
TG_NODISCARD tg_status tg__hub_want_thread(tg__hub *h);
void tg__hub_unwant_thread(tg__hub *h);

/* Check that the calling thread may drive this transport.
 * Errors  TG_E_STATE */
TG_NODISCARD tg_status tg__hub_check_thread(const tg__hub *h);

/* Call the functions below with the lock held. */
/* remove op from the list of open operations */
void tg__engine_close(tg__op *op);
TG_NODISCARD tg_status tg__hub_failure(tg__hub *h); /* TG_OK: none */
/* Fail with tg_error(), and shut the transport. If memory ran out, this rank blames itself. */
void tg__hub_fail(tg__hub *h, tg_status status);
/* The same with the given text; tg_error() does not change. Unless the pump has done so already,
 * tell the other ranks that because_of is to blame (-1: no particular rank). */
void tg__hub_shut(tg__hub *h, tg_status status, int because_of, const char *format, ...)
    TG_PRINTF(4, 5);
tg__waited tg__hub_wait(tg__hub *h);        /* for `changed` */
tg__waited tg__hub_wait_driver(tg__hub *h); /* the same, or until no thread drives */
void tg__hub_changed(tg__hub *h);
/* Drive for one turn, until deadline_ns at the latest. No other thread may drive, and there must be
 * no communication thread. Releases the lock meanwhile. */
void tg__hub_drive(tg__hub *h, int64_t deadline_ns);
/* Between seize and release no thread drives. seize waits for at most one turn. */
void tg__hub_seize(tg__hub *h);
/* Whether this thread may call tg__hub_drive: nobody drives, and nobody waits in seize. */
bool tg__hub_may_drive(const tg__hub *h);
void tg__hub_release(tg__hub *h);

/* Call without the lock: see tg__engine_give_up. */
void tg__hub_give_up(tg__hub *h, tg_status status, int because_of);

/* One turn of the driving thread, without the lock (turn.c): take up what is queued, move bytes
 * until deadline_ns at most, finish what is done. */
TG_NODISCARD tg_status tg__hub_turn(tg__hub *h, int64_t deadline_ns);

#endif
