/* The TCP transport: its table, and its event loop, which runs in `poll`. */
#include "base/arg.h"
#include "net/forked.h"
#include "net/seats.h"
#include "net/tcp_impl.h"
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#define SHUT_NS INT64_C(200000000) /* to say goodbye to peers that are slow to listen */
#define EVENTS 64

static tg__tcp *tcp_of(tg_transport *t)
{
    return (tg__tcp *)t;
}

static tg_status check_live(tg_transport *t, const char *verb)
{
    const tg__tcp *tcp = tcp_of(t);
    TG_TRY(tg__net_check_own(tcp->net, verb));
    if (tg__is_cast_out(tcp))
        return tg__fail_expelled(tcp);
    if (tcp->is_shut)
        return tg_fail(TG_E_STATE, "%s: this rank (%d) has left its TCP transport", verb, t->rank);
    return TG_OK;
}

void tg__peer_let_go(tg__tcp *t, tg__peer *p)
{
    p->gone = true;
    p->has_more = false;
    t->changed = true;
    p->held = false;
    tg__pace_remove(&t->pace, &p->paced);
    if (t->net->relayed[p->rank] && !p->said_bye) {
        const bool polls = t->polls;
        t->polls = false;
        tg__peer_pull(t, &t->peer[0]); /* it may be the one that has left */
        t->polls = polls;
    }
    (void)epoll_ctl(t->epoll, EPOLL_CTL_DEL, p->stream->fd, NULL);
    if (p->stream->local)
        (void)epoll_ctl(t->epoll, EPOLL_CTL_DEL, tg__local_bell(p->stream->local), NULL);
    free(p->aside);
    p->aside = NULL;
    if (p->into) /* it fails when it is tested */
        tg__tcp_posts_add(&p->receives, p->into);
    p->into = NULL;
    p->arriving = false;
}

void tg__peer_lose(tg__tcp *t, tg__peer *p, const char *why)
{
    if (p->gone)
        return;
    tg__peer_let_go(t, p);
    if (!p->stream->failed) {
        p->stream->failed = true;
        snprintf(p->stream->why, sizeof p->stream->why, "%s", why);
    }
}

void tg__peer_expel(tg__tcp *t, tg__peer *p)
{
    tg__peer_say_bye(t, p);
    tg__peer_push(t, p);
    if (p->gone)
        return;
    if (p->stage_at == p->stage_len) /* what is in the stream is sent until this rank leaves */
        (void)tg__stream_end(p->stream);
    tg__peer_let_go(t, p);
}

/* Let epoll report when a peer that could not be sent everything can be. */
static void watch(tg__tcp *t, tg__peer *p)
{
    if (!p->stream)
        return;
    const bool waits = p->stage_at < p->stage_len || (p->segment_left > 0 && !p->held);
    const bool out =
        !p->gone && (tg__stream_is_full(p->stream) || (waits && !p->stream->writes_local));
    if (p->gone || out == p->watches_out)
        return;
    struct epoll_event e = {.events = EPOLLIN | (out ? (uint32_t)EPOLLOUT : 0), .data.ptr = p};
    if (epoll_ctl(t->epoll, EPOLL_CTL_MOD, p->stream->fd, &e) != 0)
        tg__peer_lose(t, p, strerror(errno));
    p->watches_out = out;
}

/* ---- posting --------------------------------------------------------------------------------- */

static void fill(tg_request *req, bool sends, int peer, uint32_t tag, const void *buf, size_t len)
{
    tg__tcp_post *p = (tg__tcp_post *)req;
    *p = (tg__tcp_post){.buf = (uint8_t *)(uintptr_t)buf,
                        .len = sends ? len : 0,
                        .done = sends ? 0 : len,
                        .tag = tag,
                        .peer = peer,
                        .sends = sends,
                        .state = TG__POST_WAITING};
}

static tg_status tcp_post_send(tg_transport *t, int peer, uint32_t tag, const void *buf, size_t len,
                               tg_request *req)
{
    TG_TRY(check_live(t, "post_send"));
    TG_TRY(tg__post_check(t, "post_send", peer, tag, TG__TAG_CARRIED, buf, len, req));
    tg__peer *p = &tcp_of(t)->peer[peer];
    if (p->gone || !p->stream)
        return tg__fail_gone(tcp_of(t), p);
    fill(req, true, peer, tag, buf, len);
    tg__tcp_posts_add(&p->sends, (tg__tcp_post *)req);
    tg__peer_push(tcp_of(t), p);
    watch(tcp_of(t), p);
    return TG_OK;
}

