/* The transport of a server, whose workers come and go. */
#include "net/forked.h"
#include "net/seats.h"
#include "net/tcp_impl.h"
#include <stdio.h>
#include <stdlib.h>

/* A worker has come. */
static void take(void *arg, int seat)
{
    tg__tcp *t = arg;
    tg__stream *stream = t->net->stream[seat];
    if (tg__peer_connect(t, &t->peer[seat], stream) == TG_OK)
        return;
    tg__peer_release(&t->peer[seat]);
    tg__seats_part(t->net->hosts, seat, TG_NET_DROPPED, tg_error(), NULL, 0, 0);
}

/* Tell a worker that it is not wanted any more, and why. */
static void dismiss(tg__tcp *t, tg__peer *p, const char *why)
{
    const bool between = !p->sending; /* two messages */
    t->blames = 0;                    /* itself: of its ranks, a worker is 0 */
    tg__peer_say_bye(t, p);
    t->blames = -1;
    if (between)
        tg__reason_insert(p, why);
}

void tg__tcp_host(tg__tcp *t, int64_t *look_ns_p)
{
    tg__seats *s = t->net->hosts;
    tg__seats_step(s, take, t);
    for (int seat = 0; (s->renewed || s->returns) && seat < t->base.size - 1; seat++) {
        tg__peer *p = &t->peer[seat];
        if (!p->stream || p->gone)
            continue;
        if (!tg__seats_allow(s, seat)) {
            (void)tg_fail(TG_E_PEER, "its key was removed from the list of allowed keys");
            dismiss(t, p, tg_error());
            tg__peer_push(t, p);
            t->net->member[seat].dropped = true;
            tg__peer_lose(t, p, tg_error()); /* what waits for it fails, and it is dropped */
        } else if (tg__seats_is_back(s, seat)) {
            tg__peer_lose(t, p, "it has lost its connection, and calls again");
        }
    }
    s->renewed = s->returns = false;
    const int64_t due = tg__seats_due_ns(s, tg_now_ns(t->base.clock));
    if (due < *look_ns_p)
        *look_ns_p = due;
}

bool tg__tcp_drop(tg_transport *base, int peer)
{
    tg__tcp *t = (tg__tcp *)base;
    if (peer < 0 || peer >= base->size - 1 || tg__net_is_foreign(t->net))
        return false;
    tg__peer *p = &t->peer[peer];
    tg__stream *stream = p->stream;
    const bool lost = stream && p->gone && !p->said_bye;
    const tg_net_event_kind kind = stream && (!p->gone || t->net->member[peer].dropped)
                                       ? TG_NET_DROPPED
                                   : lost ? TG_NET_LOST
                                          : TG_NET_LEFT;
    char why[TG__TEXT_MAX] = "";
    uint8_t *bytes = NULL;
    size_t at = 0, len = 0;
    if (stream && p->gone) {
        tg__reason_read(p, why);
        if (!*why && !p->said_bye)
            snprintf(why, sizeof why, "%s", stream->why);
    } else if (stream) {
        snprintf(why, sizeof why, "%s", tg_error());
        dismiss(t, p, why);
    }
    if (stream && !p->gone) {
        bytes = p->stage;
        at = p->stage_at;
        len = p->stage_len;
        p->stage = NULL;
        tg__peer_let_go(t, p);
    }
    if (stream)
        tg__seats_part(t->net->hosts, peer, kind, why, bytes, at, len);
    tg__peer_release(p);
    tg__peer_begin(p, peer);
    return lost;
}

void tg__tcp_expect(tg_transport *base, int peer)
{
    if (peer >= 0 && peer < base->size - 1)
        ((tg__tcp *)base)->net->member[peer].lost_ns = tg_now_ns(tg_clock_monotonic());
}
