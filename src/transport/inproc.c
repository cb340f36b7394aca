/* Ranks of one process: a rendezvous without buffers. A rank's mailbox holds the receives that it
 * posted and the sends posted to it that are not yet matched, by (sender, tag). Whoever posts
 * second takes the other's record out of the mailbox, copies the bytes and completes both.
 *
 * Locks: one per endpoint (its mailbox and its condition); a thread never holds two. The copy runs
 * without a lock; `busy` counts another rank's records that have left a mailbox but are not
 * complete, and `shut` waits until its own are. The endpoints live in the hub, which the last rank
 * frees, so that a lock outlives everyone who may still use it. */
#include "transport/endpoint.h"
#include "base/arg.h"
#include "base/mem.h"
#include "base/thread.h"
#include "base/virtual_clock.h"
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define MAIL_CHAINS 64

enum state { PENDING, DONE, TOO_LONG, PEER_LEFT };

/* One posted operation. The owner's pool holds it. */
typedef struct post {
    struct post *next;
    void *buf;  /* only read for a send */
    size_t len; /* send: bytes; receive: room, then bytes received */
    int src, dst;
    uint32_t tag;
    _Atomic int state; /* stored last: from then on, only the owner uses the record */
} post;

typedef struct chain {
    post *head, **tail;
} chain;

typedef struct endpoint {
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    const tg_clock *clock;
    chain recvs[MAIL_CHAINS], sends[MAIL_CHAINS]; /* under mutex: not matched yet */
    size_t waiting;                               /* under mutex: posts in all chains */
    uint64_t events;                              /* under mutex: what poll waits for */
    _Atomic bool gone;                            /* stored under mutex */
    _Atomic int blames;                           /* constant once `gone` is set */
    _Atomic int busy;
    /* The rest belongs to the driving thread. */
    uint64_t events_seen;
    bool news; /* a post completed at once */
    bool is_shut;
    tg__records pool;
    tg_transport base;
} endpoint;

typedef struct hub {
    int size;
    _Atomic int refs;
    endpoint end[]; /* (size) */
} hub;

static hub *hub_of(const tg_transport *t)
{
    return t->impl;
}

static endpoint *self_of(const tg_transport *t)
{
    return &hub_of(t)->end[t->rank];
}

static size_t chain_index(int src, uint32_t tag)
{
    return ((uint32_t)src * UINT32_C(0x9E3779B1) + tag * UINT32_C(0x85EBCA6B)) >> 26;
}
_Static_assert(MAIL_CHAINS == 1 << (32 - 26), "chain_index gives 6 bits");

static void append(endpoint *e, chain *c, post *p)
{
    p->next = NULL;
    if (!c->head)
        c->tail = &c->head;
    *c->tail = p;
    c->tail = &p->next;
    e->waiting++;
}

/* Remove *link from its chain; *link then points to the next one. */
static post *take(endpoint *e, chain *c, post **link)
{
    post *p = *link;
    *link = p->next;
    if (!p->next)
        c->tail = link;
    e->waiting--;
    return p;
}

static post *match(endpoint *e, chain *c, int src, uint32_t tag)
{
    for (post **link = &c->head; *link; link = &(*link)->next)
        if ((*link)->src == src && (*link)->tag == tag)
            return take(e, c, link);
    return NULL;
}

/* Call with e->mutex held. */
static void notify(endpoint *e)
{
    e->events++;
    tg__clock_signal(e->clock, &e->cond);
}

/* Complete another rank's record that has left its mailbox and is counted in owner->busy. */
static void complete(endpoint *owner, post *p, enum state state)
{
    atomic_store_explicit(&p->state, state, memory_order_release);
    pthread_mutex_lock(&owner->mutex);
    atomic_fetch_sub_explicit(&owner->busy, 1, memory_order_relaxed);
    notify(owner);
    pthread_mutex_unlock(&owner->mutex);
}

/* Copy the bytes of a send to the matching receive. Returns the receive's final state; a send
 * always succeeds. */
static enum state transfer(const post *send, post *recv)
{
    enum state state = send->len > recv->len ? TOO_LONG : DONE;
    recv->len = send->len;
    if (state == DONE && send->len)
        memcpy(recv->buf, send->buf, send->len);
    return state;
}

static tg_status fail_left(int rank)
{
    return tg_fail(TG_E_PEER, "rank %d has left", rank);
}

static tg_status check_live(const tg_transport *t, const char *verb)
{
    if (self_of(t)->is_shut)
        return tg_fail(TG_E_STATE, "%s: this rank (%d) has left its inproc transport", verb,
                       t->rank);
    return TG_OK;
}

