/* How fast a rank sends to peers that are far away.
 *
 * Why     What a link's queue cannot hold is lost. The connections of a rank to its peers share its
 *         uplink, but congestion control sees one connection at a time, and each sends as if it
 *         were alone. And acknowledgements wait in the same queues.
 * Rate    All connections to far peers share a rate, in bytes: tokens come at this rate, and those
 *         that have bytes to send take them in turns. Once a round trip, if tokens were short all
 *         the time, it is set to
 *
 *             (bytes on their way / round trip) * (1 + (QUEUE - queueing time) / SLOWNESS)
 *
 *         The first factor is what the link carries, by Little's law; the queueing time is the
 *         usual round trip less the shortest. In between, tokens come up to 1/4 faster while the
 *         queue is short, and slower while it is long. If little was lost and the queue is still
 *         unknown, the rate grows with what has been delivered.
 * Control Congestion control still decides when the bytes leave, and what is lost. Where the system
 *         has it, it is bbr: losses do not slow it down, nor does a pause.
 * Source  Jin, Wei, Low 2004, "FAST TCP: motivation, architecture, algorithms, performance",
 *         INFOCOM, eq. 4, here for the sum of all connections; Cardwell et al. 2016, "BBR:
 *         congestion-based congestion control", ACM Queue 14(5) */
#ifndef TG_NET_PACE_H
#define TG_NET_PACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A connection, and what its socket says. */
typedef struct tg__paced {
    struct tg__paced *next;
    int fd;
    bool far;             /* false: nothing is limited here */
    bool full;            /* its congestion control takes no more */
    uint64_t out;         /* bytes given to the socket that have not arrived */
    uint64_t arrived;     /* bytes, in all */
    uint64_t resent;      /* bytes, in all */
    uint32_t shortest_us; /* round trip */
    uint32_t usual_us;
    uint64_t arrived_before, resent_before; /* at the interval's begin */
} tg__paced;

/* All connections of a rank to far peers. */
typedef struct tg__pace {
    void (*read)(tg__paced *c); /* asks the socket */
    tg__paced *first;
    double rate;   /* bytes a nanosecond; 0: there are no far peers yet */
    double gain;   /* tokens come so many times as fast */
    double tokens; /* bytes that may be sent now; below 0: debt */
    bool found;    /* a queue has been seen, so the rate is about that of the link */
    bool short_of; /* tokens were, since the sockets were asked */
    bool begins;   /* the interval began with an idle link */
    /* Of the interval: time (ns), time without tokens, and bytes on their way x time. */
    double looked, lacked, out;
    int64_t looked_ns, filled_ns, begun_ns, ends_ns;
    int64_t tick_ns; /* when connections without room may ask again */
} tg__pace;

struct tcp_info;

/* Of the bytes without an acknowledgement: those on their way. Not those that arrived behind a
 * loss, nor those that are known to be lost, until they are sent again: a peer that is cut off
 * would keep its bytes on their way, and so the others' from being sent. */
uint64_t tg__pace_under_way(const struct tcp_info *i, uint64_t unacked);

void tg__pace_init(tg__pace *pace);
/* Begin with a connected socket; decide whether the peer is far, and its congestion control. */
void tg__pace_connect(tg__pace *pace, tg__paced *c, int fd);
/* Begin with a connection whose fields have been read. */
void tg__pace_add(tg__pace *pace, tg__paced *c);
void tg__pace_remove(tg__pace *pace, tg__paced *c);
/* Bytes that may be given to the socket now, SIZE_MAX without limit; 0: ask again at tick_ns. */
size_t tg__pace_room(tg__pace *pace, tg__paced *c, int64_t now_ns);
/* So many were given to it. */
static inline void tg__pace_gave(tg__pace *pace, tg__paced *c, size_t bytes)
{
    c->out += bytes;
    pace->tokens -= c->far ? (double)bytes : 0;
}

#endif
