/* A link, emulated by time stamps. The bytes travel over the inner transport at once. Each message
 * of L bytes is accompanied by a stamp: first (its first byte leaves), last (its last byte has
 * left) and flight (delay and jitter). Both ends report completion when the emulated time has come:
 *
 *   sender    first = max(time of the post, up_free);  last = up_free = first + L / up
 *             flight = delay + U[0, jitter), longer if the message would overtake one to the same
 *             peer
 *             the send is over at `last`
 *   receiver  served = when the down-link, idle since first + flight, has given L / down of its
 *             time
 *             the message has arrived at max(last + flight, served)
 *
 * Ranks of one node (tg_transport_shaped_nodes) reach each other over the inner transport: there is
 * no stamp, and the operation is over when the payload is.
 *
 * Times follow from the stamps, never from when a thread polls: a late poll shifts nothing. */
#include "transport/endpoint.h"
#include "base/arg.h"
#include "transport/downlink.h"
#include "base/floats.h"
#include "base/mem.h"
#include "telegrad/clock.h"
#include "telegrad/random.h"
#include <stdatomic.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

#define STAMP_TAG TG_TAG_LIMIT /* this bit turns a message's tag into its stamp's */
#define STAMP_BYTES 24
#define TIME_LIMIT (INT64_C(1) << 61) /* sums of two such times do not overflow */
#define JITTER_SEED 0x6a6974746572    /* "jitter" */

/* What is known about when an operation is over. */
enum timing { NO_STAMP, COMING, TIMED };

typedef struct op {
    struct op *prev, *next; /* list of all that are not over */
    tg_request payload, stamp;
    bool payload_open, stamp_open; /* the inner operations are in flight */
    bool abandoned;                /* posting failed half-way: its result is not needed */
    bool told;                     /* poll has returned because of it */
    enum timing timing;
    int64_t first_ns,
        last_ns;     /* COMING: when its first and last byte arrive, without the down-link */
    int64_t over_ns; /* TIMED */
    size_t len;      /* once the payload has arrived */
    int peer;
    tg_status status; /* its failure, with text */
    char error[160];
    uint8_t bytes[STAMP_BYTES];
} op;

typedef struct shaped {
    tg_transport base; /* first member: its address is the transport's */
    tg_transport *inner;
    tg_link link;
    int64_t up_free_ns;
    int64_t *delay_ns;        /* (size) to each peer */
    bool *near;               /* (size) ranks not reached through the link; NULL: none */
    int64_t *last_arrival_ns; /* (size) of the last message sent to each peer */
    uint64_t sends;
    tg__downlink down;
    op live; /* head of the ring of operations */
    tg__records pool;
    bool is_shut, released;
    _Atomic bool woken;
    int64_t times[]; /* delay_ns, last_arrival_ns */
} shaped;

static shaped *shaped_of(tg_transport *t)
{
    return t->impl;
}

static void unlink_op(shaped *s, op *o)
{
    o->prev->next = o->next;
    o->next->prev = o->prev;
    tg__records_give(&s->pool, o);
}

static tg_status new_op(shaped *s, int peer, op **o_p)
{
    op *o;
    TG_TRY(tg__records_take(&s->pool, &o));
    o->peer = peer;
    o->next = &s->live;
    o->prev = s->live.prev;
    o->prev->next = s->live.prev = o;
    *o_p = o;
    return TG_OK;
}

static tg_status check_live(const tg_transport *t, const shaped *s, const char *verb)
{
    if (s->is_shut)
        return tg_fail(TG_E_STATE, "%s: this rank (%d) has left its shaped transport", verb,
                       t->rank);
    return TG_OK;
}

/* The second half of posting failed. The first half cannot be undone, so its memory stays. */
static tg_status abandon(shaped *s, op *o, tg_status status)
{
    if (o->stamp_open)
        o->abandoned = true;
    else
        unlink_op(s, o);
    return status;
}

static bool is_near(const shaped *s, int peer)
{
    return s->near && s->near[peer];
}

/* Post the inner operations: the payload, and before it the stamp if `timed`. If that fails, o is
 * gone. */
static tg_status post(shaped *s, bool send, bool timed, uint32_t tag, void *buf, size_t len, op *o,
                      tg_request *req)
{
    tg_transport *inner = s->inner;
    const tg_transport_ops *ops = inner->ops;
    const uint32_t stamp = tag | STAMP_TAG;
    tg_status status = TG_OK;
    if (timed)
        status = send ? ops->post_send(inner, o->peer, stamp, o->bytes, STAMP_BYTES, &o->stamp)
                      : ops->post_recv(inner, o->peer, stamp, o->bytes, STAMP_BYTES, &o->stamp);
    o->stamp_open = timed && status == TG_OK;
    if (status == TG_OK)
        status = send ? ops->post_send(inner, o->peer, tag, buf, len, &o->payload)
                      : ops->post_recv(inner, o->peer, tag, buf, len, &o->payload);
    if (status != TG_OK)
        return abandon(s, o, status);
    o->payload_open = true;
    req->word[0] = (uint64_t)(uintptr_t)o;
    return TG_OK;
}

