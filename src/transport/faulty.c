/* Faults: of messages, by harm.h, and of ranks. stall=N and kill=N take effect when a message is to
 * be posted after N others, so those N are in flight. */
#include "transport/endpoint.h"
#include "base/arg.h"
#include "base/keys.h"
#include "transport/harm.h"
#include "base/mem.h"
#include "telegrad/clock.h"
#include "telegrad/spec.h"
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PROBABILITY(key, text) TG__KEY(REAL, key, "0", 0, 1, "probability that " text)
#define COUNT(key, text) TG__KEY(INT, key, NULL, 0, 0x1p53, text)
#define TIME(key, text) TG__KEY(SPEC, key, "0ms", 0, 0, text)

static const tg_key fault_keys[] = {
    PROBABILITY("drop", "a message is lost"),
    PROBABILITY("corrupt", "one bit of a message flips"),
    PROBABILITY("truncate", "a message is cut short"),
    PROBABILITY("oversize", "a message is longer than it should be"),
    PROBABILITY("garbage", "a message is noise"),
    PROBABILITY("replay", "the one before it to that peer in that round and slice comes again"),
    TIME("delay", "how long each message is held (us, ms, s)"),
    COUNT("stall", "sends after which this rank says nothing"),
    COUNT("kill", "sends after which this rank is gone"),
    TG__KEY(INT, "seed", "1", 0, 0x1p53, "any whole number"),
    {.name = NULL},
};
static const tg_entry fault_entry = {
    "fault",
    "drops, damages, cuts, blows up, repeats and delays messages; stalls or kills the rank", "",
    fault_keys};

enum stage {
    HELD,   /* a send that is delayed */
    POSTED, /* in flight on the inner transport */
    OVER    /* failed when it was to be posted, or dropped */
};

typedef struct op {
    struct op *prev, *next; /* list of all that are not over */
    tg_request req;         /* POSTED: the inner request */
    enum stage stage;
    tg__outbound m;  /* what is sent */
    size_t said_len; /* bytes that the caller sent */
    uint32_t tag;
    int peer;
    bool send, silent; /* silent: posted after the stall, never over */
    int64_t due_ns;    /* HELD */
    tg_status status;
    char error[160];
} op;

typedef struct faulty {
    tg_transport base; /* first member: its address is the transport's */
    tg_transport *inner;
    tg__harm harm;
    int64_t delay_ns;
    uint64_t stall, kill; /* number of sends; UINT64_MAX: never */
    uint64_t sends;
    op live; /* head of the ring of operations; held sends are in the order of their times */
    tg__records pool;
    bool stalled, killed, is_shut, released;
    bool news; /* a send was dropped, and is over already */
    _Atomic bool woken;
} faulty;

static faulty *faulty_of(tg_transport *t)
{
    return t->impl;
}

static bool faulty_shut(tg_transport *t)
{
    faulty *f = faulty_of(t);
    if (!f->is_shut)
        f->released = f->inner->ops->shut(f->inner);
    f->is_shut = true;
    return f->released;
}

static tg_status check_live(const tg_transport *t, const faulty *f, const char *verb)
{
    if (f->killed)
        return tg_fail(TG_E_STATE, "%s: rank %d: killed by fault", verb, t->rank);
    if (f->is_shut)
        return tg_fail(TG_E_STATE, "%s: this rank (%d) has left its faulty transport", verb,
                       t->rank);
    return TG_OK;
}

static tg_status new_op(faulty *f, const op *values, op **o_p)
{
    op *o;
    TG_TRY(tg__records_take(&f->pool, &o));
    *o = *values;
    o->next = &f->live;
    o->prev = f->live.prev;
    o->prev->next = f->live.prev = o;
    *o_p = o;
    return TG_OK;
}

static void free_op(faulty *f, op *o)
{
    o->prev->next = o->next;
    o->next->prev = o->prev;
    free(o->m.copy);
    tg__records_give(&f->pool, o);
}

static tg_status post_inner(faulty *f, op *o)
{
    TG_TRY(f->inner->ops->post_send(f->inner, o->peer, o->tag, o->m.buf, o->m.len, &o->req));
    o->stage = POSTED;
    return TG_OK;
}

