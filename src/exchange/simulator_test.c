/* Exchanges do not wait by themselves: the same objects run in a simulator of links with a virtual
 * clock, and with pumps that take turns in one thread. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "exchange_fixture.h"
#include "telegrad/clock.h"
#include "telegrad/random.h"

/* ---- a simulator ----------------------------------------------------------------------------- */

/* Every rank sends at `rate` bytes per second, one message after another; a message arrives `delay`
 * (plus a random part of `jitter`) seconds after its last byte was sent. */
enum { MAX_RANKS = 8, MAX_EVENTS = 256, MAX_WISHES = 256 };

typedef struct message {
    bool used, left, arrived; /* arrived: waits until its receive is wanted */
    int src, dst;
    tg__wish wish; /* the send */
    double leaves, arrives;
    uint8_t *copy;
} message;

typedef struct simulator {
    int size;
    double rate, delay, jitter, now;
    tg__exchange *x[MAX_RANKS];
    double up_free[MAX_RANKS], bytes[MAX_RANKS];
    message message[MAX_EVENTS];
    tg__wish recv[MAX_RANKS][MAX_WISHES]; /* wanted, not arrived; peer -1: free */
    size_t max_wishes;                    /* requested at a time */
    uint32_t draws;
} simulator;

static void put_message(simulator *s, int src, const tg__wish *w)
{
    message *m = s->message;
    while (m->used)
        assert_true(++m < s->message + MAX_EVENTS);
    double size = (double)(w->len + TG__ENVELOPE_BYTES);
    tg_rng_key key = {.seed = 9, .purpose = TG_PURPOSE_TEST};
    s->up_free[src] = TG__MAX(s->up_free[src], s->now) + size / s->rate;
    s->bytes[src] += size;
    *m = (message){.used = true, .src = src, .dst = w->peer, .wish = *w, .leaves = s->up_free[src]};
    m->arrives = m->leaves + s->delay + s->jitter * tg_rng_uniform(&key, s->draws++);
    m->copy = malloc(w->len);
    assert_non_null(m->copy);
    memcpy(m->copy, w->msg + TG__ENVELOPE_BYTES, w->len);
}

static void ask(simulator *s, int rank)
{
    tg__wish wish[MAX_WISHES];
    size_t count;
    while ((count = s->x[rank]->ops->wants(s->x[rank], wish, s->max_wishes)) > 0) {
        assert_true(count <= s->max_wishes);
        for (size_t i = 0; i < count; i++) {
            if (wish[i].send) {
                put_message(s, rank, &wish[i]);
                continue;
            }
            size_t k = 0;
            while (s->recv[rank][k].peer >= 0)
                assert_true(++k < MAX_WISHES);
            s->recv[rank][k] = wish[i];
        }
    }
}

/* Hand an arrived message to its receive, if that is wanted already. */
static bool deliver(simulator *s, message *m)
{
    for (size_t k = 0; k < MAX_WISHES; k++) {
        tg__wish *r = &s->recv[m->dst][k];
        if (r->peer != m->src || r->round != m->wish.round || r->slice != m->wish.slice)
            continue;
        assert_true(m->wish.len <= r->len);
        memcpy(r->msg + TG__ENVELOPE_BYTES, m->copy, m->wish.len);
        r->peer = -1;
        m->used = false;
        free(m->copy);
        assert_int_equal(s->x[m->dst]->ops->done(s->x[m->dst], r->id, m->wish.len), TG_OK);
        ask(s, m->dst);
        return true;
    }
    return false;
}

/* A finished exchange has nothing in flight: its buffers may be written again. */
static void check_finished(const simulator *s)
{
    for (int r = 0; r < s->size; r++) {
        if (!s->x[r]->ops->finished(s->x[r]))
            continue;
        for (const message *m = s->message; m < s->message + MAX_EVENTS; m++)
            assert_false(m->used && m->src == r && !m->left);
        for (size_t k = 0; k < MAX_WISHES; k++)
            assert_true(s->recv[r][k].peer < 0);
    }
}

