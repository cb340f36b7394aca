#include "exchange/waits.h"
#include "base/mem.h"
#include "exchange/pump_posts.h"
#include "telegrad/clock.h"
#include "transport/endpoint.h"

#include <limits.h>
#include <stdio.h>

#define SECOND INT64_C(1000000000)

enum { LOG_FIRST = 10 }; /* in seconds; then twice as long each time */

tg_status tg__waits_create(size_t peers, tg__waits **w_p)
{
    return tg_alloc(1, sizeof **w_p + peers * sizeof(*w_p)->peer[0], w_p);
}

void tg__waits_begin(tg__waits *w, const tg_clock *clock)
{
    atomic_store_explicit(&w->since_ns, TG__MAX(tg_now_ns(clock), 1), memory_order_relaxed);
}

void tg__waits_end(tg__waits *w)
{
    atomic_store_explicit(&w->since_ns, 0, memory_order_relaxed);
}

/* True if f waits for messages to receive: the watched round's pending receives are waited for, or,
 * if all have arrived, its pending sends. */
static bool waits_to_receive(const tg__flight *f)
{
    for (size_t i = 0; i < f->posts->used; i++) {
        const tg__post *m = &f->posts->slot[i];
        if (!m->send && tg__late_waits(f, m))
            return true;
    }
    return false;
}

static bool is_missing(const tg__flight *f, const tg__post *m, bool receive)
{
    return m->send == !receive && tg__late_waits(f, m);
}

/* Start of the caller's wait; 0: no caller waits. */
static int64_t waited_since(const tg__waits *w)
{
    return w == NULL ? 0 : atomic_load_explicit(&w->since_ns, memory_order_relaxed);
}

void tg__waits_slept(tg__pump *p, int64_t from_ns, int64_t to_ns)
{
    for (const tg__flight *f = p->active; f != NULL; f = f->next) {
        tg__waits *w = tg__channel_of(p, f)->waits;
        const int64_t since = waited_since(w);
        const int64_t begin = TG__MAX(since, from_ns);
        if (since == 0 || begin >= to_ns)
            continue;
        const bool receive = waits_to_receive(f);
        for (size_t i = 0; i < f->posts->used; i++) {
            const tg__post *m = &f->posts->slot[i];
            if (!is_missing(f, m, receive))
                continue;
            const int64_t from = TG__MAX(begin, w->peer[m->peer].until_ns);
            if (from < to_ns)
                atomic_fetch_add_explicit(&w->peer[m->peer].total_ns, to_ns - from,
                                          memory_order_relaxed);
            w->peer[m->peer].until_ns = to_ns;
        }
    }
}

/* Of the messages missing on w's channel, find the one missing for longest; if several, that of the
 * lowest rank. Returns since when it has been missing, INT64_MAX if none is. */
static int64_t find(tg__pump *p, tg__waits *w, int64_t since, tg_wait *wait)
{
    int64_t first = INT64_MAX;
    for (size_t peer = 0; peer < tg__peers_of(p->transport); peer++)
        w->peer[peer].missing = false;
    for (const tg__flight *f = p->active; f != NULL; f = f->next) {
        const bool receive = waits_to_receive(f);
        for (size_t i = 0; tg__channel_of(p, f)->waits == w && i < f->posts->used; i++) {
            const tg__post *m = &f->posts->slot[i];
            if (!is_missing(f, m, receive))
                continue;
            wait->others += !w->peer[m->peer].missing;
            w->peer[m->peer].missing = true;
            const int64_t at = TG__MAX(since, tg__late_since(p, f, m));
            if (at > first || (at == first && m->peer >= wait->rank))
                continue;
            first = at;
            wait->rank = m->peer;
            wait->step = f->no_step ? w->step : f->step;
            wait->indirect = (m->order & 63) > 0 || f->program_round > 0;
        }
    }
    wait->others -= first != INT64_MAX;
    return first;
}

/* Log the same wait after LOG_FIRST seconds, twice as many, and so on. */
static void log_it(tg__waits *w, const tg_wait *wait, int own_rank, int64_t since)
{
    char others[32] = "";
    if (since != w->logged_since_ns)
        w->log_next = LOG_FIRST * SECOND;
    w->logged_since_ns = since;
    if (wait->for_ns < w->log_next)
        return;
    while (w->log_next <= wait->for_ns)
        w->log_next *= 2;
    if (wait->others > 0)
        snprintf(others, sizeof others, " and %d other%s", wait->others,
                 wait->others > 1 ? "s" : "");
    tg_log(TG_LOG_WARN, "rank %d has been waiting for rank %d%s for %.0f s (step %llu)%s", own_rank,
           wait->rank, others, (double)wait->for_ns * 1e-9, (unsigned long long)wait->step,
           wait->indirect ? ", which may itself wait for another" : "");
}

/* With simulated time, no person is waiting. */
static bool is_simulated(const tg_clock *clock)
{
    return TG_HAS(tg_clock, clock, work) && clock->work != NULL;
}

static void tell(tg__pump *p, tg__waits *w, int64_t now)
{
    const int64_t since = waited_since(w);
    if (since == 0 || now - TG__MAX(since, w->told_ns) < SECOND || w->looked_ns == now)
        return;
    w->looked_ns = now;
    tg_wait wait = {.struct_size = sizeof wait, .rank = INT_MAX};
    const int64_t first = find(p, w, since, &wait);
    if (first > now - SECOND)
        return;
    w->told_ns = now;
    wait.for_ns = now - first;
    if (w->tell != NULL)
        w->tell(w->arg, &wait);
    else
        log_it(w, &wait, p->transport->rank, first);
}

void tg__waits_tell(tg__pump *p, int64_t now)
{
    for (const tg__flight *f = p->active; f != NULL && !is_simulated(p->transport->clock);
         f = f->next)
        tell(p, tg__channel_of(p, f)->waits, now);
}
