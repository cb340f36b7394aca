/* From a connection to shared memory. OFFER is the offering end's first frame. The other end
 * answers LOCAL, and what it sends from then on goes by the memory; so does the first end when it
 * has that answer. A message may begin on the connection and end in the memory. */
#include "net/tcp_impl.h"
#include <sys/epoll.h>

#define ALL_RINGS ((size_t)8 << 20) /* of a rank to its peers */
#define RING_MOST ((size_t)1 << 20)
#define RING_LEAST ((size_t)64 << 10)

static bool offers(const tg__tcp *t, const tg__peer *p)
{
    return t->net->attached || (!t->net->hosts && t->base.rank > p->rank);
}

/* Use this memory, if there is any, when the peer agrees. Returns false if it is of no use. */
static bool keep(tg__tcp *t, tg__peer *p, tg__local *l)
{
    struct epoll_event e = {.events = TG__BELL, .data.ptr = p};
    if (l && epoll_ctl(t->epoll, EPOLL_CTL_ADD, tg__local_bell(l), &e) != 0) {
        tg__local_close(l);
        l = NULL;
    }
    tg__local_close(p->stream->local); /* of a call of tg_transport_tcp that has failed */
    p->stream->local = l;
    return l != NULL;
}

void tg__peer_offer(tg__tcp *t, tg__peer *p)
{
    size_t bytes = RING_MOST;
    tg__local_offer o;
    while (bytes > RING_LEAST && bytes * (size_t)t->base.size > ALL_RINGS)
        bytes /= 2;
    if (!offers(t, p) || t->net->relayed[p->rank] ||
        !keep(t, p, tg__local_make(p->stream->fd, bytes, &o)))
        return;
    p->offered = true;
    (void)tg__peer_control(t, p, TG__FRAME_OFFER, o.pid, o.fd, o.number);
}

bool tg__peer_take_offer(tg__tcp *t, tg__peer *p, const tg__local_offer *offer)
{
    if (offers(t, p) || p->offered)
        return false;
    p->offered = true;
    p->moves = !t->net->relayed[p->rank] && keep(t, p, tg__local_open(p->stream->fd, offer));
    if (!p->moves)
        (void)tg__peer_control(t, p, TG__FRAME_LOCAL, 0, 0, 0);
    return true;
}

bool tg__peer_take_local(tg__tcp *t, tg__peer *p, uint64_t number)
{
    tg__stream *s = p->stream;
    if (!s->local || s->reads_local || number > 1 || (number == 0 && !offers(t, p)))
        return false;
    if (number == 0) {
        (void)epoll_ctl(t->epoll, EPOLL_CTL_DEL, tg__local_bell(s->local), NULL);
        tg__local_close(s->local);
        s->local = NULL;
        return true;
    }
    tg__local_settle(s->local);
    s->reads_local = true;
    p->moves |= offers(t, p);
    p->held = false;
    tg__pace_remove(&t->pace, &p->paced); /* a busy machine may have looked far away */
    return true;
}

bool tg__peer_move(tg__peer *p)
{
    uint8_t head[TG__HEAD];
    tg__stream *s = p->stream;
    tg__tcp_head(head, TG__FRAME_LOCAL, 0, 0, 1);
    if (tg__stream_flush(s) != 1 || tg__stream_write(s, head, TG__HEAD) != TG__HEAD)
        return false;
    p->moves = false;
    s->writes_local = true;
    return true;
}