/* Process the earliest event. Returns false if none is left. */
static bool next_event(simulator *s)
{
    message *first = NULL;
    double when = 0;
    for (message *m = s->message; m < s->message + MAX_EVENTS; m++) {
        double due = m->left ? m->arrives : m->leaves;
        if (m->used && !m->arrived && (!first || due < when)) {
            first = m;
            when = due;
        }
    }
    if (!first)
        return false;
    s->now = when;
    if (!first->left) {
        first->left = true;
        assert_int_equal(
            s->x[first->src]->ops->done(s->x[first->src], first->wish.id, first->wish.len), TG_OK);
        ask(s, first->src);
    } else if (!deliver(s, first)) {
        first->arrived = true;
    }
    for (message *m = s->message; m < s->message + MAX_EVENTS; m++)
        if (m->used && m->arrived)
            (void)deliver(s, m);
    check_finished(s);
    return true;
}

/* Run one case, and compare every rank's result with plain loops. Returns the time taken. */
static double simulate(simulator *s, const fixture_case *c, uint64_t step)
{
    tg_codec *codec[MAX_RANKS];
    float *dst = malloc(TG__MAX(c->n, (size_t)1) * sizeof *dst);
    s->now = 0;
    memset(s->message, 0, sizeof s->message);
    for (int r = 0; r < s->size; r++) {
        s->up_free[r] = s->jitter * 4 * r; /* still busy with other work */
        s->bytes[r] = 0;
        for (size_t k = 0; k < MAX_WISHES; k++)
            s->recv[r][k].peer = -1;
        assert_int_equal(fixture_create(c, r, s->size, &codec[r], &s->x[r]), TG_OK);
        assert_int_equal(fixture_encode(s->x[r], step), TG_OK);
        assert_int_equal(s->x[r]->ops->start(s->x[r]), TG_OK);
    }
    for (int r = 0; r < s->size; r++)
        ask(s, r);
    while (next_event(s))
        continue;
    for (int r = 0; r < s->size; r++) {
        assert_true(s->x[r]->ops->finished(s->x[r]));
        s->x[r]->ops->result(s->x[r], dst);
        if (fixture_compare(c, r, s->size, step, dst) != TG_OK)
            fail_msg("%s", tg_error());
        tg__exchange_destroy(s->x[r]);
        tg_codec_destroy(codec[r]);
    }
    free(dst);
    return s->now;
}

/* The reference of fixture_compare is also used for threads (exchange_test.c). */
static void test_any_order_gives_the_same_bits(void **state)
{
    static simulator s = {.rate = 1e6, .delay = 0.01, .jitter = 0.05};
    static const int sizes[] = {1, 2, 3, 4, 7, 8};
    fixture_case cases[FIXTURE_CASES_MAX];
    size_t count = fixture_cases(cases);
    (void)state;
    for (size_t p = 0; p < TG_COUNT(sizes); p++)
        for (size_t i = 0; i < count; i++) {
            s.size = sizes[p];
            s.max_wishes = 1 + (i + p) % 5;
            simulate(&s, &cases[i], i);
        }
}

/* With equal links and blocks the time is cost.delays * delay + cost.serial / rate. */
enum { EQUAL_BLOCKS = 16 * 840 }; /* for any number of ranks up to 8 */

static void test_cost(void **state)
{
    static simulator s = {.rate = 2.5e6, .delay = 0.01, .max_wishes = MAX_WISHES};
    const char *names[FIXTURE_EXCHANGES_MAX];
    size_t exchanges = fixture_exchanges(names);
    (void)state;
    for (size_t x = 0; x < exchanges; x++)
        for (int size = 1; size <= MAX_RANKS; size++) {
            fixture_case c = {names[x], "f32", EQUAL_BLOCKS};
            tg__cost cost;
            s.size = size;
            double took = simulate(&s, &c, 0);
            tg__exchange_find(c.exchange)->cost(size, c.n, 12.0 + 4.0 * (double)c.n, &cost);
            double want = cost.delays * s.delay + cost.serial / s.rate;
            if (fabs(took - want) > 1e-9 || fabs(s.bytes[0] - cost.bytes) > 1e-6)
                fail_msg("%s, %d ranks: %.9f s and %.1f bytes, cost says %.9f s and %.1f bytes",
                         c.exchange, size, took, s.bytes[0], want, cost.bytes);
        }
}

/* ---- pumps that take turns ------------------------------------------------------------------- */

enum { MANY_RANKS = 64 };

