/* The behaviour required of every transport, as a program that all its ranks run at once: as
 * threads of one process or as MPI processes. A rank that finds an error returns its location. It
 * may leave the others waiting, and they notice. There is no cmocka here, because its assertions
 * work in the main thread only. */
#ifndef TG_TRANSPORT_SUITE_H
#define TG_TRANSPORT_SUITE_H

#include "telegrad/transport.h"
#include "telegrad/clock.h"
#include "telegrad/random.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SUITE_TIMEOUT_NS INT64_C(60000000000)

typedef struct suite {
    tg_transport *t;
    char *error; /* (SUITE_ERROR) */
} suite;
#define SUITE_ERROR 512

#define SUITE_CHECK(s, condition)                                                        \
    do {                                                                                 \
        if (!(condition)) {                                                              \
            snprintf((s)->error, SUITE_ERROR, "rank %d: %s:%d: %s (last error: %.120s)", \
                     (s)->t->rank, __func__, __LINE__, #condition, tg_error());          \
            return false;                                                                \
        }                                                                                \
    } while (0)

static inline tg_status suite_send(suite *s, int peer, uint32_t tag, const void *buf, size_t len,
                                   tg_request *req)
{
    return s->t->ops->post_send(s->t, peer, tag, buf, len, req);
}

static inline tg_status suite_recv(suite *s, int peer, uint32_t tag, void *buf, size_t cap,
                                   tg_request *req)
{
    return s->t->ops->post_recv(s->t, peer, tag, buf, cap, req);
}

/* Wait for one request. Returns its status, or TG_E_STATE after a minute. */
static inline tg_status suite_wait(suite *s, tg_request *req, size_t *len_p)
{
    const tg_transport_ops *ops = s->t->ops;
    int64_t limit = tg_now_ns(s->t->clock) + SUITE_TIMEOUT_NS;
    for (;;) {
        bool done = false;
        size_t len = 0;
        tg_status status = ops->test(s->t, req, &done, &len);
        if (status != TG_OK || done) {
            if (status == TG_OK && len_p)
                *len_p = len;
            return status;
        }
        if (tg_now_ns(s->t->clock) > limit)
            return tg_fail(TG_E_STATE, "nothing for a minute");
        status = ops->poll(s->t, limit);
        if (status != TG_OK)
            return status;
    }
}

static inline bool suite_wait_all(suite *s, tg_request *reqs, size_t n)
{
    for (size_t i = 0; i < n; i++)
        SUITE_CHECK(s, suite_wait(s, &reqs[i], NULL) == TG_OK);
    return true;
}

/* Content that identifies sender, receiver and message. */
static inline void suite_fill(uint8_t *buf, size_t len, int src, int dst, uint32_t seq)
{
    uint32_t x =
        (uint32_t)src * 2654435761U ^ (uint32_t)dst * 40503U ^ seq * 69069U ^ (uint32_t)len;
    for (size_t i = 0; i < len; i++) {
        x = x * 1664525U + 1013904223U;
        buf[i] = (uint8_t)(x >> 24);
    }
}

static inline bool suite_is_filled(const uint8_t *buf, size_t len, int src, int dst, uint32_t seq)
{
    uint8_t *want = malloc(len + 1);
    if (!want)
        return false;
    suite_fill(want, len, src, dst, seq);
    bool same = len == 0 || memcmp(want, buf, len) == 0;
    free(want);
    return same;
}

/* Every rank sends an empty message to every other. */
static inline bool suite_barrier(suite *s, int except)
{
    int size = s->t->size, rank = s->t->rank;
    tg_request *reqs = calloc((size_t)size * 2, sizeof *reqs);
    SUITE_CHECK(s, reqs);
    size_t n = 0;
    for (int peer = 0; peer < size; peer++) {
        if (peer == rank || peer == except)
            continue;
        SUITE_CHECK(s, suite_recv(s, peer, 99, NULL, 0, &reqs[n++]) == TG_OK);
        SUITE_CHECK(s, suite_send(s, peer, 99, NULL, 0, &reqs[n++]) == TG_OK);
    }
    bool ok = suite_wait_all(s, reqs, n);
    free(reqs);
    return ok;
}

static inline bool suite_arguments(suite *s)
{
    tg_request req = {{0}};
    char byte = 0;
    int peer = (s->t->rank + 1) % s->t->size;
    SUITE_CHECK(s, suite_send(s, s->t->rank, 0, &byte, 1, &req) == TG_E_ARG);
    SUITE_CHECK(s, suite_recv(s, s->t->rank, 0, &byte, 1, &req) == TG_E_ARG);
    SUITE_CHECK(s, suite_send(s, -1, 0, &byte, 1, &req) == TG_E_ARG);
    SUITE_CHECK(s, suite_recv(s, s->t->size, 0, &byte, 1, &req) == TG_E_ARG);
    SUITE_CHECK(s, suite_send(s, peer, (uint32_t)1 << 28, &byte, 1, &req) == TG_E_ARG);
    SUITE_CHECK(s, suite_recv(s, peer, UINT32_MAX, &byte, 1, &req) == TG_E_ARG);
    SUITE_CHECK(s, suite_send(s, peer, 0, NULL, 1, &req) == TG_E_ARG);
    SUITE_CHECK(s, suite_recv(s, peer, 0, NULL, 1, &req) == TG_E_ARG);
    SUITE_CHECK(s, suite_send(s, peer, 0, &byte, 1, NULL) == TG_E_ARG);
    return suite_barrier(s, -1);
}

/* Many messages in flight on interleaved tags; each (peer, tag) keeps its order. */
static inline bool suite_order(suite *s)
{
    enum { TAGS = 3, EACH = 40, ALL = TAGS * EACH };
    const uint32_t tags[TAGS] = {0, 7, TG_TAG_LIMIT - 1};
    int size = s->t->size, rank = s->t->rank;
    size_t posts = (size_t)size * ALL, n = 0;
    tg_request *reqs = calloc(posts * 2, sizeof *reqs);
    uint32_t *in = calloc(posts, sizeof *in), *out = calloc(posts, sizeof *out);
    SUITE_CHECK(s, reqs && in && out);
    for (int step = 0; step < 2; step++) { /* half of the ranks post their receives first */
        for (int peer = 0; peer < size; peer++) {
            if (peer == rank)
                continue;
            for (uint32_t i = 0; i < ALL; i++) {
                size_t at = (size_t)peer * ALL + i;
                if ((step + rank) % 2) {
                    out[at] = (uint32_t)rank << 16 | i;
                    SUITE_CHECK(s, suite_send(s, peer, tags[i % TAGS], &out[at], 4, &reqs[n++]) ==
                                       TG_OK);
                } else { /* tag by tag, not in the order of sending */
                    SUITE_CHECK(s, suite_recv(s, peer, tags[i / EACH], &in[at], 4, &reqs[n++]) ==
                                       TG_OK);
                }
            }
        }
    }
    SUITE_CHECK(s, suite_wait_all(s, reqs, n));
    for (int peer = 0; peer < size; peer++)
        for (uint32_t i = 0; i < ALL && peer != rank; i++)
            SUITE_CHECK(s, in[(size_t)peer * ALL + i] ==
                               ((uint32_t)peer << 16 | (i % EACH * TAGS + i / EACH)));
    free(reqs);
    free(in);
    free(out);
    return true;
}

static inline bool suite_sizes(suite *s)
{
    const size_t sizes[] = {0, 1, 4095, 65537, 3000001};
    int next = (s->t->rank + 1) % s->t->size, before = (s->t->rank + s->t->size - 1) % s->t->size;
    for (uint32_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        size_t len = sizes[i], got = 7, sent = 7;
        uint8_t *in = malloc(len + 100), *out = malloc(len + 1);
        tg_request reqs[2];
        SUITE_CHECK(s, in && out);
        suite_fill(out, len, s->t->rank, next, i);
        SUITE_CHECK(s, suite_send(s, next, 5, out, len, &reqs[0]) == TG_OK);
        SUITE_CHECK(s, suite_recv(s, before, 5, in, len + 99, &reqs[1]) == TG_OK);
        SUITE_CHECK(s, suite_wait(s, &reqs[1], &got) == TG_OK);
        SUITE_CHECK(s, suite_wait(s, &reqs[0], &sent) == TG_OK);
        SUITE_CHECK(s, got == len && sent == len);
        SUITE_CHECK(s, suite_is_filled(in, len, before, s->t->rank, i));
        bool done;
        SUITE_CHECK(s, s->t->ops->test(s->t, &reqs[1], &done, &got) == TG_E_ARG); /* already over */
        free(in);
        free(out);
    }
    return true;
}

/* A message longer than expected is an error of the receiver, and of that message only. None of it
 * is written beyond the buffer: memory that could hold all of it stays unchanged. */
static inline bool suite_too_long_by(suite *s, size_t extra)
{
    enum { CAP = 10, SECOND = CAP + 2, END = SECOND + CAP };
    int next = (s->t->rank + 1) % s->t->size, before = (s->t->rank + s->t->size - 1) % s->t->size;
    size_t long_len = CAP + extra, room = END + long_len, len = 0;
    char numbers[32], name[32];
    uint8_t *out = malloc(long_len), *in = malloc(room), last[CAP];
    tg_request reqs[4];
    SUITE_CHECK(s, out && in);
    suite_fill(out, long_len, s->t->rank, next, 0);
    suite_fill(last, CAP, s->t->rank, next, 1);
    memset(in, 0xee, room);
    SUITE_CHECK(s, suite_recv(s, before, 3, in, CAP, &reqs[0]) == TG_OK);
    SUITE_CHECK(s, suite_recv(s, before, 3, in + SECOND, CAP, &reqs[1]) == TG_OK);
    SUITE_CHECK(s, suite_send(s, next, 3, out, long_len, &reqs[2]) == TG_OK);
    SUITE_CHECK(s, suite_send(s, next, 3, last, CAP, &reqs[3]) == TG_OK);
    /* Even if tested first, the second receive gets the second message. */
    SUITE_CHECK(s, suite_wait(s, &reqs[1], &len) == TG_OK && len == CAP);
    SUITE_CHECK(s, suite_wait(s, &reqs[0], &len) == TG_E_CORRUPT);
    snprintf(numbers, sizeof numbers, "%zu bytes", long_len);
    snprintf(name, sizeof name, "rank %d", before);
    SUITE_CHECK(s, strstr(tg_error(), numbers) && strstr(tg_error(), name));
    SUITE_CHECK(s, suite_wait_all(s, reqs + 2, 2));
    SUITE_CHECK(s, suite_is_filled(in + SECOND, CAP, before, s->t->rank, 1));
    for (size_t i = CAP; i < room; i++)
        SUITE_CHECK(s, in[i] == 0xee || (i >= SECOND && i < END));
    free(out);
    free(in);
    return suite_barrier(s, -1);
}

static inline bool suite_too_long(suite *s)
{
    static const size_t extras[] = {1, 100, 5000, 28658, 70000, 99000, 1 << 20};
    for (size_t i = 0; i < sizeof extras / sizeof extras[0]; i++)
        if (!suite_too_long_by(s, extras[i]))
            return false;
    return true;
}

static inline bool suite_deadline(suite *s)
{
    const tg_transport_ops *ops = s->t->ops;
    tg_request recv = {{0}}, send = {{0}};
    int next = (s->t->rank + 1) % s->t->size, before = (s->t->rank + s->t->size - 1) % s->t->size;
    SUITE_CHECK(s, suite_recv(s, before, 8, NULL, 0, &recv) == TG_OK);
    int64_t until = tg_now_ns(s->t->clock) + 10000000;
    int polls = 0;
    for (; tg_now_ns(s->t->clock) < until; polls++)
        SUITE_CHECK(s, ops->poll(s->t, until) == TG_OK);
    SUITE_CHECK(s, polls < 1000); /* so it slept */
    SUITE_CHECK(s, ops->poll(s->t, until) == TG_OK && ops->poll(s->t, INT64_MIN) == TG_OK);
    SUITE_CHECK(s, suite_barrier(s, -1));
    SUITE_CHECK(s, suite_send(s, next, 8, NULL, 0, &send) == TG_OK);
    SUITE_CHECK(s, suite_wait(s, &recv, NULL) == TG_OK && suite_wait(s, &send, NULL) == TG_OK);
    return suite_barrier(s, -1);
}

typedef struct suite_waker {
    tg_transport *t;
    int64_t when_ns;
} suite_waker;

static inline void *suite_wake(void *arg)
{
    suite_waker *w = arg;
    const tg_clock *clock = tg_clock_monotonic();
    clock->sleep_until_ns(clock->arg, w->when_ns);
    w->t->ops->wake(w->t);
    return NULL;
}

static inline bool suite_woken(suite *s)
{
    if (!s->t->ops->wake)
        return true;
    const tg_transport_ops *ops = s->t->ops;
    int64_t start = tg_now_ns(s->t->clock), far = start + SUITE_TIMEOUT_NS;
    /* Consume earlier changes, so that the polls below end because of the wakes. */
    for (int64_t until = start + 1000000; tg_now_ns(s->t->clock) < until;)
        SUITE_CHECK(s, ops->poll(s->t, until) == TG_OK);
    ops->wake(s->t); /* before the poll */
    SUITE_CHECK(s, ops->poll(s->t, far) == TG_OK);
    suite_waker w = {s->t, start + 5000000};
    pthread_t thread;
    SUITE_CHECK(s, pthread_create(&thread, NULL, suite_wake, &w) == 0);
    tg_status status = ops->poll(s->t, far);
    pthread_join(thread, NULL);
    SUITE_CHECK(s, status == TG_OK && tg_now_ns(s->t->clock) < far);
    return suite_barrier(s, -1);
}

/* All to all with random sizes; the order of posting and of testing is shuffled per rank. */
static inline bool suite_storm(suite *s, uint32_t rounds, size_t max_len)
{
    int size = s->t->size, rank = s->t->rank;
    enum { WINDOW = 8 };
    size_t slots = (size_t)size * WINDOW;
    tg_request *reqs = calloc(slots * 2, sizeof *reqs);
    uint32_t *order = calloc(slots * 2, sizeof *order);
    uint8_t *mem = malloc(slots * 2 * max_len + 1);
    size_t *lens = calloc(slots * 2, sizeof *lens);
    bool *active = calloc(slots * 2, sizeof *active);
    SUITE_CHECK(s, reqs && order && mem && lens && active);
    for (uint32_t round = 0; round < rounds; round++) {
        const tg_rng_key mine = {
            .purpose = TG_PURPOSE_TEST, .rank = (uint32_t)rank, .step = round, .tensor = 1};
        tg_rng_permutation(&mine, order, slots * 2);
        for (size_t j = 0; j < slots * 2; j++) {
            uint32_t i = order[j];
            int peer = (int)(i / 2 / WINDOW);
            uint32_t slice = i / 2 % WINDOW, seq = round * WINDOW + slice;
            active[i] = peer != rank;
            if (!active[i])
                continue;
            bool send = i % 2;
            const tg_rng_key key = {.purpose = TG_PURPOSE_TEST,
                                    .rank = (uint32_t)(send ? rank : peer),
                                    .step = seq,
                                    .tensor = (uint32_t)(send ? peer : rank) + 2};
            double u = tg_rng_uniform(&key, 0);
            lens[i] = (size_t)(u * u * u * (double)max_len);
            uint8_t *buf = mem + i * max_len;
            if (send)
                suite_fill(buf, lens[i], rank, peer, seq);
            SUITE_CHECK(s, (send ? suite_send(s, peer, slice, buf, lens[i], &reqs[i])
                                 : suite_recv(s, peer, slice, buf, max_len, &reqs[i])) == TG_OK);
        }
        for (size_t j = slots * 2; j-- > 0;) {
            uint32_t i = order[j];
            size_t len = 0;
            if (!active[i])
                continue;
            SUITE_CHECK(s, suite_wait(s, &reqs[i], &len) == TG_OK && len == lens[i]);
            SUITE_CHECK(s, i % 2 || suite_is_filled(mem + i * max_len, len, (int)(i / 2 / WINDOW),
                                                    rank, round * WINDOW + i / 2 % WINDOW));
        }
    }
    free(reqs);
    free(order);
    free(mem);
    free(lens);
    free(active);
    return true;
}

/* The last rank leaves while the others wait for it, and says whom it blames; the others can
 * continue without it. The transport cannot be used afterwards. */
static inline bool suite_leave(suite *s)
{
    int last = s->t->size - 1;
    char name[32];
    uint8_t byte = 1;
    bool done;
    size_t len;
    tg_request recv = {{0}}, other = {{0}};
    const bool says = s->t->ops->blame != NULL; /* optional */
    snprintf(name, sizeof name, "rank %d", last);
    SUITE_CHECK(s, !says || s->t->ops->blamed(s->t, (s->t->rank + 1) % s->t->size) == TG_NOT_LEFT);
    SUITE_CHECK(s, suite_barrier(s, -1));
    if (s->t->rank == last) {
        if (says)
            s->t->ops->blame(s->t, s->t->size - 2);
        SUITE_CHECK(s, suite_recv(s, 0, 20, &byte, 1, &recv) == TG_OK);
        bool released = s->t->ops->shut(s->t);
        SUITE_CHECK(s, s->t->ops->shut(s->t) == released);
        SUITE_CHECK(s, suite_send(s, 0, 20, &byte, 1, &other) == TG_E_STATE);
        SUITE_CHECK(s, suite_recv(s, 0, 20, &byte, 1, &other) == TG_E_STATE);
        SUITE_CHECK(s, s->t->ops->test(s->t, &recv, &done, &len) == TG_E_STATE);
        SUITE_CHECK(s, s->t->ops->poll(s->t, 0) == TG_E_STATE);
        return true;
    }
    /* Posted before or after it left, the operation fails, at once or later. */
    for (int i = 0; i < 3; i++) {
        tg_status status = i == 1 ? suite_send(s, last, 21, &byte, 1, &other)
                                  : suite_recv(s, last, 21, &byte, 1, &other);
        if (status == TG_OK)
            status = suite_wait(s, &other, NULL);
        SUITE_CHECK(s, status == TG_E_PEER && strstr(tg_error(), name));
    }
    SUITE_CHECK(s, !says || s->t->ops->blamed(s->t, last) == s->t->size - 2);
    return suite_barrier(s, last);
}

/* Run all parts. If false is returned, error (SUITE_ERROR) says what was wrong. */
static inline bool suite_run(tg_transport *t, char *error)
{
    suite s = {t, error};
    return suite_arguments(&s) && suite_order(&s) && suite_sizes(&s) && suite_too_long(&s) &&
           suite_deadline(&s) && suite_woken(&s) && suite_storm(&s, 12, 20000) && suite_leave(&s);
}

#endif
