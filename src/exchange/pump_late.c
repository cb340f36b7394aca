/* Detects late peers, and whom to blame for them.
 *
 * A flight watches its lowest round with messages pending: everything later waits for that round. A
 * rank that itself waits for a late one must not be blamed, although its next message has been
 * missing just as long; so a wait begins when all earlier rounds are complete. It starts again with
 * every message from (to) the same rank: on a slow link messages queue, but the rank is alive. A
 * server is waited for from the message on that it is to answer, which windows may hold back.
 *
 * While bytes of a message move, its rank is not silent either, if the transport can tell
 * (moved_ns): then a message may take TG__MESSAGE_TIMEOUTS times the timeout. A rank from which
 * something is to come may first have to take what this rank sends, so both directions count. */
#include "exchange/pump_posts.h"
#include "base/c_locale.h"
#include "base/mem.h"
#include "base/time_after.h"
#include "telegrad/clock.h"
#include "transport/endpoint.h"
#include <limits.h>
#include <stdio.h>

void tg__late_watch(tg__flight *f, int64_t now)
{
    const tg__posts *s = f->posts;
    uint32_t order = UINT32_MAX;
    for (size_t i = 0; i < s->used; i++)
        if (s->slot[i].busy && !s->slot[i].held)
            order = TG__MIN(order, s->slot[i].order);
    if (order != f->order) {
        f->order = order;
        f->order_ns = now;
    }
}

int64_t tg__late_since(const tg__pump *p, const tg__flight *f, const tg__post *m)
{
    int64_t since = TG__MAX(m->since_ns, f->order_ns);
    return TG__MAX(since, *tg__heard(p, m->peer, m->send));
}

/* Whether m has been missing for long enough to ask if its bytes move. That is asked early and
 * often, because the transport may only know what has changed since it was last asked. */
static bool may_move(int64_t since, int64_t now, int64_t age_ns)
{
    return now - since >= age_ns / 8;
}

#define NAMED 4 /* ranks that are named; the others are counted */
#define WHO_BYTES 112

/* The time since when nothing of m has moved, as far as that counts.
 * moves_p  [out] bytes have moved within age_ns, but have done so for too long; NULL: no matter */
static int64_t silent_since(const tg__pump *p, const tg__flight *f, const tg__post *m, int64_t now,
                            int64_t age_ns, bool *moves_p)
{
    const int64_t since = tg__late_since(p, f, m);
    if (!may_move(since, now, age_ns))
        return since;
    const int64_t moved =
        m->send ? tg__moved_ns(p->transport, m->peer, true) : tg__active_ns(p->transport, m->peer);
    const int64_t begin = m->send ? since : TG__MAX(since, *tg__heard(p, m->peer, true));
    const int64_t most = age_ns > INT64_MAX / TG__MESSAGE_TIMEOUTS
                             ? INT64_MAX
                             : tg__time_after(begin, (TG__MESSAGE_TIMEOUTS - 1) * age_ns);
    if (moves_p != NULL)
        *moves_p = moved > most;
    return TG__MAX(since, TG__MIN(moved, most));
}

/* True if m belongs to the watched round and has been missing for at least age_ns. */
static bool is_late(const tg__pump *p, const tg__flight *f, const tg__post *m, int64_t now,
                    int64_t age_ns)
{
    return tg__late_waits(f, m) &&
           now >= tg__time_after(silent_since(p, f, m, now, age_ns, NULL), age_ns);
}

/* True if a message is late although its bytes move. */
static bool any_moves(const tg__pump *p, const tg__flight *f, int64_t now, int64_t age_ns)
{
    bool moves = false;
    for (size_t i = 0; i < f->posts->used && !moves; i++)
        if (is_late(p, f, &f->posts->slot[i], now, age_ns))
            (void)silent_since(p, f, &f->posts->slot[i], now, age_ns, &moves);
    return moves;
}

/* Describe the peers, other than `except`, whose messages are late by is_late: "rank 1, rank 2 and
 * 3 others sent nothing", lowest ranks first. Missing sends take precedence over messages not
 * taken. "" if there is none. Returns their number. *first_p: the lowest of them; -1: none. */
static int late_peers(const tg__pump *p, const tg__flight *f, int64_t now, int64_t age_ns,
                      int except, char who[WHO_BYTES], int *first_p)
{
    const tg__posts *s = f->posts;
    int named[NAMED] = {-1}, count[2] = {0, 0};
    for (size_t i = 0; i < s->used; i++)
        if (s->slot[i].peer != except && is_late(p, f, &s->slot[i], now, age_ns))
            count[s->slot[i].send]++;
    bool send = count[false] == 0;
    const int names = TG__MIN(count[send], NAMED), size = p->transport->size;
    int len = 0;
    who[0] = '\0';
    for (int k = 0; k < names; k++) {
        named[k] = INT_MAX;
        for (size_t i = 0; i < s->used; i++) {
            const tg__post *m = &s->slot[i];
            if (m->send == send && m->peer != except && m->peer < named[k] &&
                (k == 0 || m->peer > named[k - 1]) && is_late(p, f, m, now, age_ns))
                named[k] = m->peer;
        }
        len += snprintf(who + len, WHO_BYTES - (size_t)len, "%s%s %d", k > 0 ? ", " : "",
                        named[k] < size ? "rank" : "server",
                        named[k] < size ? named[k] : named[k] - size);
    }
    if (count[send] > names)
        len += snprintf(who + len, WHO_BYTES - (size_t)len, " and %d other%s", count[send] - names,
                        count[send] - names > 1 ? "s" : "");
    if (names > 0)
        snprintf(who + len, WHO_BYTES - (size_t)len, " %s nothing", send ? "took" : "sent");
    *first_p = named[0];
    return count[send];
}

