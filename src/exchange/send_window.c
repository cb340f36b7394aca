#include "exchange/send_window.h"
#include "base/mem.h"

/* A window that is larger than the data to send learns nothing. After this many such runs it is
 * made smaller, in case the link has become slower. */
#define UNSEEN_MOST 16u

size_t tg__window_unit(int size)
{
    const size_t all = (size_t)48 << 10, least = (size_t)8 << 10;
    const size_t peers = size > 1 ? (size_t)size - 1 : 1;
    return TG__MAX(all / peers / 64 * 64, least);
}

tg_status tg__window_init(tg__window *w, tg__owned *owned, uint32_t cap)
{
    *w = (tg__window){.open = TG__WINDOW_FIRST};
    TG_TRY(tg__owned_alloc(owned, cap, sizeof *w->begun_ns, &w->begun_ns));
    return tg__owned_alloc(owned, cap, sizeof *w->root_ns, &w->root_ns);
}

static void begin(tg__window *w, int64_t now_ns, int64_t root_ns)
{
    for (; w->to < w->count && w->to - w->from < (uint32_t)w->open; w->to++) {
        w->begun_ns[w->to] = now_ns;
        w->root_ns[w->to] = root_ns;
    }
}

void tg__window_start(tg__window *w, uint32_t count, int64_t now_ns)
{
    if (count > 1 && ++w->unseen > UNSEEN_MOST) {
        w->open = TG__MAX(TG__MIN(w->open, count / 2.0), (double)TG__WINDOW_LEAST);
        w->unseen = 0;
    }
    w->count = count;
    w->from = w->to = 0;
    begin(w, now_ns, 0);
}

void tg__window_grow(tg__window *w, uint32_t count, int64_t now_ns)
{
    w->count = TG__MAX(w->count, count);
    begin(w, now_ns, 0);
}

static void learn(tg__window *w, int64_t round_trip_ns)
{
    w->unseen = 0;
    if (w->shortest_ns == 0 || round_trip_ns < w->shortest_ns)
        w->shortest_ns = round_trip_ns;
    /* A queue persists. A single long round trip may only mean that a rank waited for a
     * processor. */
    w->usual_ns = round_trip_ns < w->usual_ns || w->usual_ns == 0
                      ? round_trip_ns
                      : w->usual_ns + (round_trip_ns - w->usual_ns) / 8;
    const double aim = (double)(w->shortest_ns + TG__QUEUE_NS) / (double)w->usual_ns;
    const double want = w->open * TG__MIN(aim, 2.0);
    /* A round trip contains 2 * open units, and this is one of them. */
    const double open = w->open + (want - w->open) / (2 * w->open);
    w->open = TG__MIN(TG__MAX(open, (double)TG__WINDOW_LEAST), (double)TG__WINDOW_MOST);
}

void tg__window_pass(tg__window *w, int64_t now_ns)
{
    const uint32_t i = w->from++;
    if (w->root_ns[i] != 0 && now_ns > w->root_ns[i])
        learn(w, now_ns - w->root_ns[i]);
    begin(w, now_ns, w->begun_ns[i]);
}