/* Not through the link: over when the inner operation is. */
static tg_status post_near(shaped *s, bool send, int peer, uint32_t tag, void *buf, size_t len,
                           tg_request *req)
{
    op *o;
    TG_TRY(new_op(s, peer, &o));
    TG_TRY(post(s, send, false, tag, buf, len, o, req));
    o->timing = TIMED;
    o->over_ns = INT64_MIN;
    return TG_OK;
}

static tg_status shaped_post_send(tg_transport *t, int peer, uint32_t tag, const void *buf,
                                  size_t len, tg_request *req)
{
    shaped *s = shaped_of(t);
    TG_TRY(check_live(t, s, "post_send"));
    TG_TRY(tg__post_check(t, "post_send", peer, tag, TG_TAG_LIMIT, buf, len, req));
    if (is_near(s, peer)) /* a send only reads it */
        return post_near(s, true, peer, tag, (void *)(uintptr_t)buf, len, req);
    const tg_rng_key key = {.seed = JITTER_SEED,
                            .purpose = TG_PURPOSE_FAULT,
                            .rank = (uint32_t)t->rank,
                            .tensor = (uint32_t)peer};
    int64_t now = tg_now_ns(t->clock);
    int64_t first = TG__MAX(now, s->up_free_ns);
    int64_t last = first + tg__transfer_ns(len, s->link.up_bps);
    int64_t flight = s->delay_ns[peer];
    if (s->link.jitter_ns)
        flight += (int64_t)((double)s->link.jitter_ns * tg_rng_uniform(&key, s->sends));
    flight = TG__MAX(flight, s->last_arrival_ns[peer] - first);

    op *o;
    TG_TRY(new_op(s, peer, &o));
    tg__put64(o->bytes, (uint64_t)first);
    tg__put64(o->bytes + 8, (uint64_t)last);
    tg__put64(o->bytes + 16, (uint64_t)flight);
    TG_TRY(post(s, true, true, tag, (void *)(uintptr_t)buf, len, o, req));
    o->timing = TIMED;
    o->over_ns = last;
    s->up_free_ns = last;
    s->last_arrival_ns[peer] = last + flight;
    s->sends++;
    return TG_OK;
}

static tg_status shaped_post_recv(tg_transport *t, int peer, uint32_t tag, void *buf, size_t cap,
                                  tg_request *req)
{
    shaped *s = shaped_of(t);
    TG_TRY(check_live(t, s, "post_recv"));
    TG_TRY(tg__post_check(t, "post_recv", peer, tag, TG_TAG_LIMIT, buf, cap, req));
    if (is_near(s, peer))
        return post_near(s, false, peer, tag, buf, cap, req);
    op *o;
    TG_TRY(new_op(s, peer, &o));
    return post(s, false, true, tag, buf, cap, o, req);
}

static void note_failure(op *o, tg_status status)
{
    if (o->status != TG_OK)
        return;
    o->status = status;
    snprintf(o->error, sizeof o->error, "%s", tg_error());
}

static void read_stamp(op *o, size_t len)
{
    uint64_t first = tg__get64(o->bytes), last = tg__get64(o->bytes + 8);
    uint64_t flight = tg__get64(o->bytes + 16);
    if (len != STAMP_BYTES || first > last || last >= TIME_LIMIT || flight >= TIME_LIMIT) {
        note_failure(
            o, tg_fail(TG_E_CORRUPT, "damaged stamp from rank %d (is it shaped too?)", o->peer));
        return;
    }
    o->timing = COMING;
    o->first_ns = (int64_t)(first + flight);
    o->last_ns = (int64_t)(last + flight);
}

/* Test the inner operations of one op. */
static void advance(shaped *s, op *o)
{
    bool done = false;
    size_t len = 0;
    if (o->stamp_open) {
        tg_status status = s->inner->ops->test(s->inner, &o->stamp, &done, &len);
        o->stamp_open = status == TG_OK && !done;
        if (status != TG_OK)
            note_failure(o, status);
        else if (done && o->timing == NO_STAMP)
            read_stamp(o, len);
    }
    if (o->payload_open) {
        tg_status status = s->inner->ops->test(s->inner, &o->payload, &done, &len);
        o->payload_open = status == TG_OK && !done;
        if (status != TG_OK)
            note_failure(o, status);
        else if (done)
            o->len = len;
    }
}

