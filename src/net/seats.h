/* A server's side of its workers, which come and go while it runs: the door, seats, and connections
 * that end.
 *
 * ENTER    the seat wanted (4 bytes; 0: any, else 1 + seat), shard (4), shards (4), token (8: a
 *          random number of the worker, by which it is known when it comes back), job (text)
 * SEAT     the seat (4), seats (4), about (text: the server's own words); what follows is of the
 *          transport
 * REFUSED  as in meet.c */
#ifndef TG_NET_SEATS_H
#define TG_NET_SEATS_H

#include "net/door.h"
#include "net/membership.h"
#include "net/refusals.h"

#define TG__ENTER_MAX (20 + 2 + TG__JOB_MAX) /* bytes of the message of a worker that comes */
#define TG__SEAT_MAX (8 + 2 + TG__TEXT_MAX)
#define TG__PARTINGS 64

/* A connection that ends, once the peer has all that was sent. */
typedef struct tg__parting {
    tg__stream *stream; /* NULL: an empty place */
    uint8_t *bytes;     /* that are still to be sent; owned */
    size_t at, len;
    int64_t until_ns;
} tg__parting;

struct tg__seats {
    tg_net *n;
    tg__door door;
    struct pollfd *polled;
    tg_net_serve_config config;
    char job[TG__JOB_MAX], about[TG__TEXT_MAX];
    tg__refusals refusals;
    int64_t listed_ns; /* when allow_now was asked last */
    int64_t looked_ns; /* at the door */
    bool knocked;      /* somebody calls; set by the transport */
    bool busy;         /* strangers are at the door, or a connection ends */
    bool renewed;      /* there is a new list of keys; cleared by the transport */
    bool returns;      /* a worker is back before its old connection has ended: likewise */
    tg__parting parting[TG__PARTINGS];
};

/* Look at the door, without waiting. A worker that comes is given a seat: its connection is
 * n->stream[seat] then, and `take` is told.
 * Errors  TG_E_NOMEM */
TG_NODISCARD tg_status tg__seats_step(tg__seats *s, void (*take)(void *arg, int seat), void *arg);
/* Whether a worker's key is on the list. */
bool tg__seats_allow(const tg__seats *s, int seat);
/* Whether a worker calls that has this seat, because it has lost its connection. */
bool tg__seats_is_back(const tg__seats *s, int seat);
/* How long to wait at most before the next look. */
int64_t tg__seats_due_ns(const tg__seats *s, int64_t now);
/* The worker of this seat leaves, and why: the seat is vacant, and its connection ends after these
 * bytes, which now belong to s. */
void tg__seats_part(tg__seats *s, int seat, const char *why, uint8_t *bytes, size_t at, size_t len);
/* Close the door, and free n->hosts, if there is one. */
void tg__seats_close(tg_net *n);

#endif
