/* The receiving end of an emulated link: whose bytes come through it when. */
#ifndef TG_DOWNLINK_H
#define TG_DOWNLINK_H

#include "telegrad/base.h"

#define TG__DOWNLINK_MAX 32

/* Stretches of time, disjoint and in order, in which it is busy. Zero-initialise. The oldest are
 * forgotten, and count as idle then. */
typedef struct tg__downlink {
    struct tg__stretch {
        int64_t begin_ns, end_ns;
    } busy[TG__DOWNLINK_MAX];
    size_t count;
} tg__downlink;

/* Give a message that comes from start_ns on the next need_ns (> 0) of idle time. Returns when it
 * is served. So nothing is idle while a message waits, and a message that is asked for late (its
 * receive was posted long after it came) still gets the time that was idle when it came. One thread
 * at a time. */
int64_t tg__downlink_serve(tg__downlink *d, int64_t start_ns, int64_t need_ns);

/* How long len bytes take at bps bits per second (0: no time at all), at most 104 days. */
int64_t tg__transfer_ns(size_t len, double bps);

#endif