static tg_status tcp_post_recv(tg_transport *t, int peer, uint32_t tag, void *buf, size_t cap,
                               tg_request *req)
{
    TG_TRY(check_live(t, "post_recv"));
    TG_TRY(tg__post_check(t, "post_recv", peer, tag, TG__TAG_CARRIED, buf, cap, req));
    tg__peer *p = &tcp_of(t)->peer[peer];
    fill(req, false, peer, tag, buf, cap);
    tg__peer_match(tcp_of(t), p, (tg__tcp_post *)req);
    watch(tcp_of(t), p);
    return TG_OK;
}

static tg_status tcp_test(tg_transport *t, tg_request *req, bool *done_p, size_t *len_p)
{
    TG_TRY(check_live(t, "test"));
    tg__tcp_post *post = (tg__tcp_post *)req;
    char name[TG__NAME_MAX];
    if (post->state == TG__POST_OVER)
        return tg_fail(TG_E_ARG, "test: the request has already completed");
    tg__peer *p = &tcp_of(t)->peer[post->peer];
    *done_p = post->state != TG__POST_WAITING && post->state != TG__POST_GIVEN;
    if (!*done_p && !p->gone)
        return TG_OK;
    const uint8_t state = post->state;
    post->state = TG__POST_OVER;
    if (!*done_p) {
        tg__tcp_posts_remove(state == TG__POST_GIVEN ? &p->given
                             : post->sends           ? &p->sends
                                                     : &p->receives,
                             post);
        return tg__fail_gone(tcp_of(t), p);
    }
    if (state == TG__POST_TOO_LONG)
        return tg_fail(TG_E_CORRUPT,
                       "a message of %zu bytes from %s is longer than expected: at most %zu bytes",
                       post->len, tg__net_name(tcp_of(t)->net, post->peer, name), post->done);
    *len_p = post->len;
    return TG_OK;
}

/* ---- the event loop -------------------------------------------------------------------------- */

/* Handle what is ready, without waiting. Returns true if `wake` was called. */
static bool handle(tg__tcp *t)
{
    struct epoll_event events[EVENTS];
    bool woken = false;
    const int count = epoll_wait(t->epoll, events, EVENTS, 0);
    for (int i = 0; i < count; i++) {
        tg__peer *p = events[i].data.ptr;
        uint64_t ticks;
        if (events[i].data.ptr == t->net->hosts && p) {
            t->net->hosts->knocked = true;
            continue;
        }
        if (!p) {
            woken = true;
            (void)!read(t->wake, &ticks, sizeof ticks);
            continue;
        }
        const uint32_t what = events[i].events;
        if ((what & TG__BELL) && p->stream->local)
            tg__local_silence(p->stream->local);
        if (what & (EPOLLIN | EPOLLHUP | EPOLLERR | TG__BELL))
            tg__peer_pull(t, p);
        if (what & (EPOLLOUT | TG__BELL))
            tg__peer_push(t, p);
        watch(t, p);
    }
    return woken;
}

/* Send on where the pace has held bytes back. Returns when to look again, deadline_ns at most. */
static int64_t send_on(tg__tcp *t, int64_t deadline_ns)
{
    const int64_t now = tg_now_ns(t->base.clock);
    const bool due = t->pace.tick_ns <= now;
    bool held = false;
    for (int i = 0; i < t->base.size; i++) {
        const int r = (t->turn + i) % t->base.size;
        tg__peer *p = &t->peer[r];
        if (p->held && due) {
            tg__peer_push(t, p);
            watch(t, p);
        }
        held |= p->held;
    }
    if (due)
        t->turn = (t->turn + 1) % t->base.size;
    return held && t->pace.tick_ns < deadline_ns ? t->pace.tick_ns : deadline_ns;
}

/* Read on where a peer had more than its turn. */
static void read_on(tg__tcp *t)
{
    for (int r = 0; r < t->base.size; r++) {
        tg__peer *p = &t->peer[r];
        if (!p->has_more)
            continue;
        tg__peer_pull(t, p);
        watch(t, p);
    }
}

/* Whether a peer still has. Its socket need not show it: TLS may have the bytes. */
static bool has_more(const tg__tcp *t)
{
    bool more = false;
    for (int r = 0; r < t->base.size; r++)
        more |= t->peer[r].has_more;
    return more;
}

static bool tcp_shut(tg_transport *base);

/* Leave if a member's key was removed from the list: rank 0, and the member, when it is told. */
static void leave_if_expelled(tg__tcp *t)
{
    if (t->base.rank == 0 && !t->is_shut)
        t->expelled = atomic_load(&t->net->expelled);
    if (tg__is_cast_out(t))
        (void)tcp_shut(&t->base);
}

