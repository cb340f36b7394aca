/* A connection of the time before the transport: called or accepted, then a handshake, then
 * messages. One thread at a time.
 *
 * A message is a head of 12 bytes and a body, little-endian: "tgnet", version (1 byte), kind (2),
 * length of the body (4). */
#ifndef TG_NET_CALLER_H
#define TG_NET_CALLER_H

#include "net/connection.h"
#include "net/lookup.h"

#define TG__NET_VERSION 1
#define TG__CALLER_HEAD 12
#define TG__DIAL_NS INT64_C(3000000000)     /* for a connection to one address */
#define TG__GREETING_NS INT64_C(5000000000) /* then for the handshake, and an accepted one's word */

enum tg__said {
    TG__SAID_JOIN = 1, /* to the meeting point: who this is */
    TG__SAID_ROSTER,   /* from it: who all are */
    TG__SAID_REFUSED,  /* from it: a status and a text */
    TG__SAID_HELLO,    /* between two other ranks: which they are */
    TG__SAID_WELCOME,  /* the answer: the connection is taken */
    TG__SAID_LINKED,   /* to the meeting point: connected to all others */
    TG__SAID_BEGIN,    /* from it: all are */
    TG__SAID_RELAY,    /* to it: connect this connection with that of another rank */
    TG__SAID_INVITE,   /* from it: a rank that cannot reach this one asked for that */
    TG__SAID_BRIDGED,  /* from it: what follows on this connection is the other rank's */
    TG__SAID_WAITS,    /* from it: who has not joined yet */
    TG__SAID_LEAVES,   /* both ways: the sender gives up, and why */
    TG__SAID_ENTER,    /* to a server: a worker wants a seat */
    TG__SAID_SEAT,     /* from it: which */
    TG__SAID_COUNT
};

typedef enum tg__caller_state {
    TG__CALLER_NONE, /* an empty place */
    TG__CALLER_LOOKS_UP,
    TG__CALLER_DIALS,
    TG__CALLER_SHAKES,
    TG__CALLER_TALKS, /* sends and receives */
} tg__caller_state;

typedef struct tg__caller {
    tg__caller_state state;
    tg__lookup *lookup;
    tg__stream *stream; /* since it has dialled */
    tg__tls *tls;
    bool (*accepts)(void *arg, const tg__public_key *key);
    void *accepts_arg;
    int turn, addresses; /* which of the host's addresses; how many there are, once known */
    bool exact;          /* see tg__caller_bridge */
    bool unknown;        /* failed, because nobody knows the host */
    bool lost;           /* failed, because the connection broke off or did not come about */
    char why[TG__STREAM_WHY];
    int64_t until_ns; /* by then it must have come further */
    uint8_t *say;     /* the messages to send; NULL: none */
    size_t say_len, say_at;
    uint8_t head[TG__CALLER_HEAD]; /* of the message that arrives */
    uint8_t *body;                 /* NULL: its head is incomplete */
    size_t heard, body_len, body_max;
    bool arrived; /* the message is complete */
    bool ends;    /* to be closed once the messages are sent */
} tg__caller;

/* Begin on a socket that was accepted; it belongs to the caller also if this fails.
 * c         overwritten
 * body_max  longest body that is read; 0: nothing is read
 * accepts   as for tg__stream_begin
 * Errors    TG_E_NOMEM */
TG_NODISCARD tg_status tg__caller_accept(tg__caller *c, int fd, tg__tls *tls, size_t body_max,
                                         bool (*accepts)(void *arg, const tg__public_key *key),
                                         void *accepts_arg);
/* Begin to call an address: look it up, dial one of those found. Failures come with
 * tg__caller_step.
 * turn    which of the host's addresses, counted from 0; taken modulo their number
 * Errors  TG_E_NOMEM */
TG_NODISCARD tg_status tg__caller_call(tg__caller *c, const tg__address *a, int turn, tg__tls *tls,
                                       size_t body_max,
                                       bool (*accepts)(void *arg, const tg__public_key *key),
                                       void *accepts_arg);
/* Begin anew on the same connection: after BRIDGED it leads to another rank. Until then the
 * caller must be `exact`: not a byte beyond the message is read.
 * dialled  this end is the caller of the handshake that follows
 * Errors   TG_E_NOMEM; the caller is empty then */
TG_NODISCARD tg_status tg__caller_bridge(tg__caller *c, bool dialled,
                                         bool (*accepts)(void *arg, const tg__public_key *key),
                                         void *accepts_arg);
/* Send a message after the handshake, and after those before.
 * body    copied
 * Errors  TG_E_NOMEM */
TG_NODISCARD tg_status tg__caller_say(tg__caller *c, enum tg__said kind, const void *body,
                                      size_t len);
/* Go as far as the socket allows. Returns false if it has failed, or has taken too long; `why` says
 * why. */
bool tg__caller_step(tg__caller *c);
/* All of its messages have left for the socket. */
bool tg__caller_has_said(const tg__caller *c);
enum tg__said tg__caller_kind(const tg__caller *c); /* of the message that arrived */
/* Forget the message that arrived, and read the next. */
void tg__caller_next(tg__caller *c);
/* What to wait for with poll(). */
struct pollfd tg__caller_watch(const tg__caller *c);
/* Give the stream away; the caller is empty afterwards. */
tg__stream *tg__caller_take(tg__caller *c);
/* Close and release. An empty caller (zeroed) is fine. */
void tg__caller_end(tg__caller *c);

#endif
