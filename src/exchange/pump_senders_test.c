/* How much a rank sends to a server before the first answer depends on how many ranks send to it:
 * with nodes, only their leaders do. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "exchange_fixture.h"
#include "exchange/server_window.h"
#include "telegrad/clock.h"

enum { N = 1 << 20, RANKS = 32 };

/* Sends complete at once, and nothing ever arrives. */
typedef struct world {
    tg_transport t;
    tg_clock clock;
    size_t sent;
} world;

static int64_t now_ns(void *arg)
{
    (void)arg;
    return 1;
}

static tg_status post_send(tg_transport *t, int peer, uint32_t tag, const void *buf, size_t len,
                           tg_request *req)
{
    world *w = t->impl;
    (void)tag, (void)buf;
    assert_true(peer >= t->size);
    w->sent += len;
    *req = (tg_request){.word = {1, len}};
    return TG_OK;
}

static tg_status post_recv(tg_transport *t, int peer, uint32_t tag, void *buf, size_t cap,
                           tg_request *req)
{
    (void)t, (void)peer, (void)tag, (void)buf, (void)cap;
    *req = (tg_request){.word = {0}};
    return TG_OK;
}

static tg_status test(tg_transport *t, tg_request *req, bool *done_p, size_t *len_p)
{
    (void)t;
    *done_p = req->word[0] == 1;
    if (*done_p)
        *len_p = (size_t)req->word[1];
    return TG_OK;
}

static tg_status poll(tg_transport *t, int64_t deadline_ns)
{
    (void)t, (void)deadline_ns;
    return TG_OK;
}

static bool shut(tg_transport *t)
{
    (void)t;
    return true;
}

static const tg_transport_ops ops = {
    .struct_size = sizeof ops,
    .name = "deaf",
    .post_send = post_send,
    .post_recv = post_recv,
    .test = test,
    .poll = poll,
    .shut = shut,
};

/* What rank 0 sends to all servers.
 * ranks    of the transport
 * talkers  of them, those that send to servers; 0: all */
static size_t sent(int ranks, int talkers, int servers)
{
    static const int leader[RANKS] = {0, RANKS / 2};
    const tg__group group = {.rank = leader, .patience = 1};
    world w = {.clock = {.struct_size = sizeof w.clock, .arg = &w, .now_ns = now_ns}};
    tg_codec *codec;
    tg__flight f = {.group = talkers > 0 ? &group : NULL};
    tg__pump p;
    w.t = (tg_transport){.struct_size = sizeof w.t,
                         .ops = &ops,
                         .impl = &w,
                         .size = ranks,
                         .servers = (size_t)servers,
                         .clock = &w.clock};
    assert_int_equal(tg_codec_create("f32", &codec), TG_OK);
    assert_int_equal(tg__exchange_create_served(tg__exchange_find("star"), 0,
                                                talkers > 0 ? talkers : ranks, servers, N, codec,
                                                &tg__combine_mean, &f.x),
                     TG_OK);
    assert_int_equal(fixture_encode(f.x, 0), TG_OK);
    tg__pump_init(&p, &w.t, 5, INT64_MAX / 4);
    p.own.talkers = talkers;
    assert_int_equal(tg__pump_launch(&p, &f), TG_OK);
    for (int i = 0; i < 100; i++)
        assert_int_equal(tg__pump_run(&p, 1), TG_OK);
    assert_false(f.finished);
    tg__pump_fini(&p);
    tg__flight_fini(&f);
    tg__exchange_destroy(f.x);
    tg_codec_destroy(codec);
    return w.sent;
}

static void leaders_alone(void **state)
{
    (void)state;
    for (int servers = 1; servers <= 2; servers++) {
        const size_t two = sent(2, 0, servers);
        assert_true(sent(RANKS, 2, servers) == two);
        assert_true(sent(RANKS, 0, servers) < two / 2);
        assert_true(two > TG__SERVER_WINDOW_LEAST * (size_t)servers);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(leaders_alone)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
