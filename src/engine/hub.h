/* A hub: what the engines of a transport share, namely its failure, the operations queued and under
 * way, and who drives. For the files of engine/ only; others use engine.h.
 *
 * One thread at a time drives. It takes up, moves and finishes the operations of all engines, so an
 * operation that this rank waits for never holds up one that another rank waits for. If an engine
 * wants a communication thread, that thread drives; otherwise any thread that waits does, and when
 * it leaves, the next one. */
#ifndef TG_HUB_H
#define TG_HUB_H

#include "base/thread.h"
#include "base/virtual_clock.h"
#include "engine/engine.h"
#include "telegrad/trace.h"

typedef struct tg__hub {
    struct tg__hub *next; /* in the list of all hubs, whose lock guards this and: */
    unsigned members;     /* number of engines */
    bool is_orphan;       /* the transport's owner has destroyed it: the last member does so */

    tg_transport *transport;
    pthread_t owner;      /* the creating thread: only it may drive a transport bound to a thread */
    pthread_mutex_t lock; /* guards what follows, down to `held`, and the state of each op */
    pthread_cond_t changed;
    tg__op *queue;        /* sorted by priority, FIFO among equals */
    bool driving;         /* a thread drives */
    unsigned waiting;     /* threads that wait until none drives */
    unsigned want_thread; /* engines with the thread driver */
    bool has_thread;      /* there is a communication thread; only it drives */
    bool quit;            /* it is to end */
    bool starts_or_ends;  /* it is being started or joined */
    bool in_setup;        /* an engine is between begin_setup and end_setup */
    uint8_t claim[TG__CLAIM_BYTES];
    tg_status status; /* the first failure, for good */
    char error[512];
    bool held; /* the transport could not release posted buffers */

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
        at_once;         /* tags: exchange i has first + i % at_once. Constant while something is
                          * under way */
    tg__channel channel; /* for the driving thread only, while something is under way */
    tg__op *given;       /* to be freed at the end */
    bool all_know;       /* for the calling thread only: see tg__engine_all_know */
    bool (*wants_stop)(const void *arg); /* guarded by the hub's lock; NULL: it never does */
    const void *stop_arg;
    int64_t stop_ns; /* since when, by tg_clock_monotonic; 0: not yet. For the driving thread */
};

/* Find or create the hub of a transport, and become a member.
 * Errors  TG_E_NOMEM */
TG_NODISCARD tg_status tg__hub_enter(tg_transport *t, tg__hub **h_p);
/* Stop being a member; the last one frees the hub. */
void tg__hub_leave(tg__hub *h);

/* Start, and stop, wanting a communication thread, for one member.
 * Errors  TG_E_NOMEM */
TG_NODISCARD tg_status tg__hub_want_thread(tg__hub *h);
void tg__hub_unwant_thread(tg__hub *h);

/* Check that the calling thread may drive this transport.
 * Errors  TG_E_STATE */
TG_NODISCARD tg_status tg__hub_check_thread(const tg__hub *h);

/* Call all of the following with the lock held. */
void tg__engine_close(tg__op *op);                        /* take op off the open ones */
TG_NODISCARD tg_status tg__hub_failure(const tg__hub *h); /* TG_OK: none */
/* Fail with tg_error(), and shut the transport. Out of memory: this rank blames itself. */
void tg__hub_fail(tg__hub *h, tg_status status);
/* The same with this text; tg_error() does not change. Unless the pump has done so already, tell the
 * other ranks that it is because of that rank (-1: nobody in particular). */
void tg__hub_shut(tg__hub *h, tg_status status, int because_of, const char *format, ...)
    TG_PRINTF(4, 5);
tg__waited tg__hub_wait(tg__hub *h);        /* for `changed` */
tg__waited tg__hub_wait_driver(tg__hub *h); /* the same, or until no thread drives */
void tg__hub_changed(tg__hub *h);
/* Drive for one turn, until deadline_ns at the latest. No other thread may drive, and there must be
 * no communication thread. Releases the lock meanwhile. */
void tg__hub_drive(tg__hub *h, int64_t deadline_ns);
/* From seize to release no thread drives. */
void tg__hub_seize(tg__hub *h);
void tg__hub_release(tg__hub *h);

/* Without the lock: see tg__engine_give_up. */
void tg__hub_give_up(tg__hub *h, tg_status status, int because_of);

/* One turn of the driving thread, without the lock (turn.c): take up what is queued, move bytes
 * until deadline_ns at the latest, finish what is done. */
TG_NODISCARD tg_status tg__turn(tg__hub *h, int64_t deadline_ns);

#endif
