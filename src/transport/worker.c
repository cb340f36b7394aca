/* A rank of a job with servers. Messages between ranks, and what servers answer, go over the inner
 * transport as they are; a message to a server is preceded by its stamp (worker.h). */
#include "transport/worker.h"
#include "base/arg.h"
#include "telegrad/server.h"
#include "transport/endpoint.h"
#include <stdlib.h>
#include <string.h>

/* A posted operation. */
typedef struct op {
    tg_request payload, stamp;
    bool payload_open, stamp_open;
    size_t len; /* once the payload is over */
    uint8_t bytes[TG__WORKER_STAMP];
} op;

typedef struct worker {
    tg_transport base; /* first member: its address is the transport's */
    tg_transport *inner;
    tg__records pool;
    size_t live; /* operations that are not over */
    bool is_shut, released;
} worker;

static worker *worker_of(tg_transport *t)
{
    return t->impl;
}

/* The inner transport's ranks are this one's ranks, then its servers. */
static tg_status check(const tg_transport *t, const char *verb, int peer, uint32_t tag,
                       const void *buf, size_t len, const tg_request *req)
{
    tg_transport all = *t;
    all.size += tg__servers_of(t);
    return tg__post_check(&all, verb, peer, tag, TG_TAG_LIMIT, buf, len, req);
}

static void give(worker *w, tg_request *req, op *o)
{
    req->word[0] = 0;
    w->live--;
    tg__records_give(&w->pool, o);
}

/* Post the payload, after the stamp if there is one. If the payload cannot be posted then, the
 * record stays until the transport is destroyed, because a stamp cannot be taken back. */
static tg_status worker_post_send(tg_transport *t, int peer, uint32_t tag, const void *buf,
                                  size_t len, tg_request *req)
{
    worker *w = worker_of(t);
    const tg_transport_ops *ops = w->inner->ops;
    const bool stamped = peer >= t->size;
    op *o;
    TG_TRY(check(t, "post_send", peer, tag, buf, len, req));
    TG_TRY(tg__records_take(&w->pool, &o));
    w->live++;
    req->word[0] = (uint64_t)(uintptr_t)o;
    tg_status status = TG_OK;
    if (stamped) {
        tg__worker_stamp(o->bytes, tag, len);
        status =
            ops->post_send(w->inner, peer, TG__TAG_STAMP, o->bytes, sizeof o->bytes, &o->stamp);
        o->stamp_open = status == TG_OK;
    }
    if (status == TG_OK)
        status =
            ops->post_send(w->inner, peer, stamped ? TG__TAG_STAMPED : tag, buf, len, &o->payload);
    o->payload_open = status == TG_OK;
    if (status != TG_OK && !o->stamp_open)
        give(w, req, o);
    return status;
}

static tg_status worker_post_recv(tg_transport *t, int peer, uint32_t tag, void *buf, size_t cap,
                                  tg_request *req)
{
    worker *w = worker_of(t);
    op *o;
    TG_TRY(check(t, "post_recv", peer, tag, buf, cap, req));
    TG_TRY(tg__records_take(&w->pool, &o));
    w->live++;
    req->word[0] = (uint64_t)(uintptr_t)o;
    const tg_status status = w->inner->ops->post_recv(w->inner, peer, tag, buf, cap, &o->payload);
    o->payload_open = status == TG_OK;
    if (status != TG_OK)
        give(w, req, o);
    return status;
}

/* Test one of the inner operations. After an error it is over. */
static tg_status test_one(worker *w, tg_request *inner, bool *open, size_t *len_p)
{
    bool done = false;
    if (!*open)
        return TG_OK;
    const tg_status status = w->inner->ops->test(w->inner, inner, &done, len_p);
    *open = status == TG_OK && !done;
    return status;
}