static tg_status faulty_post_send(tg_transport *t, int peer, uint32_t tag, const void *buf,
                                  size_t len, tg_request *req)
{
    faulty *f = faulty_of(t);
    TG_TRY(check_live(t, f, "post_send"));
    TG_TRY(tg__post_check(t, "post_send", peer, tag, TG__TAG_CARRIED, buf, len, req));
    if (f->sends >= f->kill) {
        f->killed = true;
        (void)faulty_shut(t);
        return check_live(t, f, "post_send");
    }
    f->stalled = f->stalled || f->sends >= f->stall;
    op *o;
    TG_TRY(new_op(f,
                  &(op){.stage = HELD,
                        .m = {.buf = buf, .len = len},
                        .said_len = len,
                        .tag = tag,
                        .peer = peer,
                        .send = true,
                        .silent = f->stalled},
                  &o));
    tg_status status = TG_OK;
    if (!o->silent) {
        status = tg__harm_message(&f->harm, f->sends, peer, tag, &o->m);
        if (status == TG_OK && o->m.lost) {
            o->stage = OVER;
            f->news = true;
        } else if (status == TG_OK) {
            if (f->delay_ns)
                o->due_ns = tg_now_ns(t->clock) + f->delay_ns;
            else
                status = post_inner(f, o);
        }
        if (status != TG_OK) {
            free_op(f, o);
            return status;
        }
        f->sends++;
    }
    req->word[0] = (uint64_t)(uintptr_t)o;
    return TG_OK;
}

static tg_status faulty_post_recv(tg_transport *t, int peer, uint32_t tag, void *buf, size_t cap,
                                  tg_request *req)
{
    faulty *f = faulty_of(t);
    TG_TRY(check_live(t, f, "post_recv"));
    TG_TRY(tg__post_check(t, "post_recv", peer, tag, TG__TAG_CARRIED, buf, cap, req));
    op *o;
    TG_TRY(new_op(f, &(op){.stage = POSTED, .peer = peer, .tag = tag, .silent = f->stalled}, &o));
    if (!o->silent) {
        tg_status status = f->inner->ops->post_recv(f->inner, peer, tag, buf, cap, &o->req);
        if (status != TG_OK) {
            free_op(f, o);
            return status;
        }
    }
    req->word[0] = (uint64_t)(uintptr_t)o;
    return TG_OK;
}

/* Post the sends that are due. Returns when the next one is due. */
static int64_t release_held(faulty *f)
{
    if (!f->delay_ns || f->stalled)
        return INT64_MAX;
    int64_t now = tg_now_ns(f->base.clock);
    for (op *o = f->live.next; o != &f->live; o = o->next) {
        if (o->stage != HELD)
            continue;
        if (o->due_ns > now)
            return o->due_ns;
        tg_status status = post_inner(f, o);
        if (status != TG_OK) {
            o->stage = OVER;
            o->status = status;
            snprintf(o->error, sizeof o->error, "%s", tg_error());
            f->news = true;
        }
    }
    return INT64_MAX;
}

static tg_status faulty_test(tg_transport *t, tg_request *req, bool *done_p, size_t *len_p)
{
    faulty *f = faulty_of(t);
    TG_TRY(check_live(t, f, "test"));
    op *o = (op *)(uintptr_t)req->word[0];
    if (!o)
        return tg_fail(TG_E_ARG, "test: the request has already completed");
    (void)release_held(f);
    bool done = false;
    size_t len = 0;
    tg_status status = TG_OK;
    if (f->stalled || o->stage == HELD) {
        *done_p = false;
        return TG_OK;
    }
    if (o->stage == POSTED)
        status = f->inner->ops->test(f->inner, &o->req, &done, &len);
    else if (o->status != TG_OK)
        status = tg_fail(o->status, "%s", o->error);
    else
        done = true;
    if (status == TG_OK && done)
        *len_p = o->send ? o->said_len : len;
    if (status == TG_OK)
        *done_p = done;
    if (status != TG_OK || done) {
        req->word[0] = 0;
        free_op(f, o);
    }
    return status;
}

/* Nothing changes any more except the time. */
static tg_status poll_stalled(tg_transport *t, int64_t deadline_ns)
{
    faulty *f = faulty_of(t);
    do
        TG_TRY(f->inner->ops->poll(f->inner, deadline_ns));
    while (!atomic_exchange(&f->woken, false) && tg_now_ns(t->clock) < deadline_ns);
    return TG_OK;
}

static tg_status faulty_poll(tg_transport *t, int64_t deadline_ns)
{
    faulty *f = faulty_of(t);
    TG_TRY(check_live(t, f, "poll"));
    if (f->stalled)
        return poll_stalled(t, deadline_ns);
    int64_t due = release_held(f);
    bool news = f->news;
    f->news = false;
    if (news)
        return TG_OK;
    TG_TRY(f->inner->ops->poll(f->inner, TG__MIN(due, deadline_ns)));
    atomic_store(&f->woken, false);
    (void)release_held(f);
    return TG_OK;
}

