/* A server with rounds, on a transport and a clock of the test: one message, or what else happens,
 * each time the server waits. Include it after cmocka.h. */
#ifndef TESTS_ROUND_WORLD_H
#define TESTS_ROUND_WORLD_H

#include "base/mem.h"
#include "codec/codec_impl.h"
#include "exchange/star.h"
#include "exchange/star_coding.h"
#include "server/round.h"
#include "telegrad/clock.h"
#include "transport/worker.h"
#include "wire/envelope.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SEATS = 4, BUCKETS = 2, SLICES = 2, N = 32, CAP = 1024, QUEUE = 64, HALF = N / SLICES };

typedef struct sent {
    uint8_t bytes[CAP];
    size_t len;
    uint32_t tag;
} sent;

typedef struct answer {
    uint32_t tag;
    uint64_t step; /* of the envelope, or that which the worker is told */
    bool told;     /* the latter: of parameters, and if a gradient was late */
    uint16_t flags;
    float w[N];
    /* if the message has asked for a coded answer; else 0 */
    enum tg__star_holds holds;
    uint64_t number;
    uint8_t frame[CAP];
    size_t len;
} answer;

typedef struct seat {
    sent queue[QUEUE]; /* to the server */
    size_t count;
    answer got[QUEUE];
    size_t ngot;
    bool gone;                   /* its connection is cut */
    bool returns;                /* the worker may be back */
    bool dropped;                /* the server has seen that it has left */
    bool expelled;               /* the server has ended the connection */
    uint32_t drops;              /* requests of earlier connections are over */
    bool codes[1 + BUCKETS * N]; /* the last message with this tag has a coding */
} seat;

static struct world {
    seat seat[SEATS];
    int64_t now_ns;
    tg_server *s;
    bool (*turn)(void *arg); /* the server waits: act. False: it dies */
    void *arg;
    long dies_in;      /* so many tests of requests; 0: it does not */
    tg_status status;  /* of the server */
    char error[400];   /* why a worker was expelled */
    const char *codec; /* of gradients of whole buckets, whose answers are coded; NULL: none is */
} world;

/* ---- the transport --------------------------------------------------------------------------- */

static inline tg_status post(int peer, uint32_t tag, const void *buf, size_t len, bool sends,
                             tg_request *req)
{
    *req = (tg_request){
        {(uint64_t)peer, tag, (uint64_t)(uintptr_t)buf, len, sends, world.seat[peer].drops}};
    return sends && world.seat[peer].gone ? tg_fail(TG_E_PEER, "worker %d has left", peer) : TG_OK;
}

static inline tg_status post_send(tg_transport *t, int peer, uint32_t tag, const void *buf,
                                  size_t len, tg_request *req)
{
    seat *to = &world.seat[peer];
    const uint8_t *msg = buf;
    tg__envelope e;
    (void)t;
    TG_TRY(post(peer, tag, buf, len, true, req));
    assert_true(to->ngot < QUEUE);
    answer *a = &to->got[to->ngot++];
    tg__envelope_peek(msg, &e);
    const size_t n = tg__get32(msg + TG__ENVELOPE_BYTES + 4);
    *a = (answer){.tag = tag, .step = e.step, .flags = e.flags};
    if (to->codes[tag / 128]) {
        tg__star_tail tail;
        assert_int_equal(
            tg__star_read_tail(msg + TG__ENVELOPE_BYTES, len - TG__ENVELOPE_BYTES, &tail), TG_OK);
        a->holds = tail.holds;
        a->number = tail.number;
        a->told = tail.holds == TG__STAR_LATE;
        a->step = a->told ? tail.step : a->step;
        a->len = len - TG__ENVELOPE_BYTES - TG__STAR_TAIL;
        memcpy(a->frame, msg + TG__ENVELOPE_BYTES, a->len);
        assert_int_equal(tg__frame_check(a->frame, a->len, n, -1), TG_OK);
        tg__frame_decode(a->frame, a->len, a->w, NULL);
        return TG_OK;
    }
    memcpy(a->w, tg__f32_values((uint8_t *)(uintptr_t)msg + TG__ENVELOPE_BYTES), n * sizeof(float));
    a->told = len > TG__ENVELOPE_BYTES + TG__F32_BYTES(n);
    if (a->told)
        a->step = tg__get64(msg + len - TG__STAR_STEP) & ((UINT64_C(1) << TG__STAR_AGE_AT) - 1);
    return TG_OK;
}