static tg_status worker_test(tg_transport *t, tg_request *req, bool *done_p, size_t *len_p)
{
    worker *w = worker_of(t);
    op *o = (op *)(uintptr_t)req->word[0];
    size_t stamp_len;
    *done_p = false;
    if (o == NULL)
        return tg_fail(TG_E_ARG, "test: the request has already completed");
    TG_TRY(test_one(w, &o->stamp, &o->stamp_open, &stamp_len));
    TG_TRY(test_one(w, &o->payload, &o->payload_open, &o->len));
    if (o->stamp_open || o->payload_open)
        return TG_OK;
    *done_p = true;
    *len_p = o->len;
    give(w, req, o);
    return TG_OK;
}

static tg_status worker_poll(tg_transport *t, int64_t deadline_ns)
{
    tg_transport *inner = worker_of(t)->inner;
    return inner->ops->poll(inner, deadline_ns);
}

static void worker_wake(tg_transport *t)
{
    tg_transport *inner = worker_of(t)->inner;
    if (inner->ops->wake != NULL) /* else its poll sleeps a millisecond at most */
        inner->ops->wake(inner);
}

static bool worker_shut(tg_transport *t)
{
    worker *w = worker_of(t);
    if (!w->is_shut)
        w->released = w->inner->ops->shut(w->inner);
    w->is_shut = true;
    return w->released;
}

static void worker_blame(tg_transport *t, int rank)
{
    tg_transport *inner = worker_of(t)->inner;
    if (inner->ops->blame != NULL)
        inner->ops->blame(inner, rank);
}

static int worker_blamed(tg_transport *t, int peer)
{
    tg_transport *inner = worker_of(t)->inner;
    return inner->ops->blamed != NULL ? inner->ops->blamed(inner, peer) : TG_NOT_LEFT;
}

static void worker_destroy(tg_transport *t)
{
    worker *w = worker_of(t);
    const bool released = w->is_shut ? w->released : w->live == 0 || worker_shut(t);
    tg_transport_destroy(w->inner);
    if (released) /* otherwise stamps remain where the medium may still read them */
        tg__records_fini(&w->pool);
    free(w);
}

static const tg_transport_ops worker_ops = {
    .struct_size = sizeof worker_ops,
    .name = "worker",
    .post_send = worker_post_send,
    .post_recv = worker_post_recv,
    .test = worker_test,
    .poll = worker_poll,
    .wake = worker_wake,
    .shut = worker_shut,
    .blame = worker_blame,
    .blamed = worker_blamed,
    .destroy = worker_destroy,
};

tg_status tg__servers_check(const char *call, const tg_transport *t, int servers)
{
    const int most = TG__MIN(TG_SERVERS_MAX, t->size - 1);
    if (servers < 1 || servers > most)
        return tg_fail(TG_E_ARG, "%s: servers=%d on a transport of %d: allowed: 1..%d", call,
                       servers, t->size, most);
    if (tg__servers_of(t) > 0)
        return tg_fail(TG_E_ARG, "%s: the transport has servers already", call);
    return TG_OK;
}

tg_status tg_transport_worker(tg_transport *inner, int servers, tg_transport **t_p)
{
    TG__ARGS(inner, t_p);
    TG_TRY(tg__transport_check("tg_transport_worker", "inner", inner));
    TG_TRY(tg__servers_check("tg_transport_worker", inner, servers));
    const int size = inner->size - servers;
    if (inner->rank >= size)
        return tg_fail(TG_E_ARG,
                       "tg_transport_worker: inner->rank=%d is a server: allowed: ranks 0..%d",
                       inner->rank, size - 1);
    worker *w;
    TG_TRY(tg_alloc(1, sizeof *w, &w));
    *w = (worker){.inner = inner,
                  .pool.item_bytes = sizeof(op),
                  .base = {.struct_size = sizeof(tg_transport),
                           .ops = &worker_ops,
                           .impl = w,
                           .rank = inner->rank,
                           .size = size,
                           .servers = (size_t)servers,
                           .seat = tg__seat_of(inner),
                           .seats = TG_HAS(tg_transport, inner, seats) ? inner->seats : 0,
                           .clock = inner->clock,
                           .any_thread = inner->any_thread}};
    *t_p = &w->base;
    return TG_OK;
}