/* Post a send of len bytes, or a receive with room for them. */
static tg_status post_one(tg_transport *t, const char *verb, bool sends, int peer, uint32_t tag,
                          const void *buf, size_t len, tg_request *req)
{
    TG_TRY(check_live(t, verb));
    TG_TRY(tg__post_check(t, verb, peer, tag, TG__TAG_CARRIED, buf, len, req));
    endpoint *self = self_of(t), *other = &hub_of(t)->end[peer], *box = sends ? other : self;
    const int src = sends ? t->rank : peer, dst = sends ? peer : t->rank;
    const size_t index = chain_index(src, tag);
    post *own;
    TG_TRY(tg__records_take(&self->pool, &own));
    *own = (post){.len = len, .src = src, .dst = dst, .tag = tag};
    memcpy(&own->buf, &buf, sizeof buf); /* drops the const; nobody writes through that of a send */

    pthread_mutex_lock(&box->mutex);
    /* A rank that leaves first sets `gone`, then searches every mailbox. So either it finds this
     * post, or this post finds the flag. */
    const bool gone = atomic_load_explicit(&other->gone, memory_order_acquire);
    chain *mine = sends ? &box->sends[index] : &box->recvs[index];
    post *met = gone ? NULL : match(box, sends ? &box->recvs[index] : &box->sends[index], src, tag);
    if (met)
        atomic_fetch_add_explicit(&other->busy, 1, memory_order_relaxed);
    else if (!gone)
        append(box, mine, own);
    pthread_mutex_unlock(&box->mutex);

    if (gone) {
        tg__records_give(&self->pool, own);
        return fail_left(peer);
    }
    if (met) {
        const enum state state = sends ? transfer(own, met) : transfer(met, own);
        const enum state of_own = sends ? DONE : state;
        atomic_store_explicit(&own->state, of_own, memory_order_relaxed);
        complete(other, met, sends ? state : DONE);
        self->news = true;
    }
    req->word[0] = (uint64_t)(uintptr_t)own;
    return TG_OK;
}

static tg_status inproc_post_send(tg_transport *t, int peer, uint32_t tag, const void *buf,
                                  size_t len, tg_request *req)
{
    return post_one(t, "post_send", true, peer, tag, buf, len, req);
}

static tg_status inproc_post_recv(tg_transport *t, int peer, uint32_t tag, void *buf, size_t cap,
                                  tg_request *req)
{
    return post_one(t, "post_recv", false, peer, tag, buf, cap, req);
}

static tg_status inproc_test(tg_transport *t, tg_request *req, bool *done_p, size_t *len_p)
{
    TG_TRY(check_live(t, "test"));
    post *p = (post *)(uintptr_t)req->word[0];
    if (!p)
        return tg_fail(TG_E_ARG, "test: the request has already completed");
    int state = atomic_load_explicit(&p->state, memory_order_acquire);
    if (state == PENDING) {
        *done_p = false;
        return TG_OK;
    }
    post was = {.len = p->len, .src = p->src, .dst = p->dst};
    req->word[0] = 0;
    tg__records_give(&self_of(t)->pool, p);
    if (state == PEER_LEFT)
        return fail_left(was.src == t->rank ? was.dst : was.src);
    if (state == TOO_LONG)
        return tg_fail(TG_E_CORRUPT, "a message of %zu bytes from rank %d is longer than expected",
                       was.len, was.src);
    *done_p = true;
    *len_p = was.len;
    return TG_OK;
}

static tg_status inproc_poll(tg_transport *t, int64_t deadline_ns)
{
    TG_TRY(check_live(t, "poll"));
    endpoint *self = self_of(t);
    bool news = self->news;
    tg__waited how = TG__WOKEN;
    self->news = false;
    pthread_mutex_lock(&self->mutex);
    while (!news && self->events == self->events_seen && how == TG__WOKEN)
        how = tg__clock_wait(self->clock, &self->cond, &self->mutex, deadline_ns);
    self->events_seen = self->events;
    pthread_mutex_unlock(&self->mutex);
    return how == TG__STUCK ? tg__clock_stuck() : TG_OK;
}

static void inproc_wake(tg_transport *t)
{
    endpoint *self = self_of(t);
    pthread_mutex_lock(&self->mutex);
    notify(self);
    pthread_mutex_unlock(&self->mutex);
}

/* Close the own mailbox: senders learn that nobody will receive, and own receives are discarded. */
static void close_mailbox(hub *h, endpoint *self)
{
    chain left = {.tail = &left.head};
    pthread_mutex_lock(&self->mutex);
    atomic_store_explicit(&self->gone, true, memory_order_release);
    for (size_t i = 0; i < MAIL_CHAINS; i++) {
        while (self->sends[i].head) {
            post *send = take(self, &self->sends[i], &self->sends[i].head);
            atomic_fetch_add_explicit(&h->end[send->src].busy, 1, memory_order_relaxed);
            send->next = left.head;
            left.head = send;
        }
        while (self->recvs[i].head)
            (void)take(self, &self->recvs[i], &self->recvs[i].head);
    }
    pthread_mutex_unlock(&self->mutex);
    while (left.head) {
        post *send = left.head;
        left.head = send->next;
        complete(&h->end[send->src], send, PEER_LEFT);
    }
}

