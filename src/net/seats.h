/* A server's side of the connections with workers, which come and go while it runs: the door,
 * seats, and connections that are closing.
 *
 * ENTER    the requested seat (4 bytes; 0: any, else 1 + seat), shard (4), shards (4), token (8: a
 *          random number by which the server recognizes the worker when it comes back), job (text)
 * SEAT     the seat (4), seats (4), about (text); the transport's frames follow
 * REFUSED  as in meet.c */
#ifndef TG_NET_SEATS_H
#define TG_NET_SEATS_H

#include "net/door.h"
#include "net/membership.h"
#include "net/refusals.h"

#define TG__ENTER_MAX (20 + 2 + TG__JOB_MAX) /* bytes of a worker's first message */
#define TG__SEAT_MAX (8 + 2 + TG__TEXT_MAX)
#define TG__PARTINGS 64

/* A connection that closes once the peer has received all bytes. */
typedef struct tg__parting {
    tg__stream *stream; /* NULL: an empty place */
    uint8_t *bytes;     /* still to be sent; owned */
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
    int64_t listed_ns; /* when allow_now was last called */
    int64_t looked_ns; /* at the door */
    bool knocked;      /* there is a new connection; set by the transport */
    bool busy;         /* guests are at the door, or a connection is closing */
    bool renewed;      /* there is a new list of keys; cleared by the transport */
    bool returns;      /* a worker calls again while its old connection stands; likewise */
    tg__parting parting[TG__PARTINGS];
};

/* Check the door, without waiting. A new worker gets a seat: n->stream[seat] is then its
 * connection, and `take` is called. */
void tg__seats_step(tg__seats *s, void (*take)(void *arg, int seat), void *arg);
/* Whether a worker's key is on the list. */
bool tg__seats_allow(const tg__seats *s, int seat);
/* Whether the worker that has this seat calls again, because it has lost its connection. */
bool tg__seats_is_back(const tg__seats *s, int seat);
/* When to call tg__seats_step next, at the latest. */
int64_t tg__seats_due_ns(const tg__seats *s, int64_t now);
/* Make a worker's seat vacant.
 * kind   what is told: TG_NET_LEFT, TG_NET_LOST, TG_NET_DROPPED
 * why    it leaves
 * bytes  [at, len) to send before its connection closes; now owned by s */
void tg__seats_part(tg__seats *s, int seat, tg_net_event_kind kind, const char *why, uint8_t *bytes,
                    size_t at, size_t len);
/* Close the door, and free n->hosts, if there is one. */
void tg__seats_close(tg_net *n);

#endif