static inline tg_status post_recv(tg_transport *t, int peer, uint32_t tag, void *buf, size_t cap,
                                  tg_request *req)
{
    (void)t;
    return post(peer, tag, buf, cap, false, req);
}

static inline tg_status test(tg_transport *t, tg_request *req, bool *done_p, size_t *len_p)
{
    seat *from = &world.seat[req->word[0]];
    (void)t;
    *done_p = false;
    assert_true(req->word[5] == from->drops);
    if (world.dies_in > 0 && --world.dies_in == 0)
        return tg_fail(TG_E_NOMEM, "it dies");
    for (size_t i = 0; req->word[4] == 0 && i < from->count; i++) {
        const sent *m = &from->queue[i];
        if (m->tag != req->word[1])
            continue;
        *done_p = true;
        *len_p = m->len;
        assert_true(m->len <= req->word[3]);
        memcpy((void *)(uintptr_t)req->word[2], m->bytes, m->len);
        from->count--;
        memmove(&from->queue[i], &from->queue[i + 1], (from->count - i) * sizeof *m);
        return TG_OK;
    }
    if (from->gone)
        return tg_fail(TG_E_PEER, "worker %d has left", (int)req->word[0]);
    *done_p = req->word[4] != 0;
    *len_p = (size_t)req->word[3];
    return TG_OK;
}

static inline bool drop(tg_transport *t, int peer)
{
    seat *s = &world.seat[peer];
    const bool returns = s->returns && s->gone; /* else it is told an error, and does not */
    (void)t;
    if (!s->gone && !s->expelled)
        snprintf(world.error, sizeof world.error, "%s", tg_error());
    s->expelled = !s->gone;
    s->dropped = true;
    s->count = s->ngot = 0;
    s->gone = false;
    s->drops++;
    return returns;
}

static inline bool shut(tg_transport *t)
{
    (void)t;
    return true;
}

static inline void destroy(tg_transport *t)
{
    (void)t;
}

static inline tg_status poll_next(tg_transport *t, int64_t deadline_ns)
{
    (void)t;
    (void)deadline_ns;
    world.now_ns++;
    return world.turn(world.arg) ? TG_OK : tg_fail(TG_E_STOPPED, "the end");
}

static inline int64_t now_ns(void *arg)
{
    (void)arg;
    return world.now_ns;
}

static const tg_transport_ops ops = {.struct_size = sizeof ops,
                                     .name = "rounds",
                                     .post_send = post_send,
                                     .post_recv = post_recv,
                                     .test = test,
                                     .poll = poll_next,
                                     .shut = shut,
                                     .destroy = destroy,
                                     .drop = drop};

/* ---- servers --------------------------------------------------------------------------------- */

typedef struct how {
    const char *mode, *journal;
    uint64_t journal_bytes;
    int min_workers;
    int64_t deadline_ms;
} how;

static tg_clock a_clock = {.struct_size = sizeof a_clock, .now_ns = now_ns};
static tg_transport transport = {
    .struct_size = sizeof transport, .ops = &ops, .rank = SEATS, .size = SEATS + 1};

static inline tg_status try_create(const how *h, tg_server **s_p)
{
    const tg_server_config config = {.struct_size = sizeof config,
                                     .mode = h->mode,
                                     .optimizer = "sgd:lr=1,momentum=0",
                                     .timeout_ms = 100,
                                     .journal = h->journal,
                                     .journal_bytes = h->journal_bytes,
                                     .min_workers = h->min_workers,
                                     .deadline_ms = h->deadline_ms};
    a_clock.sleep_until_ns = tg_clock_monotonic()->sleep_until_ns;
    transport.clock = &a_clock;
    return tg_server_create(&transport, 1, &config, s_p);
}

static inline tg_server *create(const how *h)
{
    tg_server *s = NULL;
    if (try_create(h, &s) != TG_OK)
        fail_msg("%s", tg_error());
    return s;
}

