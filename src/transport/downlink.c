#include "transport/downlink.h"
#include <string.h>

#define TRANSFER_MAX_NS (INT64_C(1) << 53)

int64_t tg__transfer_ns(size_t len, double bps)
{
    if (!(bps > 0))
        return 0;
    double ns = (double)len * 8e9 / bps;
    return ns < (double)TRANSFER_MAX_NS ? (int64_t)(ns + 0.5) : TRANSFER_MAX_NS;
}

/* Replace busy[from, to) by `made`, which covers it. */
static void replace(tg__downlink *d, size_t from, size_t to, struct tg__busy made)
{
    struct tg__busy *busy = d->busy;
    if (from == to && d->count == TG__DOWNLINK_MAX) {
        if (from == 0)
            return; /* older than everything recorded */
        from--;
        memmove(busy, busy + 1, from * sizeof *busy);
        busy[from] = made;
        return;
    }
    memmove(busy + from + 1, busy + to, (d->count - to) * sizeof *busy);
    busy[from] = made;
    d->count = d->count + 1 - (to - from);
}

int64_t tg__downlink_serve(tg__downlink *d, int64_t start_ns, int64_t need_ns)
{
    const struct tg__busy *busy = d->busy;
    size_t from = 0;
    while (from < d->count && busy[from].end_ns < start_ns)
        from++;
    size_t to = from;
    int64_t begin = start_ns, t = start_ns;
    if (to < d->count && busy[to].begin_ns <= t) {
        begin = busy[to].begin_ns;
        t = busy[to++].end_ns;
    }
    while (to < d->count && need_ns > busy[to].begin_ns - t) {
        need_ns -= busy[to].begin_ns - t;
        t = busy[to++].end_ns;
    }
    t += need_ns;
    int64_t end = t;
    if (to < d->count && busy[to].begin_ns == t)
        end = busy[to++].end_ns;
    replace(d, from, to, (struct tg__busy){begin, end});
    return t;
}