static tg_status tcp_poll(tg_transport *base, int64_t deadline_ns)
{
    tg__tcp *t = tcp_of(base);
    for (;;) {
        leave_if_expelled(t);
        TG_TRY(check_live(base, "poll"));
        t->polls = true;
        read_on(t);
        const bool woken = handle(t);
        t->polls = false;
        int64_t look_ns = send_on(t, deadline_ns);
        if (t->net->hosts)
            tg__tcp_host(t, &look_ns);
        if (t->changed || woken) {
            t->changed = false;
            return TG_OK;
        }
        const int64_t now = tg_now_ns(base->clock);
        if (now >= deadline_ns)
            return TG_OK;
        if (has_more(t))
            continue;
        const int64_t left = look_ns > now ? look_ns - now : 0;
        const struct timespec at_most = {.tv_sec = (time_t)(left / 1000000000),
                                         .tv_nsec = (long)(left % 1000000000)};
        struct pollfd any = {.fd = t->epoll, .events = POLLIN};
        (void)ppoll(&any, 1, &at_most, NULL);
    }
}

static void tcp_wake(tg_transport *t)
{
    const uint64_t one = 1;
    const int saved = errno;
    if (!tg__net_is_foreign(tcp_of(t)->net))
        (void)!write(tcp_of(t)->wake, &one, sizeof one);
    errno = saved;
}

/* ---- leaving --------------------------------------------------------------------------------- */

static void tcp_blame(tg_transport *t, int rank)
{
    tcp_of(t)->blames = rank;
}

static int tcp_blamed(tg_transport *t, int peer)
{
    const tg__peer *p = peer >= 0 && peer < t->size ? &tcp_of(t)->peer[peer] : NULL;
    if (!p || !p->gone)
        return TG_NOT_LEFT;
    if (tg__is_cut_off(tcp_of(t), p))
        return 0;
    return p->said_bye ? p->blamed : TG_BLAMED_NOBODY;
}

/* Say goodbye, and send what was accepted until then.
 * why     NULL: as planned
 * drains  forget what peers still send: two that leave at once must not wait for each other */
static void leave(tg__tcp *t, int64_t until_ns, bool drains, const char *why)
{
    const int size = t->base.size;
    if (t->is_shut || tg__net_is_foreign(t->net))
        return;
    for (int r = 0; r < size; r++) {
        const bool between = !t->peer[r].sending; /* two messages */
        if (t->peer[r].stream)
            tg__peer_say_bye(t, &t->peer[r]);
        if (t->peer[r].stream && between && why)
            tg__reason_insert(&t->peer[r], why);
    }
    t->is_shut = true;
    for (bool pending = true; pending;) {
        pending = false;
        for (int r = 0; r < size; r++) {
            tg__peer *p = &t->peer[r];
            if (!p->stream || p->gone)
                continue;
            if (drains)
                tg__stream_drain(p->stream);
            tg__peer_push(t, p);
            /* Those that have heard everything see the end of the connection, too. */
            pending |= !p->gone && (p->stage_at < p->stage_len || tg__stream_end(p->stream) == 0);
        }
        if (pending && tg_now_ns(t->base.clock) > until_ns)
            break;
        if (pending)
            (void)poll(NULL, 0, 1);
    }
    for (int r = 0; r < size; r++) /* those that were too slow learn at least that it ends */
        if (t->peer[r].stream && !t->peer[r].gone && !t->peer[r].stream->ended)
            (void)shutdown(t->peer[r].stream->fd, SHUT_WR);
}

static bool tcp_shut(tg_transport *base)
{
    /* Whoever gives up has just failed, and if nobody else is to blame, that is why. */
    tg__tcp *t = tcp_of(base);
    char why[TG__TEXT_MAX];
    snprintf(why, sizeof why, "%s", tg_error());
    const bool own = t->expelled == 0 && (t->blames < 0 || t->blames == base->rank);
    leave(t, tg_now_ns(base->clock) + SHUT_NS, false, own ? why : NULL);
    return true; /* nothing here uses callers' memory any more */
}

/* Free the transport, but not the job's connections. */
static void release(tg__tcp *t)
{
    for (int r = 0; r < t->base.size; r++)
        tg__peer_release(&t->peer[r]);
    if (t->epoll >= 0)
        tg__fd_close(t->epoll);
    if (t->wake >= 0)
        tg__fd_close(t->wake);
    free(t);
}