/* Run until it dies. Its journal is as it was then. */
static inline void run(tg_server *s, bool (*turn)(void *), void *arg)
{
    world.s = s;
    world.turn = turn;
    world.arg = arg;
    world.status = tg_server_run(s);
    assert_true(world.status == TG_E_STOPPED || world.status == TG_E_NOMEM);
    tg__journal_close(&s->journal);
    for (int i = 0; i < SEATS; i++) {
        seat *w = &world.seat[i];
        *w = (seat){.returns = w->returns, .dropped = w->dropped, .drops = w->drops + 1};
    }
}

static inline void compare_sent(const tg__sent *x, const tg__sent *y)
{
    assert_true((x == NULL) == (y == NULL));
    if (x == NULL)
        return;
    assert_memory_equal(x->v, y->v, x->n * sizeof *x->v);
    assert_int_equal(x->number, y->number);
    assert_int_equal(x->coding_len, y->coding_len);
    assert_int_equal(tg__coder_memory(&x->coder), tg__coder_memory(&y->coder));
    if (x->coder.memory != NULL)
        assert_memory_equal(x->coder.memory, y->coder.memory,
                            tg__coder_memory(&x->coder) * sizeof(float));
}

/* The last results of combine=clipped. */
static inline void compare_last(const tg__robust_last *a, const tg__robust_last *b)
{
    size_t left = 0;
    for (const tg__robust_last *y = b; y != NULL; y = y->next)
        left++;
    for (const tg__robust_last *x = a, *y; x != NULL; x = x->next, left--) {
        for (y = b; y != NULL && (y->channel != x->channel || y->bucket != x->bucket ||
                                  y->begin != x->begin || y->n != x->n);)
            y = y->next;
        assert_non_null(y);
        assert_memory_equal(x->v, y->v, x->n * sizeof *x->v);
    }
    assert_int_equal(left, 0);
}

static inline void compare(const tg_server *a, const tg_server *b)
{
    const tg__region *x = a->regions, *y = b->regions;
    for (; x && y; x = x->next, y = y->next) {
        compare_sent(x->sent, y->sent);
        assert_memory_equal(x->w, y->w, x->n * sizeof *x->w);
        assert_memory_equal(x->updates, y->updates, sizeof x->updates);
        assert_memory_equal(x->ended, y->ended, sizeof x->ended);
        for (int i = 0; i < SEATS; i++) {
            const tg__pace_of *p = &x->rank[i], *q = &y->rank[i];
            if (p->late != q->late || p->late_step != q->late_step || p->came != q->came)
                fail_msg("bucket %u, seat %d: late %llx in %llu: read as %llx, %llu", x->bucket, i,
                         (unsigned long long)p->late, (unsigned long long)p->late_step,
                         (unsigned long long)q->late, (unsigned long long)q->late_step);
            if (p->clock != q->clock)
                fail_msg("bucket %u, seat %d: clock %llu: read as %llu", x->bucket, i,
                         (unsigned long long)p->clock, (unsigned long long)q->clock);
        }
    }
    assert_true(!x && !y);
    compare_last(a->robust.last, b->robust.last);
    if (a->step != b->step)
        fail_msg("step %llu: read as %llu", (unsigned long long)a->step,
                 (unsigned long long)b->step);
    for (int i = 0; i < SEATS; i++)
        if (a->in[i].worker != b->in[i].worker ||
            (a->in[i].worker != 0 && a->in[i].number != b->in[i].number))
            fail_msg("seat %d: worker %u, message %llu: read as %u, %llu", i, a->in[i].worker,
                     (unsigned long long)a->in[i].number, b->in[i].worker,
                     (unsigned long long)b->in[i].number);
}

static inline void remove_folder(const char *folder)
{
    char command[80];
    snprintf(command, sizeof command, "rm -r '%s'", folder);
    assert_int_equal(system(command), 0);
}

/* ---- messages -------------------------------------------------------------------------------- */

