/* A rank of a job with servers. Messages between ranks, and what servers answer, go over the inner
 * transport as they are; a message to a server is preceded by its stamp (worker.h). */
#include "base/arg.h"
#include "telegrad/server.h"
#include "transport/worker_impl.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

static tg__worker *worker_of(tg_transport *t)
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

void tg__worker_give(tg__worker *w, tg__worker_op *o)
{
    w->live--;
    tg__records_give(&w->pool, o);
}

/* Post the payload, after the stamp if there is one. */
tg_status tg__worker_post(tg__worker *w, tg__worker_op *o)
{
    const tg_transport_ops *ops = w->inner->ops;
    const bool stamped = o->sends && o->peer >= w->base.size;
    tg_status status = TG_OK;
    if (stamped) {
        status =
            ops->post_send(w->inner, o->peer, TG__TAG_STAMP, o->bytes, sizeof o->bytes, &o->stamp);
        o->stamp_open = status == TG_OK;
    }
    if (status == TG_OK && o->sends)
        status = ops->post_send(w->inner, o->peer, stamped ? TG__TAG_STAMPED : o->tag, o->out,
                                o->room, &o->payload);
    else if (status == TG_OK)
        status = ops->post_recv(w->inner, o->peer, o->tag, o->in, o->room, &o->payload);
    o->payload_open = status == TG_OK;
    return status;
}

/* Post it, and make it the request's. If a stamp was posted, but the payload cannot be, the record
 * stays until the transport is destroyed, because a stamp cannot be taken back. */
static tg_status post(tg__worker *w, const tg__worker_op *from, tg_request *req)
{
    tg__worker_op *o;
    TG_TRY(tg__records_take(&w->pool, &o));
    *o = *from;
    w->live++;
    req->word[0] = (uint64_t)(uintptr_t)o;
    if (w->renews && o->peer >= w->base.size)
        return tg__worker_post_kept(w, o);
    const tg_status status = tg__worker_post(w, o);
    if (status != TG_OK && !o->stamp_open) {
        req->word[0] = 0;
        tg__worker_give(w, o);
    }
    return status;
}

static tg_status worker_post_send(tg_transport *t, int peer, uint32_t tag, const void *buf,
                                  size_t len, tg_request *req)
{
    tg__worker *w = worker_of(t);
    TG_TRY(check(t, "post_send", peer, tag, buf, len, req));
    tg__worker_op o = {.peer = peer, .tag = tag, .sends = true, .out = buf, .room = len};
    if (peer >= t->size) {
        const tg__stamp stamp = {.tag = tag,
                                 .worker = w->self,
                                 .len = len,
                                 .number = w->renews ? ++w->served[peer - t->size].number : 0};
        tg__stamp_write(o.bytes, &stamp);
    }
    return post(w, &o, req);
}

static tg_status worker_post_recv(tg_transport *t, int peer, uint32_t tag, void *buf, size_t cap,
                                  tg_request *req)
{
    TG_TRY(check(t, "post_recv", peer, tag, buf, cap, req));
    const tg__worker_op o = {.peer = peer, .tag = tag, .in = buf, .room = cap};
    return post(worker_of(t), &o, req);
}

/* Test one of the inner operations. After an error it is over. */
static tg_status test_one(tg__worker *w, tg_request *inner, bool *open, size_t *len_p)
{
    bool done = false;
    if (!*open)
        return TG_OK;
    const tg_status status = w->inner->ops->test(w->inner, inner, &done, len_p);
    *open = status == TG_OK && !done;
    return status;
}

tg_status tg__worker_test(tg__worker *w, tg__worker_op *o)
{
    size_t stamp_len;
    TG_TRY(test_one(w, &o->stamp, &o->stamp_open, &stamp_len));
    return test_one(w, &o->payload, &o->payload_open, &o->len);
}

static tg_status worker_test(tg_transport *t, tg_request *req, bool *done_p, size_t *len_p)
{
    tg__worker *w = worker_of(t);
    tg__worker_op *o = (tg__worker_op *)(uintptr_t)req->word[0];
    *done_p = false;
    if (o == NULL)
        return tg_fail(TG_E_ARG, "test: the request has already completed");
    if (w->renews && o->peer >= t->size) {
        TG_TRY(tg__worker_test_kept(w, o, done_p, len_p));
        req->word[0] = *done_p ? 0 : req->word[0];
        return TG_OK;
    }
    TG_TRY(tg__worker_test(w, o));
    if (o->stamp_open || o->payload_open)
        return TG_OK;
    *done_p = true;
    *len_p = o->len;
    req->word[0] = 0;
    tg__worker_give(w, o);
    return TG_OK;
}

static tg_status worker_poll(tg_transport *t, int64_t deadline_ns)
{
    tg__worker *w = worker_of(t);
    int64_t until_ns = deadline_ns;
    if (w->renews)
        TG_TRY(tg__worker_renew(w, &until_ns));
    return w->inner->ops->poll(w->inner, until_ns);
}

static void worker_wake(tg_transport *t)
{
    tg_transport *inner = worker_of(t)->inner;
    if (inner->ops->wake != NULL) /* else its poll sleeps a millisecond at most */
        inner->ops->wake(inner);
}

static bool worker_shut(tg_transport *t)
{
    tg__worker *w = worker_of(t);
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

static bool worker_is_away(tg_transport *t, int peer)
{
    const tg__worker *w = worker_of(t);
    return w->renews && peer >= t->size && w->served[peer - t->size].lost;
}

static int64_t worker_moved_ns(tg_transport *t, int peer, bool send)
{
    return tg__moved_ns(worker_of(t)->inner, peer, send);
}

static void worker_destroy(tg_transport *t)
{
    tg__worker *w = worker_of(t);
    const bool released = w->is_shut ? w->released : w->live == 0 || worker_shut(t);
    tg_transport_destroy(w->inner);
    if (released) /* otherwise stamps remain where the medium may still read them */
        tg__records_fini(&w->pool);
    free(w->served);
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
    .is_away = worker_is_away,
    .moved_ns = worker_moved_ns,
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

/* Find out whether the inner transport can reconnect to a lost server. */
static tg_status prepare_renewal(tg__worker *w)
{
    const tg_transport_ops *ops = w->inner->ops;
    w->renews = TG_HAS(tg_transport_ops, ops, renew) && ops->renew != NULL;
    if (!w->renews)
        return TG_OK;
    while (w->self == 0)
        if (getrandom(&w->self, sizeof w->self, 0) < 0)
            return tg_fail(TG_E_IO, "tg_transport_worker: no random numbers: %s", strerror(errno));
    TG_TRY(tg_alloc(w->base.servers, sizeof *w->served, &w->served));
    for (size_t q = 0; q < w->base.servers; q++)
        w->served[q].end = &w->served[q].first;
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
    tg__worker *w;
    TG_TRY(tg_alloc(1, sizeof *w, &w));
    *w = (tg__worker){.inner = inner,
                      .pool.item_bytes = sizeof(tg__worker_op),
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
    const tg_status status = prepare_renewal(w);
    if (status != TG_OK) {
        free(w);
        return status;
    }
    *t_p = &w->base;
    return TG_OK;
}
