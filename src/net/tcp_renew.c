/* The transport of a worker whose connection with a server has broken off: it calls the server
 * again. */
#include "net/attach.h"
#include "net/forked.h"
#include "net/tcp_impl.h"
#include <stdio.h>
#include <stdlib.h>

#define CALL_NS INT64_C(5000000000)    /* for one call, once the server's name is looked up */
#define LOOKUP_NS INT64_C(20000000000) /* with that; the other servers wait meanwhile */

/* The connection has broken off just now. If the server has answered nothing since it was called
 * last, this is still the same loss: otherwise one that ends each connection would be called for
 * ever. */
static tg_status begin(tg__tcp *t, tg__peer *p, int64_t now)
{
    tg__renewal *r = t->net->renewal;
    struct tg__away *away = &r->server[p->rank - 1];
    tg__stream *stream = p->stream;
    const tg_status status = tg__fail_gone(t, p);
    if (p->dismisses)
        return status;
    if (p->answers)
        *away = (struct tg__away){.losses = away->losses};
    away->losses++;
    away->since_ns = now - away->spent_ns;
    away->next_ns = now + tg__call_pause_ns(away->turn);
    snprintf(away->why, sizeof away->why, "%s", tg_error());
    tg__peer_release(p);
    tg__peer_begin(p, p->rank);
    t->net->stream[p->rank] = NULL;
    tg__stream_close(stream);
    free(stream);
    tg_log(TG_LOG_WARN, "%s: calling it again, for up to %.3g s", away->why,
           (double)r->limit_ns * 1e-9);
    return TG_OK;
}

/* Connected. */
static tg_status end(tg__tcp *t, tg__peer *p, int64_t now)
{
    tg__renewal *r = t->net->renewal;
    struct tg__away *away = &r->server[p->rank - 1];
    TG_TRY(tg__peer_connect(t, p, t->net->stream[p->rank]));
    tg_log(TG_LOG_WARN, "reconnected to server %d after %.1f s (connections lost so far: %d)",
           p->rank - 1, (double)(now - away->since_ns) * 1e-9, away->losses);
    away->spent_ns = now - away->since_ns;
    return TG_OK;
}

static tg_status give_up(const tg__renewal *r, const struct tg__away *away)
{
    return tg_fail(TG_E_PEER, "%s; it was called for %.3g s%s%s", away->why,
                   (double)r->limit_ns * 1e-9, *away->last ? ": " : "", away->last);
}

tg_status tg__tcp_renew(tg_transport *base, int peer, bool *back_p)
{
    tg__tcp *t = (tg__tcp *)base;
    tg_net *n = t->net;
    tg__renewal *r = n->renewal;
    tg__peer *p = &t->peer[peer];
    struct tg__away *away = &r->server[peer - 1];
    int64_t now = tg_now_ns(base->clock);
    tg__called how;
    TG_TRY(tg__net_check_own(n, "renew"));
    *back_p = p->stream && !p->gone;
    if (*back_p)
        return TG_OK;
    if (p->stream)
        TG_TRY(begin(t, p, now));
    if (r->config.stop && r->config.stop(r->config.stop_arg))
        return tg_fail(TG_E_STOPPED, "stopped while calling server %d again", peer - 1);
    if (now < away->next_ns)
        return TG_OK;
    if (now - away->since_ns >= r->limit_ns)
        return give_up(r, away);
    n->config = &r->config;
    const int64_t limit_ns = away->since_ns + r->limit_ns;
    n->deadline_ns = now + LOOKUP_NS < limit_ns ? now + LOOKUP_NS : limit_ns;
    const tg_status status =
        tg__net_call_server(n, r->job, r->count, peer - 1, away->last, away->turn++, CALL_NS, &how);
    n->config = NULL;
    now = tg_now_ns(base->clock);
    if (status == TG_OK) {
        *back_p = true;
        return end(t, p, now);
    }
    if (how == TG__CALL_TAKEN)
        return tg_fail(status, "%s; called again, %s", away->why, tg_error());
    if (status != TG_E_PEER && status != TG_E_IO)
        return status;
    snprintf(away->last, sizeof away->last, "%s", tg_error());
    away->next_ns = now + tg__call_pause_ns(away->turn);
    return TG_OK;
}