typedef struct message {
    int seat;
    uint32_t worker; /* 0: it does not come back */
    uint64_t number, step;
    bool parameters;
    int bucket;
    size_t begin, n;
    float value; /* of all elements */
    double rate; /* 0: 1 */
    bool anew;
    const char *tensors; /* what they are; NULL: "0 w 32"; "": not told */
    bool first;          /* with world.codec: it tells the coding */
    int64_t wait_ms;     /* no message: so much time passes */
} message;

static inline uint32_t tag_of(int bucket, size_t begin)
{
    return 128u * (uint32_t)(1 + bucket * N + (int)begin);
}

static inline void put(seat *s, uint32_t tag, const void *bytes, size_t len)
{
    assert_true(s->count < QUEUE && len <= CAP);
    sent *m = &s->queue[s->count++];
    m->tag = tag;
    m->len = len;
    memcpy(m->bytes, bytes, len);
}

/* A coding: that of a vector, in world.codec. Returns its length. */
static inline size_t put_coding(uint8_t *at, bool first)
{
    const size_t len = strlen(world.codec);
    memset(at, 0, TG__CODING_FIRST);
    if (!first)
        return TG__CODING_STEP;
    tg__put64(at + 16, 5);
    tg__put32(at + 32, (uint32_t)len);
    tg__put32(at + 36, 1);
    memcpy(at + TG__CODING_FIRST, world.codec, len);
    at += TG__CODING_FIRST + len;
    tg__put32(at, N);
    tg__put32(at + 4, N);
    tg__put32(at + 8, 1);
    return TG__CODING_FIRST + len + TG__CODING_SEGMENT;
}

static inline uint8_t id_of_codec(void)
{
    tg_codec *c;
    assert_int_equal(tg_codec_create(world.codec, &c), TG_OK);
    const uint8_t id = (uint8_t)c->ops->wire_id;
    tg_codec_destroy(c);
    return id;
}

static inline void say(const message *m)
{
    _Alignas(64) uint8_t msg[CAP];
    uint8_t stamp[TG__WORKER_STAMP], *payload = msg + TG__ENVELOPE_BYTES;
    const bool codes = world.codec != NULL && !m->parameters && m->n == N;
    tg__star head = {.combine = m->parameters ? &tg__combine_parameters : &tg__combine_mean,
                     .flags = m->anew ? TG__STAR_ANEW : 0,
                     .begin = m->begin,
                     .rate = m->rate > 0 ? m->rate : 1};
    const tg__envelope e = {.session = 7,
                            .step = m->step,
                            .bucket = (uint16_t)m->bucket,
                            .slice = (uint16_t)(m->begin / HALF),
                            .channel = 1};
    float *values = tg__f32_values(payload + TG__STAR_HEAD);
    for (size_t i = 0; i < m->n; i++)
        values[i] = m->value;
    size_t len = TG__STAR_HEAD + tg__f32_frame(payload + TG__STAR_HEAD, m->n);
    if (codes) {
        payload[TG__STAR_HEAD] = id_of_codec();
        head.flags = (uint16_t)(TG__STAR_CODED | (m->first ? TG__STAR_FIRST : 0));
        head.coding = (uint32_t)put_coding(payload + len, m->first);
        len += head.coding;
    }
    if (m->parameters) {
        const char *text = m->tensors != NULL ? m->tensors : "0 w 32\n";
        head.tensors = (uint32_t)strlen(text);
        head.flags |= head.tensors > 0 ? TG__STAR_TENSORS : 0;
        memcpy(payload + len, text, head.tensors);
        len += head.tensors;
    }
    world.seat[m->seat].codes[tag_of(m->bucket, m->begin) / 128] = codes;
    tg__star_head(payload, &head);
    tg__envelope_seal(msg, &e, len);
    tg__stamp_write(stamp, &(tg__stamp){.tag = tag_of(m->bucket, m->begin),
                                        .worker = m->worker,
                                        .len = TG__ENVELOPE_BYTES + len,
                                        .number = m->number});
    world.seat[m->seat].returns = m->worker != 0;
    put(&world.seat[m->seat], TG__TAG_STAMP, stamp, sizeof stamp);
    put(&world.seat[m->seat], TG__TAG_STAMPED, msg, TG__ENVELOPE_BYTES + len);
}

#endif
