#include "exchange/server_window.h"
#include "base/mem.h"

/* The part of the window that may be sent after a pause. */
static double first_part(int ranks, int servers)
{
    const double queued = TG__MAX(1 - (double)servers / ranks, 0);
    return TG__SERVER_QUEUED_FIRST < queued ? TG__SERVER_QUEUED_FIRST / queued : 1;
}

bool tg__server_window_lets(tg__server_window *w, int ranks, int servers, size_t own, size_t len)
{
    if (w->open <= 0)
        w->open = (double)TG__MAX(TG__SERVER_WINDOW_FIRST / (size_t)ranks, TG__SERVER_WINDOW_LEAST);
    const double may = w->flows ? w->open : w->open * first_part(ranks, servers);
    if (own == 0 || (double)(w->out + len) <= may)
        return true;
    w->full = w->waits = true;
    return false;
}

int64_t tg__server_window_sent(tg__server_window *w, size_t len, int64_t now_ns)
{
    w->out += len;
    w->waits = false;
    return w->flows ? now_ns : -now_ns;
}

static void learn(tg__server_window *w, size_t len, int64_t round_trip_ns)
{
    w->usual_ns = round_trip_ns < w->usual_ns || w->usual_ns == 0
                      ? round_trip_ns
                      : w->usual_ns + (round_trip_ns - w->usual_ns) / 8;
    const double aim =
        TG__MIN((double)(w->shortest_ns + TG__SERVER_QUEUE_NS) / (double)w->usual_ns, 2.0);
    if (aim > 1 && !w->full) /* a larger one would have changed nothing */
        return;
    /* While a window is answered, it comes half of the way. */
    const double open = w->open + (aim - 1) / 2 * (double)len;
    w->open =
        TG__MIN(TG__MAX(open, (double)TG__SERVER_WINDOW_LEAST), (double)TG__SERVER_WINDOW_MOST);
}

void tg__server_window_answered(tg__server_window *w, size_t len, int64_t sent_ns, int64_t now_ns)
{
    const int64_t round_trip_ns = now_ns - (sent_ns < 0 ? -sent_ns : sent_ns);
    w->out -= len;
    w->flows = w->out > 0 || w->waits;
    w->full &= w->flows;
    if (round_trip_ns <= 0)
        return;
    if (w->shortest_ns == 0 || round_trip_ns < w->shortest_ns)
        w->shortest_ns = round_trip_ns;
    if (sent_ns > 0)
        learn(w, len, round_trip_ns);
}
