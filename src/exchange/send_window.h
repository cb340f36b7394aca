/* The send window: how much of a vector may be in flight.
 *
 * Why     What does not fit into a link's queue is lost, and TCP notices slowly. A modem's queue
 *         holds some tenths of a second of data. A transport reports only what it has accepted, not
 *         what has arrived.
 * Clock   In an all-gather the peers' frames serve as acknowledgements: unit i of a peer's vector
 *         shows that the peer has got as far as i. A rank begins a unit when the lowest unit in
 *         flight has arrived from all peers. If frames have about the same length, at most twice
 *         the window is in flight from a rank, and to it. The rank with the longest frame hears
 *         nothing more once it has all others; only TG__PUMP_WINDOW limits the rest of its frame.
 * Size    A round trip, queues included, is the time from the begin of a unit to the end of a unit
 *         that was begun when the first had ended. The window is set to
 *
 *             window * (shortest round trip + TG__QUEUE_NS) / usual round trip
 *
 *         which keeps the link busy and its queue short. Windows differ between ranks; no result
 *         depends on them.
 * Source  the rule: Jin, Wei, Low 2004, "FAST TCP: motivation, architecture, algorithms,
 *         performance", INFOCOM, eq. 4; the goal: Shalunov et al. 2012 (LEDBAT), RFC 6817 */
#ifndef TG_WINDOW_H
#define TG_WINDOW_H

#include "base/owned.h"

#define TG__QUEUE_NS 60000000 /* queueing time in a round trip: 30 ms each way */
/* Units in flight: initial, minimum, maximum. A unit to all peers is 48 KiB (tg__window_unit), so
 * the minimum is 192 KiB, which takes 79 ms at 20 Mbit/s; with more than 7 ranks it is 32 KiB per
 * peer. */
#define TG__WINDOW_FIRST 5u
#define TG__WINDOW_LEAST 4u
#define TG__WINDOW_MOST 256u

/* Bytes of a unit to each of size - 1 peers; at least 8 KiB, of which an envelope is 0.6 %. */
size_t tg__window_unit(int size);

typedef struct tg__window {
    uint32_t count;      /* units of this run */
    uint32_t from, to;   /* units below `from` have arrived; [from, to) are in flight */
    double open;         /* units that may be in flight */
    int64_t shortest_ns; /* round trip; 0: unknown */
    int64_t usual_ns;    /* round trip; it falls at once and rises slowly; 0: unknown */
    unsigned unseen;     /* consecutive runs without a round trip */
    int64_t *begun_ns;   /* (cap) when each unit was begun */
    int64_t *root_ns;    /* (cap) when the unit whose end allowed it was begun; 0: none */
} tg__window;

/* owned   of the exchange: keeps the memory
 * cap     units of a run, at most
 * Errors  TG_E_NOMEM */
TG_NODISCARD tg_status tg__window_init(tg__window *w, tg__owned *owned, uint32_t cap);

/* Start a run of count units, 1 <= count <= cap.
 * now_ns  0: unknown; then the window learns nothing */
void tg__window_start(tg__window *w, uint32_t count, int64_t now_ns);
/* Raise the number of units of this run; count <= cap. */
void tg__window_grow(tg__window *w, uint32_t count, int64_t now_ns);
/* Unit w->from has arrived from all peers. The next unit becomes the lowest, and more may be
 * begun. */
void tg__window_pass(tg__window *w, int64_t now_ns);

#endif
