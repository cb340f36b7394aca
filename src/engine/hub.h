/* What the engines of one transport share: its failure, what is queued and under way, and who
 * drives. One thread at a time drives: it takes up, moves and finishes the operations of all
 * engines, so that one which is waited for on this rank never holds up one that is waited for on
 * another. Where an engine wants a communication thread that one drives; else whoever waits, and
 * when it leaves, the next. Inside of the engine: engine.c is what others call. */
#ifndef TG_HUB_H
#define TG_HUB_H

#include "base/thread.h"
#include "base/virtual_clock.h"
#include "engine/engine.h"
#include "telegrad/trace.h"

typedef struct tg__hub {
    struct tg__hub *next; /* the list's of all hubs, as is this: */
    unsigned members;     /* engines */

    tg_transport *transport;
    pthread_t owner; /* who made it: the only one who may drive a transport bound to a thread */
    pthread_mutex_t lock; /* guards everything down to the next comment, and each op's state */
    pthread_cond_t changed;
    tg__op *queue;        /* sorted by priority, FIFO among equals */
    bool driving;         /* a thread drives */
    unsigned waiting;     /* threads that wait until it does not */
    unsigned want_thread; /* engines with the thread driver ... */
    bool has_thread;      /* ... there is a thread, which alone drives */
    bool quit;            /* it is to end */
    bool starts_or_ends;  /* it is being started or joined */
    bool in_setup;        /* an engine is between begin_setup and end_setup */
    uint8_t claim[TG__CLAIM_BYTES];
    tg_status status; /* first failure, for good */
    char error[512];
    bool held; /* the transport could not let go of posted buffers */

    tg_clock_thread *thread; /* whoever starts or joins it */
    tg__pump pump;           /* the driving thread's alone from here */
    tg__op *active;          /* taken up, not finished */
} tg__hub;

struct tg__engine {
    tg__hub *hub;
    tg_trace *trace;
    bool threaded;

    uint32_t sequence;       /* of the next operation; under the hub's lock, as is what follows */
    tg__op *oldest, *newest; /* operations that are not DONE */
    uint64_t bytes_sent, bytes_near;

    uint32_t first, at_once; /* its tags: exchange i has first + i % at_once. Constant while
                                something is under way */
    tg__channel channel;     /* the driving thread's while something is under way */
    tg__op *given;           /* to be freed at the end */
};

/* The hub of this transport, one member more. Errors TG_E_NOMEM */
TG_NODISCARD tg_status tg__hub_enter(tg_transport *t, tg__hub **h_p);
/* One member less; the last one frees it. */
void tg__hub_leave(tg__hub *h);

/* One member more, or less, that wants a communication thread. Errors TG_E_NOMEM */
TG_NODISCARD tg_status tg__hub_want_thread(tg__hub *h);
void tg__hub_unwant_thread(tg__hub *h);

/* TG_E_STATE if the calling thread may not drive this transport. */
TG_NODISCARD tg_status tg__hub_check_thread(const tg__hub *h);

/* All of these with the lock held. */
void tg__engine_close(tg__op *op);                        /* it is not open any more */
TG_NODISCARD tg_status tg__hub_failure(const tg__hub *h); /* TG_OK: none */
void tg__hub_fail(tg__hub *h, tg_status status);          /* with tg_error(); shuts the transport */
/* The same with this text, and tg_error() stays as it is. */
void tg__hub_shut(tg__hub *h, tg_status status, const char *format, ...) TG_PRINTF(3, 4);
tg__waited tg__hub_wait(tg__hub *h);        /* for `changed` */
tg__waited tg__hub_wait_driver(tg__hub *h); /* the same, also until nobody drives */
void tg__hub_changed(tg__hub *h);
/* Nobody drives, there is no thread: one turn, until deadline_ns at the latest. Gives up the lock
 * meanwhile. */
void tg__hub_drive(tg__hub *h, int64_t deadline_ns);
/* Until release nobody drives. */
void tg__hub_seize(tg__hub *h);
void tg__hub_release(tg__hub *h);

/* turn.c, the driving thread without the lock: take up what is queued, move bytes until deadline_ns
 * at the latest, finish what is done. */
TG_NODISCARD tg_status tg__turn(tg__hub *h, int64_t deadline_ns);

#endif