static int64_t patience_ns(const tg__flight *f, int64_t timeout_ns)
{
    const int64_t times = f->group ? (int64_t)f->group->patience : 1;
    return timeout_ns > INT64_MAX / times ? INT64_MAX : timeout_ns * times;
}

/* A rank that we wait for may be waiting for others. If some rank is known to have given up because
 * of another, nothing more will arrive. A rank that left without blaming another may simply have
 * finished. */
static tg_status somebody_gave_up(tg__pump *p, const tg__flight *f)
{
    tg_transport *t = p->transport;
    for (int rank = 0; t->ops->blamed && rank < (int)tg__peers_of(t); rank++)
        if (rank != t->rank && t->ops->blamed(t, rank) >= 0) {
            tg__accuse(p, f, rank);
            return tg_fail(TG_E_PEER, "rank %d has left %s", rank,
                           tg__where_of(p, f, f->order).text);
        }
    return TG_OK;
}

/* A server that its transport calls again has the time that the transport gives it. */
static void excuse_away(const tg__pump *p, int64_t now)
{
    tg_transport *t = p->transport;
    if (!TG_HAS(tg_transport_ops, t->ops, is_away) || !t->ops->is_away)
        return;
    for (int peer = t->size; peer < (int)tg__peers_of(t); peer++)
        if (t->ops->is_away(t, peer))
            *tg__heard(p, peer, false) = *tg__heard(p, peer, true) = now;
}

tg_status tg__late_check(tg__pump *p, int64_t now, int64_t *due_ns_p)
{
    int64_t due = INT64_MAX;
    if (p->active)
        excuse_away(p, now);
    for (tg__flight *f = p->active; f; f = f->next) {
        const tg__posts *s = f->posts;
        const int64_t timeout = tg__channel_of(p, f)->timeout_ns;
        const int64_t patience = patience_ns(f, timeout);
        int64_t flight_due = INT64_MAX;
        for (size_t i = 0; i < s->used; i++)
            if (tg__late_waits(f, &s->slot[i]))
                flight_due = TG__MIN(
                    flight_due,
                    tg__time_after(silent_since(p, f, &s->slot[i], now, patience, NULL), patience));
        if (flight_due != INT64_MAX && patience > timeout &&
            flight_due - (patience - timeout) <= now) {
            TG_TRY(somebody_gave_up(p, f));
            due = TG__MIN(due, tg__time_after(now, timeout / 4));
        }
        if (flight_due <= now) {
            char who[WHO_BYTES], cut_off[48] = "";
            int first, count = late_peers(p, f, now, patience, -1, who, &first);
            if (count == 0) { /* something has moved just now */
                due = TG__MIN(due, now);
                continue;
            }
            tg__accuse(p, f, first);
            if (count > 1 && count == f->x->size - 1) /* if so, this rank may be at fault */
                snprintf(cut_off, sizeof cut_off, ": this rank (%d) may be cut off",
                         p->transport->rank);
            if (any_moves(p, f, now, patience))
                return tg_fail(TG_E_PEER, "%s that was whole for %.1f s %s", who,
                               (double)patience * TG__MESSAGE_TIMEOUTS * 1e-9,
                               tg__where_of(p, f, f->order).text);
            return tg_fail(TG_E_PEER, "%s for %.*f s%s %s", who, patience < 100000000 ? 3 : 1,
                           (double)patience * 1e-9, cut_off, tg__where_of(p, f, f->order).text);
        }
        due = TG__MIN(due, flight_due);
    }
    *due_ns_p = due;
    return TG_OK;
}

tg_status tg__late_blame(tg__pump *p, const tg__flight *f, const tg__post *m, tg_status status)
{
    tg__accuse(p, f, m->peer);
    char who[WHO_BYTES] = "", hint[WHO_BYTES + 32] = "";
    int64_t half = p->timeout_ns / 2;
    if (status == TG_E_PEER)
        late_peers(p, f, tg_now_ns(p->transport->clock), half, m->peer, who, &p->suspect);
    if (who[0])
        tg__snprintf(hint, sizeof hint, "; %s for over %.2f s", who, (double)half * 1e-9);
    return tg_fail(status, "%s%s %s", tg_error(), hint, tg__where_of(p, f, m->order).text);
}

/* This rank did not listen from `since` to now. If that was long, no peer counts as late. */
static void forgive(tg__pump *p, int64_t since, int64_t now)
{
    const int64_t away = now - since;
    bool any = false;
    for (tg__flight *f = p->active; f; f = f->next) {
        if (away <= tg__late_slack_ns(tg__channel_of(p, f)->timeout_ns))
            continue;
        any = true;
        f->order_ns = TG__MIN(now, f->order_ns + away);
        for (size_t i = 0; i < f->posts->used; i++)
            f->posts->slot[i].since_ns = TG__MIN(now, f->posts->slot[i].since_ns + away);
    }
    for (size_t i = 0; any && i < 2 * tg__peers_of(p->transport); i++)
        p->heard_ns[i] = TG__MIN(now, p->heard_ns[i] + away);
}

int64_t tg__late_least_slack_ns(tg__pump *p)
{
    int64_t least = INT64_MAX / 2;
    for (const tg__flight *f = p->active; f; f = f->next)
        least = TG__MIN(least, tg__late_slack_ns(tg__channel_of(p, f)->timeout_ns));
    return least;
}

int64_t tg__late_ran(tg__pump *p, int64_t until_ns)
{
    const int64_t now = tg_now_ns(p->transport->clock), since = TG__MAX(p->ran_ns, until_ns);
    if (p->ran_ns != 0 && now - since > tg__late_least_slack_ns(p))
        forgive(p, since, now);
    p->ran_ns = now;
    return now;
}
