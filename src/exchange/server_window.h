/* The window to a server: how much of what this rank has sent to it may be unanswered. Each server
 * has a window of its own.
 *
 * Why     All ranks send to a server at the same time, each as fast as its own link. What the
 *         server's link cannot take waits in its queue, and what does not fit there is lost.
 * Clock   A server answers a part when that of all ranks is here (in mode async, at once), so
 *         answers show what has arrived. A round trip, queues included, is the time from a message
 *         to its answer. That of the first messages after a pause may be long because other ranks
 *         begin later, so these only count if they are the shortest.
 * Size    The rule of send_window.h, in bytes:
 *         window * (shortest round trip + TG__SERVER_QUEUE_NS) / usual round trip
 *         After a pause, the messages of all ranks arrive at once. A rank's link serves all
 *         servers, so they arrive ranks / servers times as fast as a server's link takes them, if
 *         all links are alike, and the part 1 - servers / ranks of them has to wait. So before the
 *         first answer comes, each rank sends so much that TG__SERVER_QUEUED_FIRST of their windows
 *         waits.
 * Order   It covers all exchanges of a channel, and one that has nothing unanswered may always send
 *         a message. So the lowest part of every exchange is under way on all ranks, and there is
 *         no deadlock, in whatever order ranks begin their exchanges. */
#ifndef TG_SERVER_WINDOW_H
#define TG_SERVER_WINDOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TG__SERVER_QUEUE_NS 30000000 /* queueing time in a round trip: 15 ms each way */
#define TG__SERVER_QUEUED_FIRST 0.375
/* Bytes: of all ranks together, when nothing is known yet; of a rank, at least, so that two slices
 * (TG__STAR_SLICE_BYTES) may go after a pause; and at most. */
#define TG__SERVER_WINDOW_FIRST ((size_t)1 << 20)
#define TG__SERVER_WINDOW_LEAST ((size_t)96 << 10)
#define TG__SERVER_WINDOW_MOST ((size_t)64 << 20)

/* Zero it. */
typedef struct tg__server_window {
    size_t out;          /* bytes sent and not answered */
    double open;         /* bytes that may be out; 0: not begun */
    int64_t shortest_ns; /* round trip; 0: unknown */
    int64_t usual_ns;    /* round trip; it falls at once and rises slowly; 0: unknown */
    bool flows;          /* answers have come since nothing was out */
    bool waits;          /* a message is held back, and follows the next answer at once */
    bool full;           /* something has had to wait since nothing was out */
} tg__server_window;

/* Whether a message of this many bytes may be sent. own: bytes of its exchange that are out. */
bool tg__server_window_lets(tg__server_window *w, int ranks, int servers, size_t own, size_t len);
/* A message is sent. Returns what tg__server_window_answered needs of it: its time, or if it is one
 * of the first after a pause, its time times -1. */
int64_t tg__server_window_sent(tg__server_window *w, size_t len, int64_t now_ns);
/* A message is answered. */
void tg__server_window_answered(tg__server_window *w, size_t len, int64_t sent_ns, int64_t now_ns);

#endif