/* Serve all messages whose first byte has arrived by now, in the order of arrival. A message waits
 * for that time because the stamp of an earlier one may still be in flight. */
static void serve_due(shaped *s, int64_t now_ns)
{
    for (;;) {
        op *next = NULL;
        for (op *o = s->live.next; o != &s->live; o = o->next)
            if (o->timing == COMING && !o->payload_open && o->first_ns <= now_ns &&
                (!next || o->first_ns < next->first_ns))
                next = o;
        if (!next)
            return;
        int64_t need = tg__transfer_ns(next->len, s->link.down_bps);
        int64_t served = need ? tg__downlink_serve(&s->down, next->first_ns, need) : next->first_ns;
        next->over_ns = TG__MAX(next->last_ns, served);
        next->timing = TIMED;
    }
}

/* Failures are reported as soon as both inner operations are over. */
static bool is_over(const op *o, int64_t now_ns)
{
    return !o->stamp_open && !o->payload_open &&
           (o->status != TG_OK || (o->timing == TIMED && o->over_ns <= now_ns));
}

static tg_status shaped_test(tg_transport *t, tg_request *req, bool *done_p, size_t *len_p)
{
    shaped *s = shaped_of(t);
    TG_TRY(check_live(t, s, "test"));
    op *o = (op *)(uintptr_t)req->word[0];
    if (!o)
        return tg_fail(TG_E_ARG, "test: the request has already completed");
    advance(s, o);
    int64_t now = tg_now_ns(t->clock);
    if (o->timing == COMING && !o->payload_open && o->first_ns <= now)
        serve_due(s, now);
    if (!is_over(o, now)) {
        *done_p = false;
        return TG_OK;
    }
    req->word[0] = 0;
    tg_status status = o->status;
    size_t len = o->len;
    if (status != TG_OK)
        (void)tg_fail(status, "%s", o->error);
    unlink_op(s, o);
    if (status == TG_OK) {
        *done_p = true;
        *len_p = len;
    }
    return status;
}

/* Advance everything. Returns true if something is over that poll has not reported; otherwise
 * *due_p is when the next one can be over, regardless of the inner transport. */
static bool progress(shaped *s, int64_t *due_p)
{
    for (op *o = s->live.next, *next; o != &s->live; o = next) {
        next = o->next;
        advance(s, o);
        if (o->abandoned && !o->stamp_open)
            unlink_op(s, o);
    }
    int64_t now = tg_now_ns(s->base.clock);
    serve_due(s, now);
    bool news = false;
    int64_t due = INT64_MAX;
    for (op *o = s->live.next; o != &s->live; o = o->next) {
        int64_t when = o->timing == TIMED ? o->over_ns : o->first_ns;
        if (is_over(o, now)) {
            news = news || !o->told;
            o->told = true;
        } else if (o->timing != NO_STAMP && when > now) {
            due = TG__MIN(due, when);
        }
    }
    *due_p = due;
    return news;
}

/* Poll the inner transport with precise timers: by default Linux lets a sleeper oversleep by 50 us,
 * a tenth of a small message's time on a fast link. */
static tg_status poll_precisely(tg_transport *inner, int64_t deadline_ns)
{
#ifdef __linux__
    int slack = prctl(PR_GET_TIMERSLACK);
    if (slack > 1)
        (void)prctl(PR_SET_TIMERSLACK, 1UL);
    tg_status status = inner->ops->poll(inner, deadline_ns);
    if (slack > 1)
        (void)prctl(PR_SET_TIMERSLACK, (unsigned long)slack);
    return status;
#else
    return inner->ops->poll(inner, deadline_ns);
#endif
}

static tg_status shaped_poll(tg_transport *t, int64_t deadline_ns)
{
    shaped *s = shaped_of(t);
    TG_TRY(check_live(t, s, "poll"));
    for (bool last = false;;) {
        int64_t due;
        if (progress(s, &due) || last)
            return TG_OK;
        TG_TRY(poll_precisely(s->inner, TG__MIN(due, deadline_ns)));
        last = atomic_exchange(&s->woken, false) || tg_now_ns(t->clock) >= deadline_ns;
    }
}

static void shaped_wake(tg_transport *t)
{
    shaped *s = shaped_of(t);
    atomic_store(&s->woken, true); /* before the inner one, which may consume its wake at once */
    if (s->inner->ops->wake)
        s->inner->ops->wake(s->inner);
}

static bool shaped_shut(tg_transport *t)
{
    shaped *s = shaped_of(t);
    if (!s->is_shut)
        s->released = s->inner->ops->shut(s->inner);
    s->is_shut = true;
    return s->released;
}

