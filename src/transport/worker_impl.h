/* The inside of a worker's transport (worker.c), and what it does when the connection with a server
 * breaks (worker_renew.c). */
#ifndef TG_TRANSPORT_WORKER_IMPL_H
#define TG_TRANSPORT_WORKER_IMPL_H

#include "transport/endpoint.h"
#include "transport/worker.h"

/* A posted operation. */
typedef struct tg__worker_op {
    tg_request payload, stamp; /* of the inner transport */
    bool payload_open, stamp_open;
    size_t len; /* once the payload is over */
    uint8_t bytes[TG__WORKER_STAMP];
    int peer;
    uint32_t tag;
    bool sends;
    const void *out; /* sending: the message */
    void *in;        /* receiving: where it goes */
    size_t room;     /* bytes of it */
    /* For a server to which the transport can reconnect. */
    struct tg__worker_op *next; /* in the order posted */
    bool waits;                 /* not posted, because the connection is broken */
    bool released;              /* sending: the caller was told that it is done */
    bool answered;              /* the answer has arrived; receiving: its message is marked, too */
} tg__worker_op;

/* A server, and the operations posted to it that are not answered yet. */
typedef struct tg__served {
    tg__worker_op *first, **end;
    uint64_t number; /* of the last message */
    bool lost;       /* the connection is broken */
} tg__served;

typedef struct tg__worker {
    tg_transport base; /* first member: its address is the transport's */
    tg_transport *inner;
    tg__records pool;
    size_t live; /* operations that are not over */
    bool is_shut, released;
    bool renews;        /* the inner transport can reconnect to a lost server */
    uint32_t self;      /* tg__stamp.worker */
    tg__served *served; /* (servers) if it renews */
} tg__worker;

/* Post an operation to the inner transport.
 * Errors  those of the inner transport */
TG_NODISCARD tg_status tg__worker_post(tg__worker *w, tg__worker_op *o);
/* Test its open parts. Errors end it, as those of the inner transport. */
TG_NODISCARD tg_status tg__worker_test(tg__worker *w, tg__worker_op *o);
/* The operation is over. */
void tg__worker_give(tg__worker *w, tg__worker_op *o);

/* The same if the transport can reconnect: a connection that breaks is then no error. */
TG_NODISCARD tg_status tg__worker_post_kept(tg__worker *w, tg__worker_op *o);
TG_NODISCARD tg_status tg__worker_test_kept(tg__worker *w, tg__worker_op *o, bool *done_p,
                                            size_t *len_p);
/* Reconnect to lost servers, if there are any, and post again what was lost.
 * until_p  [in, out] lowered to the time of the next attempt
 * Errors  those of tg_transport_ops.renew */
TG_NODISCARD tg_status tg__worker_renew(tg__worker *w, int64_t *until_p);

#endif
