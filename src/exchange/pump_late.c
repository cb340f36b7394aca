/* Who is late, and who is to blame.
 *
 * A flight watches its lowest round with messages pending: it is what everything later waits for. A
 * rank that itself waits for a late one must not be blamed, although its next message is away just
 * as long; so a wait begins when all earlier rounds are complete. It begins anew with every message
 * from (to) the same rank: on a slow link messages queue, but the rank is alive. */
#include "exchange/pump_posts.h"
#include "base/mem.h"
#include <stdio.h>

void tg__late_watch(tg__flight *f, int64_t now)
{
    const tg__posts *s = f->posts;
    uint32_t order = UINT32_MAX;
    for (size_t i = 0; i < s->used; i++)
        if (s->slot[i].busy)
            order = TG__MIN(order, s->slot[i].order);
    if (order != f->order) {
        f->order = order;
        f->order_ns = now;
    }
}

static int64_t waiting_since(const tg__pump *p, const tg__flight *f, const tg__post *m)
{
    int64_t since = TG__MAX(m->since_ns, f->order_ns);
    return TG__MAX(since, *tg__heard(p, m->peer, m->send));
}

static int64_t add_saturated(int64_t a, int64_t b)
{
    return a > INT64_MAX - b ? INT64_MAX : a + b;
}

/* Whose messages of the watched round have been away for at least age_ns: the lowest rank (other
 * than `except`), -1 if none, and how many others. Who sends nothing comes before who takes
 * nothing. */
static int late_peer(const tg__pump *p, const tg__flight *f, int64_t now, int64_t age_ns,
                     int except, bool *send_p, int *others_p)
{
    const tg__posts *s = f->posts;
    int late[2] = {-1, -1}, count[2] = {0, 0};
    for (size_t i = 0; i < s->used; i++) {
        const tg__post *m = &s->slot[i];
        if (!m->busy || m->order != f->order || m->peer == except ||
            now < add_saturated(waiting_since(p, f, m), age_ns))
            continue;
        count[m->send]++;
        if (late[m->send] < 0 || m->peer < late[m->send])
            late[m->send] = m->peer;
    }
    *send_p = late[false] < 0;
    *others_p = count[*send_p] - 1;
    return late[*send_p];
}

static void others_text(char *text, size_t cap, int others)
{
    text[0] = '\0';
    if (others > 0)
        snprintf(text, cap, " and %d other%s", others, others > 1 ? "s" : "");
}

tg_status tg__late_check(const tg__pump *p, int64_t now, int64_t *due_ns_p)
{
    int64_t due = INT64_MAX;
    for (tg__flight *f = p->active; f; f = f->next) {
        const tg__posts *s = f->posts;
        int64_t flight_due = INT64_MAX;
        for (size_t i = 0; i < s->used; i++)
            if (s->slot[i].busy && s->slot[i].order == f->order)
                flight_due = TG__MIN(
                    flight_due, add_saturated(waiting_since(p, f, &s->slot[i]), p->timeout_ns));
        if (flight_due <= now) {
            bool send;
            int others;
            int peer = late_peer(p, f, now, p->timeout_ns, -1, &send, &others);
            char more[32];
            others_text(more, sizeof more, others);
            return tg_fail(TG_E_PEER, "rank %d%s %s nothing for %.1f s " TG__WHERE, peer, more,
                           send ? "took" : "sent", (double)p->timeout_ns * 1e-9,
                           TG__WHERE_ARGS(f, f->order));
        }
        due = TG__MIN(due, flight_due);
    }
    *due_ns_p = due;
    return TG_OK;
}

tg_status tg__late_blame(const tg__pump *p, const tg__flight *f, const tg__post *m,
                         tg_status status)
{
    char hint[80] = "";
    int64_t now = tg_now_ns(p->transport->clock), half = p->timeout_ns / 2;
    bool send;
    int others;
    int peer = late_peer(p, f, now, half, m->peer, &send, &others);
    if (status == TG_E_PEER && peer >= 0) {
        char more[32];
        others_text(more, sizeof more, others);
        snprintf(hint, sizeof hint, "; rank %d%s %s nothing for over %.2f s", peer, more,
                 send ? "took" : "sent", (double)half * 1e-9);
    }
    return tg_fail(status, "%s%s " TG__WHERE, tg_error(), hint, TG__WHERE_ARGS(f, m->order));
}

void tg__late_forgive(tg__pump *p, int64_t since, int64_t now)
{
    int64_t away = now - since;
    for (size_t i = 0; p->heard_ns && i < 2 * (size_t)p->transport->size; i++)
        p->heard_ns[i] = TG__MIN(now, p->heard_ns[i] + away);
    for (tg__flight *f = p->active; f; f = f->next) {
        f->order_ns = TG__MIN(now, f->order_ns + away);
        for (size_t i = 0; i < f->posts->used; i++)
            f->posts->slot[i].since_ns = TG__MIN(now, f->posts->slot[i].since_ns + away);
    }
}