static void faulty_wake(tg_transport *t)
{
    faulty *f = faulty_of(t);
    atomic_store(&f->woken, true); /* before the inner one, whose wake may be consumed at once */
    if (f->inner->ops->wake)
        f->inner->ops->wake(f->inner);
}

/* A rank that is stalled or killed sends nothing. */
static void faulty_blame(tg_transport *t, int rank)
{
    faulty *f = faulty_of(t);
    if (f->inner->ops->blame && !f->stalled && !f->killed)
        f->inner->ops->blame(f->inner, rank);
}

static int faulty_blamed(tg_transport *t, int peer)
{
    tg_transport *inner = faulty_of(t)->inner;
    return inner->ops->blamed ? inner->ops->blamed(inner, peer) : TG_NOT_LEFT;
}

static int64_t faulty_moved_ns(tg_transport *t, int peer, bool send)
{
    return tg__moved_ns(faulty_of(t)->inner, peer, send);
}

static void faulty_destroy(tg_transport *t)
{
    faulty *f = faulty_of(t);
    bool released = f->is_shut ? f->released : f->live.next == &f->live || faulty_shut(t);
    tg_transport_destroy(f->inner);
    if (released) { /* otherwise copies remain where the medium may still read them */
        while (f->live.next != &f->live)
            free_op(f, f->live.next);
        tg__records_fini(&f->pool);
    }
    tg__harm_fini(&f->harm);
    free(f);
}

static const tg_transport_ops faulty_ops = {
    .struct_size = sizeof faulty_ops,
    .name = "faulty",
    .post_send = faulty_post_send,
    .post_recv = faulty_post_recv,
    .test = faulty_test,
    .poll = faulty_poll,
    .wake = faulty_wake,
    .shut = faulty_shut,
    .blame = faulty_blame,
    .blamed = faulty_blamed,
    .destroy = faulty_destroy,
    .moved_ns = faulty_moved_ns,
};

static uint64_t count_of(const tg_spec *spec, const char *key)
{
    return tg_spec_has(spec, key) ? (uint64_t)tg_spec_int(spec, key) : UINT64_MAX;
}

static tg_status read_spec(faulty *f, const tg_spec *spec, int rank)
{
    const char *delay = tg_spec_word(spec, "delay");
    if (!tg__delay_parse(delay, strlen(delay), &f->delay_ns))
        return tg_fail(TG_E_SPEC,
                       "delay=%.64s: allowed: a time such as 250us, 20ms, 1.5s, at most 3600s",
                       delay);
    f->harm = (tg__harm){.drop = tg_spec_real(spec, "drop"),
                         .corrupt = tg_spec_real(spec, "corrupt"),
                         .truncate = tg_spec_real(spec, "truncate"),
                         .oversize = tg_spec_real(spec, "oversize"),
                         .garbage = tg_spec_real(spec, "garbage"),
                         .replay = tg_spec_real(spec, "replay"),
                         .seed = (uint64_t)tg_spec_int(spec, "seed"),
                         .rank = (uint32_t)rank};
    f->stall = count_of(spec, "stall");
    f->kill = count_of(spec, "kill");
    return TG_OK;
}

tg_status tg_transport_faulty(tg_transport *inner, const char *spec, tg_transport **t_p)
{
    TG__ARGS(inner, spec, t_p);
    static const tg_entry *const entries[] = {&fault_entry};
    TG_TRY(tg__transport_check("tg_transport_faulty", "inner", inner));
    tg_spec *parsed;
    TG__FREED faulty *f = NULL;
    TG_TRY(tg_alloc(1, sizeof *f, &f));
    TG_TRY(tg_spec_parse("fault", entries, 1, spec, &parsed));
    const tg_status status = read_spec(f, parsed, inner->rank);
    tg_spec_free(parsed);
    TG_TRY(status);
    f->base = (tg_transport){.struct_size = sizeof f->base,
                             .ops = &faulty_ops,
                             .impl = f,
                             .rank = inner->rank,
                             .size = inner->size,
                             .clock = inner->clock,
                             .any_thread = inner->any_thread};
    f->inner = inner;
    f->live.prev = f->live.next = &f->live;
    f->pool.item_bytes = sizeof(op);
    *t_p = &f->base;
    f = NULL; /* it is the caller's */
    return TG_OK;
}
