/* A wait for a server's answer begins when the message that it answers is sent, not while the
 * window holds that back: over a slow link that takes all that is sent at once, and delivers it one
 * after another, on a clock that the test sets. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "exchange_fixture.h"
#include "exchange/message.h"
#include "telegrad/clock.h"

enum { RANKS = 8, SERVERS = 3, N = 90000, BLOCK = N / SERVERS };
static const int64_t ms = 1000000, timeout = 2000 * 1000000LL, takes = 1500 * 1000000LL;

typedef struct world {
    tg_transport t;
    tg_clock clock;
    int64_t now;
    int64_t sent_ns[SERVERS], answer_ns[SERVERS]; /* INT64_MAX: not yet, or never */
    uint8_t *answer[SERVERS];                     /* where it is received */
    int silent;                                   /* a server; -1: none */
} world;

static int64_t now_ns(void *arg)
{
    return ((world *)arg)->now;
}

static tg_status post_send(tg_transport *t, int peer, uint32_t tag, const void *buf, size_t len,
                           tg_request *req)
{
    world *w = t->impl;
    const int q = peer - RANKS;
    (void)tag, (void)buf;
    *req = (tg_request){.word = {SERVERS, len}};
    w->sent_ns[q] = w->now;
    w->answer_ns[q] = q == w->silent ? INT64_MAX : w->now + takes;
    return TG_OK;
}

static tg_status post_recv(tg_transport *t, int peer, uint32_t tag, void *buf, size_t cap,
                           tg_request *req)
{
    world *w = t->impl;
    (void)tag, (void)cap;
    *req = (tg_request){.word = {(uint64_t)(peer - RANKS)}};
    w->answer[peer - RANKS] = buf;
    return TG_OK;
}

/* Sends complete at once. */
static tg_status test(tg_transport *t, tg_request *req, bool *done_p, size_t *len_p)
{
    world *w = t->impl;
    const size_t q = req->word[0], payload = TG__FRAME_HEAD + BLOCK * sizeof(float);
    *len_p = (size_t)req->word[1];
    *done_p = q == SERVERS || w->now >= w->answer_ns[q];
    if (q == SERVERS || !*done_p)
        return TG_OK;
    const tg__envelope e = {.session = 5, .sender = RANKS + (uint32_t)q, .round = 1};
    memset(w->answer[q], 0, TG__ENVELOPE_BYTES + payload);
    (void)tg__f32_frame(w->answer[q] + TG__ENVELOPE_BYTES, BLOCK);
    tg__envelope_seal(w->answer[q], &e, payload);
    *len_p = TG__ENVELOPE_BYTES + payload;
    return TG_OK;
}

static tg_status poll(tg_transport *t, int64_t deadline_ns)
{
    world *w = t->impl;
    for (int q = 0; q < SERVERS; q++)
        if (w->answer_ns[q] > w->now)
            deadline_ns = TG__MIN(deadline_ns, w->answer_ns[q]);
    w->now = TG__MAX(w->now, deadline_ns);
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

/* An exchange whose parts are so large that the window lets one go at a time. */
static tg_status exchange_with(world *w)
{
    tg_codec *codec = NULL;
    tg__flight f = {0};
    tg__pump p;
    w->now = 1000 * ms;
    w->clock = (tg_clock){.struct_size = sizeof w->clock, .arg = w, .now_ns = now_ns};
    w->t = (tg_transport){.struct_size = sizeof w->t,
                          .ops = &ops,
                          .impl = w,
                          .size = RANKS,
                          .servers = SERVERS,
                          .clock = &w->clock};
    for (int q = 0; q < SERVERS; q++)
        w->sent_ns[q] = w->answer_ns[q] = INT64_MAX;
    assert_int_equal(tg_codec_create("topk:density=1,values=f32", &codec), TG_OK);
    assert_int_equal(tg__exchange_create_served(tg__exchange_find("star"), 0, RANKS, SERVERS, N,
                                                codec, &tg__combine_mean, &f.x),
                     TG_OK);
    tg__pump_init(&p, &w->t, 5, timeout);
    assert_int_equal(fixture_encode(f.x, 0), TG_OK);
    tg_status status = tg__pump_launch(&p, &f);
    while (status == TG_OK && !f.finished)
        status = tg__pump_run(&p, INT64_MAX);
    tg__flight_fini(&f);
    tg__exchange_destroy(f.x);
    tg_codec_destroy(codec);
    tg__pump_fini(&p);
    return status;
}

static void what_is_held_back_is_not_late(void **state)
{
    world w = {.silent = -1};
    (void)state;
    if (exchange_with(&w) != TG_OK)
        fail_msg("%s", tg_error());
    for (int q = 0; q < SERVERS; q++)
        assert_int_equal(w.sent_ns[q], 1000 * ms + q * takes);
}

/* Each server has the whole timeout, from its message on; those to which nothing was sent are not
 * named. */
static void what_is_sent_is(void **state)
{
    (void)state;
    for (int q = 0; q < SERVERS; q++) {
        char text[64];
        world w = {.silent = q};
        snprintf(text, sizeof text, "server %d sent nothing for 2.0 s (", q);
        assert_int_equal(exchange_with(&w), TG_E_PEER);
        if (strncmp(tg_error(), text, strlen(text)) != 0)
            fail_msg("\"%s\" does not begin with \"%s\"", tg_error(), text);
        assert_int_equal(w.now - w.sent_ns[q], timeout);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_is_held_back_is_not_late),
                                       cmocka_unit_test(what_is_sent_is)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