static void tcp_destroy(tg_transport *base)
{
    tg__tcp *t = tcp_of(base);
    const int64_t until_ns = tg_now_ns(base->clock) + TG__LEAVE_NS;
    if (tg__net_is_foreign(t->net)) /* all of it is the parent's */
        return;
    leave(t, until_ns, true, NULL);
    tg_net *net = t->net;
    atomic_store(&net->wake, -1);
    release(t);
    tg__net_leave(net, until_ns);
}

#define COMMON_OPS                                                                      \
    .struct_size = sizeof(tg_transport_ops), .name = "tcp", .post_send = tcp_post_send, \
    .post_recv = tcp_post_recv, .test = tcp_test, .poll = tcp_poll, .wake = tcp_wake,   \
    .shut = tcp_shut, .destroy = tcp_destroy, .moved_ns = tg__tcp_moved_ns

static const tg_transport_ops tcp_ops = {COMMON_OPS, .blame = tcp_blame, .blamed = tcp_blamed};

/* Of a server: seats, whose workers blame nobody. */
static const tg_transport_ops hosting_ops = {COMMON_OPS, .drop = tg__tcp_drop,
                                             .expect = tg__tcp_expect};

/* Of a worker that calls again. */
static const tg_transport_ops renewing_ops = {COMMON_OPS, .blame = tcp_blame, .blamed = tcp_blamed,
                                              .renew = tg__tcp_renew};

/* ---- creating -------------------------------------------------------------------------------- */

void tg__peer_begin(tg__peer *p, int rank)
{
    *p = (tg__peer){.rank = rank, .blamed = TG_BLAMED_NOBODY};
    p->sends.end = &p->sends.first;
    p->given.end = &p->given.first;
    p->receives.end = &p->receives.first;
    p->early.end = &p->early.first;
    p->asking.end = &p->asking.first;
}

tg_status tg__peer_connect(tg__tcp *t, tg__peer *p, tg__stream *stream)
{
    p->stage = malloc(TG__STAGE);
    if (!p->stage)
        return tg_fail(TG_E_NOMEM, "out of memory: connection");
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = p};
    if (epoll_ctl(t->epoll, EPOLL_CTL_ADD, stream->fd, &e) != 0)
        return tg_fail(TG_E_IO, "watching a connection: %s", strerror(errno));
    p->stream = stream;
    tg__pace_connect(&t->pace, &p->paced, stream->fd);
    p->has_more = true; /* it may have read ahead */
    tg__peer_offer(t, p);
    return TG_OK;
}

/* Watch what may wake `poll`. */
static tg_status watch_all(tg__tcp *t)
{
    tg_net *n = t->net;
    struct epoll_event wake = {.events = EPOLLIN, .data.ptr = NULL},
                       door = {.events = EPOLLIN, .data.ptr = n->hosts};
    tg__fd_lock();
    t->epoll = tg__fd_keep(epoll_create1(EPOLL_CLOEXEC));
    tg__fd_lock();
    t->wake = tg__fd_keep(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (t->epoll < 0 || t->wake < 0 || epoll_ctl(t->epoll, EPOLL_CTL_ADD, t->wake, &wake) != 0 ||
        (n->hosts && epoll_ctl(t->epoll, EPOLL_CTL_ADD, n->listener, &door) != 0))
        return tg_fail(TG_E_IO, "waiting for connections: %s", strerror(errno));
    for (int r = 0; r < n->size; r++)
        tg__peer_begin(&t->peer[r], r);
    for (int r = 0; r < n->size; r++)
        if (n->stream[r])
            TG_TRY(tg__peer_connect(t, &t->peer[r], n->stream[r]));
    return TG_OK;
}

tg_status tg_transport_tcp(tg_net *net, tg_transport **t_p)
{
    TG__ARG(net);
    TG__ARG(t_p);
    TG_TRY(tg__net_check_own(net, "tg_transport_tcp"));
    tg__tcp *t = calloc(1, sizeof *t + (size_t)net->size * sizeof *t->peer);
    if (!t)
        return tg_fail(TG_E_NOMEM, "out of memory: TCP transport");
    t->base = (tg_transport){.struct_size = sizeof t->base,
                             .ops = net->hosts     ? &hosting_ops
                                    : net->renewal ? &renewing_ops
                                                   : &tcp_ops,
                             .impl = t,
                             .rank = net->rank,
                             .size = net->size,
                             .seat = net->seat,
                             .seats = net->seats,
                             .any_thread = true,
                             .clock = tg_clock_monotonic()};
    t->net = net;
    t->blames = -1;
    tg__pace_init(&t->pace);
    t->epoll = t->wake = -1;
    const tg_status status = watch_all(t);
    if (status != TG_OK) {
        release(t);
        return status;
    }
    atomic_store(&net->wake, t->wake);
    *t_p = &t->base;
    return TG_OK;
}