/* One step of every rank in one thread; returns rank 0's bytes. */
static uint64_t take_turns(int size, const fixture_case *c)
{
    static tg_transport *t[MANY_RANKS];
    static tg_codec *codec[MANY_RANKS];
    static tg__pump p[MANY_RANKS];
    static tg__flight f[MANY_RANKS];
    assert_int_equal(tg_transport_inproc(size, t), TG_OK);
    for (int r = 0; r < size; r++) {
        f[r] = (tg__flight){.step = 1};
        assert_int_equal(fixture_create(c, r, size, &codec[r], &f[r].x), TG_OK);
        assert_int_equal(fixture_encode(f[r].x, 1), TG_OK);
        tg__pump_init(&p[r], t[r], 8, INT64_C(60000000000));
        assert_int_equal(tg__pump_launch(&p[r], &f[r]), TG_OK);
    }
    for (int busy = size; busy > 0;) {
        busy = 0;
        for (int r = 0; r < size; r++) {
            if (tg__pump_run(&p[r], tg_now_ns(t[r]->clock)) != TG_OK)
                fail_msg("rank %d: %s", r, tg_error());
            busy += !f[r].finished;
        }
    }
    float *dst = malloc(TG__MAX(c->n, (size_t)1) * sizeof *dst);
    float *first = malloc(TG__MAX(c->n, (size_t)1) * sizeof *first);
    uint64_t bytes = f[0].bytes_sent;
    f[0].x->ops->result(f[0].x, first);
    for (int r = 0; r < size; r++) {
        f[r].x->ops->result(f[r].x, dst);
        const bool diverges = strcmp(c->exchange, "none") == 0 || strcmp(c->exchange, "push") == 0;
        if ((r == 0 || diverges) && fixture_compare(c, r, size, 1, dst) != TG_OK)
            fail_msg("%s", tg_error());
        if (!diverges && c->n > 0)
            assert_memory_equal(dst, first, c->n * sizeof *dst);
        assert_int_equal(p[r].own.bytes_sent, f[r].bytes_sent);
        assert_null(p[r].active);
    }
    for (int r = 0; r < size; r++) {
        tg__flight_fini(&f[r]);
        tg__exchange_destroy(f[r].x);
        tg_codec_destroy(codec[r]);
        tg__pump_fini(&p[r]);
        tg_transport_destroy(t[r]);
    }
    free(dst);
    free(first);
    return bytes;
}

static void test_inline_driver(void **state)
{
    const char *names[FIXTURE_EXCHANGES_MAX];
    size_t exchanges = fixture_exchanges(names);
    (void)state;
    for (size_t x = 0; x < exchanges; x++)
        for (int size = 1; size <= 5; size++)
            (void)take_turns(size, &(fixture_case){names[x], "f32", 1000});
}

/* 64 ranks: more rounds than a tag can number (ring), and the cost in a large world. */
static void test_many_ranks(void **state)
{
    (void)state;
    const fixture_case coded = {"allgather", "topk:density=0.01", 10000}, ring = {"ring", "f32", 9};
    tg_codec *codec = NULL;
    tg__exchange *x = NULL;
    tg__cost cost;
    assert_int_equal(fixture_create(&coded, 0, MANY_RANKS, &codec, &x), TG_OK);
    assert_int_equal(fixture_encode(x, 1), TG_OK);
    x->ops->cost(MANY_RANKS, coded.n, (double)x->parts[0].len, &cost);
    tg__exchange_destroy(x);
    tg_codec_destroy(codec);
    uint64_t bytes = take_turns(MANY_RANKS, &coded);
    assert_true((double)bytes == cost.bytes);
    assert_true((double)bytes < tg__dense_bytes(MANY_RANKS, coded.n));

    (void)take_turns(MANY_RANKS, &ring);
    (void)take_turns(MANY_RANKS, &(fixture_case){"direct", "f32", 2000});
    (void)take_turns(MANY_RANKS, &(fixture_case){"halving", "f32", 2000});
    (void)take_turns(MANY_RANKS - 1, &(fixture_case){"halving", "f32", 2000});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_order_gives_the_same_bits),
        cmocka_unit_test(test_cost),
        cmocka_unit_test(test_inline_driver),
        cmocka_unit_test(test_many_ranks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
