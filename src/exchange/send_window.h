/* How much of a vector may be on its way. What a link's queue cannot hold is lost, and TCP finds
 * out slowly: a modem has room for what it sends in some tenths of a second. A transport does not
 * say what has arrived, only what it has taken. But where every rank sends all others what it hears
 * from all others, unit i of a peer's vector says that it has got as far as i, so that no message
 * has to say it: a unit is begun when the lowest on its way has come from all. So where frames
 * are about as long, at most twice the window is on its way from a rank, and to it. A rank whose
 * own frame is the longest hears nothing more once it has all others': its rest is held back by
 * TG__PUMP_WINDOW alone.
 *
 * How large the window is follows from the time between a unit's begin and the end of one that was
 * begun when it had ended: a round trip, and the queues on the way. The window goes to
 *
 *     window * (shortest round trip + TG__QUEUE_NS) / usual round trip
 *
 * so a link is kept busy, and its queue as short as that. It differs between ranks, and changes no
 * result.
 *
 * Source: the rule: Jin, Wei, Low 2004, "FAST TCP: motivation, architecture, algorithms,
 * performance", INFOCOM, eq. 4; the aim: Shalunov et al. 2012 (LEDBAT), RFC 6817. */
#ifndef TG_WINDOW_H
#define TG_WINDOW_H

#include "telegrad/base.h"

#define TG__QUEUE_NS 60000000 /* in a round trip: 30 ms each way */
/* Units on their way at first, at least and at most. A unit to all peers is 48 KiB (tg__unit), so
 * the least is 192 KiB: what 20 Mbit/s carry in 79 ms; among more than 7 ranks 32 KiB a peer. */
#define TG__WINDOW_FIRST 5u
#define TG__WINDOW_LEAST 4u
#define TG__WINDOW_MOST 256u

/* Bytes of a unit to one of size - 1 peers, at least 8 KiB: an envelope is 0.6 % of that. */
size_t tg__unit(int size);

typedef struct tg__window {
    uint32_t count;      /* units of this run */
    uint32_t from, to;   /* those below `from` have come; [from, to) are on their way */
    double open;         /* units that may be */
    int64_t shortest_ns; /* round trip; 0: not known */
    int64_t usual_ns;    /* round trip: falls at once, rises slowly; 0: not known */
    unsigned unseen;     /* runs in a row without a round trip */
    int64_t *begun_ns;   /* (cap) when each was begun ... */
    int64_t *root_ns;    /* (cap) ... and the one that had ended then; 0: none */
} tg__window;

/* cap: most units of a run. Errors TG_E_NOMEM */
TG_NODISCARD tg_status tg__window_init(tg__window *w, uint32_t cap);
void tg__window_fini(tg__window *w);

/* A run of count units (1 <= count <= cap). now_ns: 0 if nobody knows; then nothing is learnt. */
void tg__window_start(tg__window *w, uint32_t count, int64_t now_ns);
/* It is known that there are more than was said: count <= cap. */
void tg__window_grow(tg__window *w, uint32_t count, int64_t now_ns);
/* Unit w->from has come: the next is the lowest, and more may be begun. */
void tg__window_pass(tg__window *w, int64_t now_ns);

#endif