/* Withdraw from another rank's mailbox: own sends are discarded, receives from this rank fail. */
static void leave_mailbox(endpoint *peer, int rank)
{
    bool changed = false;
    pthread_mutex_lock(&peer->mutex);
    for (size_t i = 0; i < MAIL_CHAINS && peer->waiting; i++) {
        for (post **link = &peer->sends[i].head; *link;) {
            if ((*link)->src == rank)
                (void)take(peer, &peer->sends[i], link);
            else
                link = &(*link)->next;
        }
        for (post **link = &peer->recvs[i].head; *link;) {
            if ((*link)->src == rank) {
                post *recv = take(peer, &peer->recvs[i], link);
                atomic_store_explicit(&recv->state, PEER_LEFT, memory_order_release);
                changed = true;
            } else {
                link = &(*link)->next;
            }
        }
    }
    if (changed)
        notify(peer);
    pthread_mutex_unlock(&peer->mutex);
}

static bool inproc_shut(tg_transport *t)
{
    hub *h = hub_of(t);
    endpoint *self = self_of(t);
    if (self->is_shut)
        return true;
    self->is_shut = true;
    close_mailbox(h, self);
    for (int r = 0; r < h->size; r++)
        if (r != t->rank)
            leave_mailbox(&h->end[r], t->rank);
    pthread_mutex_lock(&self->mutex);
    while (atomic_load_explicit(&self->busy, memory_order_relaxed))
        (void)tg__clock_wait(self->clock, &self->cond, &self->mutex, TG__NEVER);
    pthread_mutex_unlock(&self->mutex);
    return true;
}

/* Free the hub. Its first `count` endpoints have initialised locks. */
static void free_hub(hub *h, int count)
{
    for (int r = 0; r < count; r++) {
        pthread_cond_destroy(&h->end[r].cond);
        pthread_mutex_destroy(&h->end[r].mutex);
    }
    free(h);
}

static void inproc_blame(tg_transport *t, int rank)
{
    atomic_store(&self_of(t)->blames, rank);
}

static int inproc_blamed(tg_transport *t, int peer)
{
    endpoint *e = &hub_of(t)->end[peer];
    return atomic_load(&e->gone) ? atomic_load(&e->blames) : TG_NOT_LEFT;
}

static void inproc_destroy(tg_transport *t)
{
    hub *h = hub_of(t);
    (void)inproc_shut(t);
    tg__records_fini(&self_of(t)->pool);
    if (atomic_fetch_sub(&h->refs, 1) == 1)
        free_hub(h, h->size);
}

static const tg_transport_ops inproc_ops = {
    .struct_size = sizeof inproc_ops,
    .name = "inproc",
    .post_send = inproc_post_send,
    .post_recv = inproc_post_recv,
    .test = inproc_test,
    .poll = inproc_poll,
    .wake = inproc_wake,
    .shut = inproc_shut,
    .blame = inproc_blame,
    .blamed = inproc_blamed,
    .destroy = inproc_destroy,
};

static tg_status create_endpoint(hub *h, int rank, const tg_clock *clock)
{
    endpoint *e = &h->end[rank];
    *e = (endpoint){.clock = clock,
                    .pool.item_bytes = sizeof(post),
                    .blames = TG_BLAMED_NOBODY,
                    .base = {.struct_size = sizeof(tg_transport),
                             .ops = &inproc_ops,
                             .impl = h,
                             .rank = rank,
                             .size = h->size,
                             .clock = clock,
                             .any_thread = true}};
    TG_TRY(tg__cond_init(&e->cond));
    if (pthread_mutex_init(&e->mutex, NULL)) {
        pthread_cond_destroy(&e->cond);
        return tg_fail(TG_E_NOMEM, "cannot make a mutex");
    }
    return TG_OK;
}

tg_status tg_transport_inproc(int size, tg_transport **t_out)
{
    TG__ARG(t_out);
    return tg_transport_inproc_clock(size, tg_clock_monotonic(), t_out);
}

tg_status tg_transport_inproc_clock(int size, const tg_clock *clock, tg_transport **t_out)
{
    TG__ARGS(clock, t_out);
    if (size < 1 || size > TG_RANKS_MAX)
        return tg_fail(TG_E_ARG, "tg_transport_inproc: size=%d: allowed: 1..%d", size,
                       TG_RANKS_MAX);
    TG_TRY(tg__clock_check("tg_transport_inproc_clock: clock", clock));
    hub *h;
    TG_TRY(tg_alloc(1, sizeof *h + (size_t)size * sizeof(endpoint), &h));
    h->size = size;
    atomic_init(&h->refs, size);
    for (int r = 0; r < size; r++) {
        const tg_status status = create_endpoint(h, r, clock);
        if (status != TG_OK) {
            free_hub(h, r);
            return status;
        }
    }
    for (int r = 0; r < size; r++)
        t_out[r] = &h->end[r].base;
    return TG_OK;
}
