/* The receiving end of an emulated link: determines when it serves each message. */
#ifndef TG_DOWNLINK_H
#define TG_DOWNLINK_H

#include "telegrad/base.h"

#define TG__DOWNLINK_MAX 32

/* The times at which it is busy, disjoint and in order. Zero-initialise. The oldest are dropped,
 * and then count as idle. */
typedef struct tg__downlink {
    struct tg__busy {
        int64_t begin_ns, end_ns;
    } busy[TG__DOWNLINK_MAX];
    size_t count;
} tg__downlink;

/* Give a message that arrives from start_ns on the next need_ns (> 0) of idle time. Returns when it
 * is served. So the link is never idle while a message waits, and a message that is requested late
 * (its receive was posted long after its arrival) still gets the time that was idle when it
 * arrived. One thread at a time. */
int64_t tg__downlink_serve(tg__downlink *d, int64_t start_ns, int64_t need_ns);

/* The time that len bytes take at bps bits per second (0: no time), at most 104 days. */
int64_t tg__transfer_ns(size_t len, double bps);

#endif
