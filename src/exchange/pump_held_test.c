/* A wait for a server's answer begins when the message that it answers is sent, not while windows
 * hold that back: over a slow link, on a clock that the test sets. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "exchange_fixture.h"
#include "exchange/message.h"
#include "telegrad/clock.h"

/* Each of the exchanges has one message, so long that the next one is sent when it is through. */
enum { RANKS = 8, N = 300000, EXCHANGES = 4 };
static const int64_t ms = 1000000, timeout = 2000 * 1000000LL;
static const int64_t takes = 1500 * 1000000LL, answers = 1900 * 1000000LL; /* after it is through */

typedef struct world {
    tg_transport t;
    tg_clock clock;
    int64_t now;
    int64_t through_ns[EXCHANGES]; /* INT64_MAX: not sent yet */
    uint8_t *answer[EXCHANGES];    /* where it is received */
    uint32_t silent;               /* the exchange from which on the server does not answer */
} world;

static int64_t now_ns(void *arg)
{
    return ((world *)arg)->now;
}

static uint32_t exchange_of(uint32_t tag)
{
    return tag >> 12;
}

static tg_status post_send(tg_transport *t, int peer, uint32_t tag, const void *buf, size_t len,
                           tg_request *req)
{
    world *w = t->impl;
    const uint32_t i = exchange_of(tag);
    (void)peer, (void)buf;
    w->through_ns[i] = w->now + takes;
    for (uint32_t before = 0; before < i; before++)
        assert_true(w->through_ns[before] <= w->now);
    *req = (tg_request){.word = {i, len}};
    return TG_OK;
}

static tg_status post_recv(tg_transport *t, int peer, uint32_t tag, void *buf, size_t cap,
                           tg_request *req)
{
    world *w = t->impl;
    (void)peer, (void)cap;
    w->answer[exchange_of(tag)] = buf;
    *req = (tg_request){.word = {EXCHANGES + exchange_of(tag)}};
    return TG_OK;
}

static bool has_come(const world *w, uint32_t i)
{
    return i < w->silent && w->through_ns[i] != INT64_MAX && w->now >= w->through_ns[i] + answers;
}

static size_t answer(const world *w, uint32_t i)
{
    const size_t len = TG__F32_BYTES(N);
    const tg__envelope e = {.session = 5, .sender = RANKS, .step = i, .round = 1};
    memset(w->answer[i], 0, TG__ENVELOPE_BYTES + len);
    (void)tg__f32_frame(w->answer[i] + TG__ENVELOPE_BYTES, N);
    tg__envelope_seal(w->answer[i], &e, len);
    return TG__ENVELOPE_BYTES + len;
}

static tg_status test(tg_transport *t, tg_request *req, bool *done_p, size_t *len_p)
{
    world *w = t->impl;
    const uint32_t i = req->word[0] % EXCHANGES;
    const bool sends = req->word[0] < EXCHANGES;
    *done_p = sends ? w->now >= w->through_ns[i] : has_come(w, i);
    if (*done_p)
        *len_p = sends ? (size_t)req->word[1] : answer(w, i);
    return TG_OK;
}

static tg_status poll(tg_transport *t, int64_t deadline_ns)
{
    world *w = t->impl;
    w->now = TG__MAX(w->now, TG__MIN(deadline_ns, w->now + 10 * ms));
    return TG_OK;
}

static bool shut(tg_transport *t)
{
    (void)t;
    return true;
}

static const tg_transport_ops ops = {
    .struct_size = sizeof ops,
    .name = "slow",
    .post_send = post_send,
    .post_recv = post_recv,
    .test = test,
    .poll = poll,
    .shut = shut,
};

static void make_flight(tg__flight *f, tg_codec *codec, uint32_t i)
{
    *f = (tg__flight){.sequence = i, .step = i};
    assert_int_equal(tg__exchange_create_served(tg__exchange_find("star"), 0, RANKS, 1, N, codec,
                                                &tg__combine_mean, &f->x),
                     TG_OK);
    assert_int_equal(fixture_encode(f->x, i), TG_OK);
    assert_true(f->x->nparts == 1 && f->x->parts[0].len > TG__PUMP_WINDOW);
}

/* The exchanges, one after another at the same time. */
static tg_status run(world *w)
{
    tg_codec *codec;
    tg__flight f[EXCHANGES];
    tg__pump p;
    w->clock = (tg_clock){.struct_size = sizeof w->clock, .arg = w, .now_ns = now_ns};
    w->t = (tg_transport){.struct_size = sizeof w->t,
                          .ops = &ops,
                          .impl = w,
                          .size = RANKS,
                          .servers = 1,
                          .clock = &w->clock};
    tg_status status = tg_codec_create("topk:density=1,values=f32", &codec);
    assert_int_equal(status, TG_OK);
    tg__pump_init(&p, &w->t, 5, timeout);
    for (uint32_t i = 0; i < EXCHANGES; i++) {
        make_flight(&f[i], codec, i);
        w->through_ns[i] = INT64_MAX;
    }
    w->now = 1000 * ms;
    for (uint32_t i = 0; i < EXCHANGES && status == TG_OK; i++)
        status = tg__pump_launch(&p, &f[i]);
    while (status == TG_OK && p.active != NULL)
        status = tg__pump_run(&p, INT64_MAX);
    for (uint32_t i = 0; i < EXCHANGES; i++) {
        assert_true(f[i].finished == (status == TG_OK || has_come(w, i)));
        tg__flight_fini(&f[i]);
        tg__exchange_destroy(f[i].x);
    }
    tg_codec_destroy(codec);
    tg__pump_fini(&p);
    return status;
}

static void what_is_held_back_is_not_late(void **state)
{
    world w = {.silent = EXCHANGES};
    (void)state;
    if (run(&w) != TG_OK)
        fail_msg("after %.2f s: %s", (double)(w.now - 1000 * ms) * 1e-9, tg_error());
    for (int i = 0; i < EXCHANGES; i++)
        assert_in_range(w.through_ns[i] - 1000 * ms, (i + 1) * takes, (i + 1) * (takes + 10 * ms));
}

/* A server that answers nothing more has the timeout from the first message that it does not answer
 * on, or from its last answer. */
static void what_is_sent_is(void **state)
{
    (void)state;
    for (uint32_t k = 0; k < EXCHANGES; k++) {
        world w = {.silent = k};
        assert_int_equal(run(&w), TG_E_PEER);
        assert_non_null(strstr(tg_error(), "server 0 sent nothing for 2.0 s (step "));
        const int64_t last = k == 0 ? 0 : w.through_ns[k - 1] + answers,
                      late = TG__MAX(w.through_ns[k], last) + timeout;
        assert_in_range(w.now, late, late + 20 * ms);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_is_held_back_is_not_late),
                                       cmocka_unit_test(what_is_sent_is)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