static void shaped_blame(tg_transport *t, int rank)
{
    tg_transport *inner = shaped_of(t)->inner;
    if (inner->ops->blame)
        inner->ops->blame(inner, rank);
}

static int shaped_blamed(tg_transport *t, int peer)
{
    tg_transport *inner = shaped_of(t)->inner;
    return inner->ops->blamed ? inner->ops->blamed(inner, peer) : TG_NOT_LEFT;
}

static int64_t shaped_moved_ns(tg_transport *t, int peer, bool send)
{
    return tg__moved_ns(shaped_of(t)->inner, peer, send);
}

static void shaped_destroy(tg_transport *t)
{
    shaped *s = shaped_of(t);
    bool released = s->is_shut ? s->released : s->live.next == &s->live || shaped_shut(t);
    tg_transport_destroy(s->inner);
    if (released) /* otherwise stamps remain where the medium may still read them */
        tg__records_fini(&s->pool);
    free(s->near);
    free(s);
}

static const tg_transport_ops shaped_ops = {
    .struct_size = sizeof shaped_ops,
    .name = "shaped",
    .post_send = shaped_post_send,
    .post_recv = shaped_post_recv,
    .test = shaped_test,
    .poll = shaped_poll,
    .wake = shaped_wake,
    .shut = shaped_shut,
    .blame = shaped_blame,
    .blamed = shaped_blamed,
    .destroy = shaped_destroy,
    .moved_ns = shaped_moved_ns,
};

tg_status tg_transport_shaped(tg_transport *inner, const tg_link *link, tg_transport **t_p)
{
    TG__OWN_FLOATS;
    TG__ARGS(inner, link, t_p);
    TG_TRY(tg__transport_check("tg_transport_shaped", "inner", inner));
    TG_TRY(tg__link_check("tg_transport_shaped", link));
    if (inner->ops == &shaped_ops)
        return tg_fail(TG_E_ARG, "tg_transport_shaped: the inner transport already has a link");
    shaped *s;
    TG_TRY(tg_alloc(1, sizeof *s + 2 * (size_t)inner->size * sizeof *s->delay_ns, &s));
    s->delay_ns = s->times;
    s->last_arrival_ns = s->times + inner->size;
    for (int peer = 0; peer < inner->size; peer++)
        s->delay_ns[peer] = link->delay_ns;
    s->base = (tg_transport){.struct_size = sizeof s->base,
                             .ops = &shaped_ops,
                             .impl = s,
                             .rank = inner->rank,
                             .size = inner->size,
                             .clock = inner->clock,
                             .any_thread = inner->any_thread};
    s->inner = inner;
    s->link = *link;
    s->live.prev = s->live.next = &s->live;
    s->pool.item_bytes = sizeof(op);
    *t_p = &s->base;
    return TG_OK;
}

tg_status tg_transport_shaped_nodes(tg_transport *inner, const tg_link *link, const int *nodes,
                                    tg_transport **t_p)
{
    TG__OWN_FLOATS;
    TG__ARGS(inner, link, nodes, t_p);
    tg_transport *t;
    TG_TRY(tg__transport_check("tg_transport_shaped_nodes", "inner", inner));
    bool *near;
    TG_TRY(tg_alloc((size_t)inner->size, sizeof *near, &near));
    for (int peer = 0; peer < inner->size; peer++)
        near[peer] = nodes[peer] == nodes[inner->rank];
    tg_status status = tg_transport_shaped(inner, link, &t);
    if (status != TG_OK) {
        free(near);
        return status;
    }
    shaped_of(t)->near = near;
    *t_p = t;
    return TG_OK;
}

tg_status tg_transport_shaped_links(tg_transport *inner, const tg_link *links, const int *nodes,
                                    tg_transport **t_p)
{
    TG__OWN_FLOATS;
    TG__ARGS(inner, links, t_p);
    tg_transport *t;
    TG_TRY(tg__transport_check("tg_transport_shaped_links", "inner", inner));
    const tg_link *own = &links[inner->rank];
    for (int peer = 0; peer < inner->size; peer++)
        if (tg__link_check("tg_transport_shaped_links", &links[peer]) != TG_OK)
            return tg_fail(TG_E_ARG, "%s (rank %d)", tg_error(), peer);
    TG_TRY(nodes ? tg_transport_shaped_nodes(inner, own, nodes, &t)
                 : tg_transport_shaped(inner, own, &t));
    for (int peer = 0; peer < inner->size; peer++)
        shaped_of(t)->delay_ns[peer] = TG__MAX(own->delay_ns, links[peer].delay_ns);
    *t_p = t;
    return TG_OK;
}
