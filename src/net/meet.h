/* The meeting point's own: who is there. */
#ifndef TG_NET_MEET_H
#define TG_NET_MEET_H

#include "net/door.h"
#include "net/membership.h"
#include "net/refusals.h"

#define TG__ENTRY_MAX (TG__KEY_BYTES + 8 + 2 + TG__HOST_MAX + 2) /* bytes of a rank in the roster */

/* A rank that has joined. */
typedef struct tg__joined {
    tg__caller caller; /* state TG__CALLER_NONE: an empty place */
    tg__member member;
    int wants;     /* a rank, or 0 */
    int position;  /* of its key on the list */
    uint64_t turn; /* of arrival */
    char host[TG__IP_MAX];
    bool linked; /* it is connected to all others */
} tg__joined;

/* A connection that is to be connected with that of another rank. */
typedef struct tg__leg {
    tg__caller caller;
    int from, to;
    bool bridging; /* both ends are there */
} tg__leg;

typedef struct tg__hall {
    tg_net *n;
    tg__door door;
    tg__joined *joined;                            /* (size - 1) */
    tg__joined **at_rank;                          /* (size) since the roster */
    int count;                                     /* who has joined */
    char waits[TG__TEXT_MAX], lacks[TG__TEXT_MAX]; /* as tg__net_patience_for; said to them */
    tg__refusals refusals;
    uint64_t turn;
    tg__leg *legs;
    size_t leg_count, leg_cap;
    struct pollfd *polled; /* (polled_cap) */
    size_t polled_cap;
} tg__hall;

/* Refuse a guest, with the text and status of tg_fail. */
void tg__hall_refuse(tg__hall *h, tg__guest *g, tg_status status);
/* Tell this rank's user of a call that failed. c: NULL: it has not greeted */
void tg__hall_note(void *hall, const char *host, const tg__caller *c, const char *why);
/* Somebody has not joined yet: tell those who have, if it is news, and have patience. */
TG_NODISCARD tg_status tg__hall_wait(tg__hall *h);
/* Joining has failed: tell those who have joined why, as fast as they read, and not for long. */
void tg__hall_leave(tg__hall *h, tg_status status);
/* Wait at most TG__LOOK_MS until somebody at the door, of those who have joined, or of the legs
 * does something, and let in who comes.
 * Errors  TG_E_NOMEM */
TG_NODISCARD tg_status tg__hall_look(tg__hall *h);
/* After the roster: wait until all ranks are connected, and connect those that cannot reach each
 * other. */
TG_NODISCARD tg_status tg__hall_link(tg__hall *h);

#endif
