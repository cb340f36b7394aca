/* Emulated links: exact times on a clock that the test sets, links as text. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "transport_tools.h"
#include "transport/downlink.h"
#include "base/mem.h"
#include <string.h>

static int64_t hand_ns;

static int64_t hand_now(void *arg)
{
    (void)arg;
    return hand_ns;
}

static void hand_sleep(void *arg, int64_t when_ns)
{
    (void)arg;
    hand_ns = TG__MAX(hand_ns, when_ns);
}

static const tg_clock hand = {
    .struct_size = sizeof hand, .now_ns = hand_now, .sleep_until_ns = hand_sleep};

static void make_by_hand(int size, const char *link, tg_transport **t)
{
    hand_ns = 1000000000;
    ok(tg_transport_inproc(size, t));
    for (int r = 0; r < size; r++) {
        tg_link parsed;
        t[r]->clock = &hand;
        ok(tg_link_parse(link, &parsed));
        ok(tg_transport_shaped(t[r], &parsed, &t[r]));
    }
}

/* The operation is over at exactly start + after. */
static void over_at(tg_transport *t, tg_request *req, int64_t after_ns)
{
    hand_ns = 1000000000 + after_ns - 1;
    assert_false(done(t, req));
    hand_ns++;
    assert_true(done(t, req));
}

static uint8_t bytes[64000], room[8][64000];

static void shaped_one_message(void **state)
{
    (void)state;
    tg_transport *t[2];
    tg_request send, recv;
    make_by_hand(2, "20mbit,10ms", t);
    ok(post_recv(t[1], 0, 0, room[0], 1300, &recv));
    ok(post_send(t[0], 1, 0, bytes, 1300, &send));
    over_at(t[0], &send, 520000);
    over_at(t[1], &recv, 10520000);
    /* Polling late or not at all shifts nothing: the next message starts at its own post. */
    hand_ns = 1100000000;
    ok(post_send(t[0], 1, 0, bytes, 1300, &send));
    hand_ns = 1105000000;
    ok(post_recv(t[1], 0, 0, room[0], 1300, &recv)); /* while it is in flight */
    over_at(t[1], &recv, 110520000);
    assert_true(done(t[0], &send));
    destroy_ranks(2, t);
}

/* Both directions at once, and many messages in flight: the delay is paid once. */
static void shaped_overlap(void **state)
{
    (void)state;
    enum { N = 8 };
    tg_transport *t[2];
    tg_request send[2][N], recv[2][N];
    make_by_hand(2, "8mbit,10ms", t);
    for (int i = 0; i < N; i++)
        for (int r = 0; r < 2; r++) {
            ok(post_recv(t[r], 1 - r, (uint32_t)i, room[i], 1000, &recv[r][i]));
            ok(post_send(t[r], 1 - r, (uint32_t)i, bytes, 1000, &send[r][i]));
        }
    for (int r = 0; r < 2; r++)
        for (int i = 0; i < N; i++)
            over_at(t[r], &send[r][i], (i + 1) * 1000000);
    for (int r = 0; r < 2; r++)
        for (int i = 0; i < N; i++)
            over_at(t[r], &recv[r][i], 10000000 + (i + 1) * 1000000);
    destroy_ranks(2, t);
}

/* Four senders share the receiver's down-link; the one that started first is served first. */
static void shaped_incast(void **state)
{
    (void)state;
    tg_transport *t[5];
    tg_request send[5], recv[5];
    make_by_hand(5, "8mbit,10ms", t);
    for (int r = 4; r > 0; r--) {
        ok(post_recv(t[0], r, 0, room[r], 1000, &recv[r]));
        hand_ns = 1000000000 + (4 - r) * 1000;
        ok(post_send(t[r], 0, 0, bytes, 1000, &send[r]));
    }
    for (int r = 1; r < 5; r++)
        assert_false(done(t[0], &recv[r])); /* tested in the wrong order: changes nothing */
    for (int r = 4; r > 0; r--)
        over_at(t[0], &recv[r], 10000000 + (5 - r) * 1000000);
    destroy_ranks(5, t);

    /* Slow senders, a fast receiver: its link is not the bottleneck. */
    make_by_hand(5, "up=8mbit,down=32mbit,delay=10ms", t);
    for (int r = 1; r < 5; r++) {
        ok(post_recv(t[0], r, 0, room[r], 1000, &recv[r]));
        ok(post_send(t[r], 0, 0, bytes, 1000, &send[r]));
    }
    hand_ns = 1000000000 + 10000000;
    for (int r = 1; r < 5; r++)
        assert_false(done(t[0], &recv[r]));
    hand_ns += 999999;
    for (int r = 1; r < 5; r++)
        assert_false(done(t[0], &recv[r]));
    hand_ns++;
    for (int r = 1; r < 5; r++)
        assert_true(done(t[0], &recv[r]));
    destroy_ranks(5, t);
}

static void shaped_jitter_keeps_order(void **state)
{
    (void)state;
    enum { N = 200 };
    int64_t took[2][N];
    for (int repeat = 0; repeat < 2; repeat++) {
        tg_transport *t[2];
        static tg_request send[N], recv[N];
        make_by_hand(2, "delay=1ms,jitter=5ms", t);
        for (int i = 0; i < N; i++) {
            hand_ns = 1000000000 + i * 100000;
            ok(post_recv(t[1], 0, 0, room[0], 100, &recv[i]));
            ok(post_send(t[0], 1, 0, bytes, 100, &send[i]));
        }
        hand_ns = 1000000000;
        int64_t least = INT64_MAX, most = 0;
        for (int first = 0; first < N; hand_ns += 1000) {
            /* The last ones are tested first: none may arrive before those posted before it. */
            for (int i = N; i-- > first;) {
                if (!recv[i].word[0] || !done(t[1], &recv[i]))
                    continue;
                took[repeat][i] = hand_ns - 1000000000 - i * 100000;
                least = TG__MIN(least, took[repeat][i]);
                most = TG__MAX(most, took[repeat][i]);
            }
            while (first < N && !recv[first].word[0])
                first++;
            for (int i = first; i < N; i++)
                assert_true(recv[i].word[0]);
        }
        assert_true(least >= 1000000 && most <= 6001000 && most - least > 2000000);
        destroy_ranks(2, t);
    }
    assert_memory_equal(took[0], took[1], sizeof took[0]); /* the same both times */
}

/* The real clock: never early, and a poll with a distant deadline ends when the message arrives. */
static void shaped_real_time(void **state)
{
    (void)state;
    tg_transport *t[2];
    tg_request send, recv;
    make_ranks(2, "20mbit,10ms", NULL, t);
    for (int i = 0; i < 3; i++) {
        int64_t start = tg_now_ns(t[0]->clock);
        ok(post_recv(t[1], 0, 0, room[0], 1300, &recv));
        ok(post_send(t[0], 1, 0, bytes, 1300, &send));
        while (!done(t[1], &recv))
            ok(t[1]->ops->poll(t[1], INT64_MAX));
        int64_t took = tg_now_ns(t[0]->clock) - start;
        assert_true(took >= 10520000);
        print_message("1300 bytes over 20mbit,10ms: %.3f ms\n", (double)took * 1e-6);
        while (!done(t[0], &send))
            ok(t[0]->ops->poll(t[0], INT64_MAX));
    }
    destroy_ranks(2, t);
}

static void shaped_arguments(void **state)
{
    (void)state;
    tg_transport *t, *outer = NULL;
    tg_link link = {.struct_size = sizeof link};
    ok(tg_transport_inproc(1, &t));
    assert_int_equal(tg_transport_shaped(NULL, &link, &outer), TG_E_ARG);
    assert_int_equal(tg_transport_shaped(t, NULL, &outer), TG_E_ARG);
    assert_int_equal(tg_transport_shaped(t, &(tg_link){0}, &outer), TG_E_ARG);
    link.up_bps = -1;
    assert_int_equal(tg_transport_shaped(t, &link, &outer), TG_E_ARG);
    link.up_bps = 0;
    link.delay_ns = -1;
    assert_int_equal(tg_transport_shaped(t, &link, &outer), TG_E_ARG);
    assert_null(outer);
    link.delay_ns = 0;
    ok(tg_transport_shaped(t, &link, &outer));
    assert_int_equal(tg_transport_shaped(outer, &link, &t), TG_E_ARG);
    tg_transport_destroy(outer);
}

static void downlink(void **state)
{
    (void)state;
    tg__downlink d = {.count = 0};
    assert_int_equal(tg__downlink_serve(&d, 100, 10), 110);
    assert_int_equal(tg__downlink_serve(&d, 105, 10), 120);
    assert_int_equal(tg__downlink_serve(&d, 200, 10), 210);
    assert_int_equal(d.count, 2);
    assert_int_equal(tg__downlink_serve(&d, 50, 10), 60);  /* requested late, idle then */
    assert_int_equal(tg__downlink_serve(&d, 90, 90), 200); /* 10 before, 80 between: exactly full */
    assert_int_equal(d.count, 2);                          /* [50, 60) and [90, 210) */
    assert_int_equal(tg__downlink_serve(&d, 55, 31), 211); /* 30 between, 1 after */
    assert_int_equal(d.count, 1);
    assert_int_equal(tg__downlink_serve(&d, 0, 50), 50);
    assert_int_equal(d.count, 1);
    for (int i = 1; i <= 100; i++)
        assert_int_equal(tg__downlink_serve(&d, i * 1000, 10), i * 1000 + 10);
    assert_int_equal(d.count, TG__DOWNLINK_MAX);
    assert_int_equal(tg__downlink_serve(&d, 99500, 10), 99510);
    assert_int_equal(tg__downlink_serve(&d, 5, 10), 15); /* dropped from the record: idle */
    assert_int_equal(d.count, TG__DOWNLINK_MAX);
    for (size_t i = 0; i < d.count; i++)
        assert_true(d.busy[i].begin_ns < d.busy[i].end_ns &&
                    (i == 0 || d.busy[i - 1].end_ns < d.busy[i].begin_ns));
    assert_int_equal(tg__transfer_ns(1000, 8e6), 1000000);
    assert_int_equal(tg__transfer_ns(1000, 0), 0);
    assert_int_equal(tg__transfer_ns(SIZE_MAX, 1), INT64_C(1) << 53);
}

/* ---- links as text --------------------------------------------------------------------------- */

static void link_good(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        tg_link link;
    } cases[] = {
        {"20mbit,10ms", {.up_bps = 20e6, .down_bps = 20e6, .delay_ns = 10000000}},
        {"100mbit", {.up_bps = 100e6, .down_bps = 100e6}},
        {"10ms", {.delay_ns = 10000000}},
        {" 1 Gbit/s , 20 ms ", {.up_bps = 1e9, .down_bps = 1e9, .delay_ns = 20000000}},
        {"100Mbps", {.up_bps = 100e6, .down_bps = 100e6}},
        {"up=1MB/s, delay=1 S", {.up_bps = 8e6, .delay_ns = 1000000000}},
        {"0.5s,1.5gbit", {.up_bps = 1.5e9, .down_bps = 1.5e9, .delay_ns = 500000000}},
        {"up=5mbit,down=50mbit,delay=30ms,jitter=5ms",
         {.up_bps = 5e6, .down_bps = 50e6, .delay_ns = 30000000, .jitter_ns = 5000000}},
        {"jitter=250us,up=64kbit", {.up_bps = 64e3, .jitter_ns = 250000}},
        {"3600s", {.delay_ns = INT64_C(3600000000000)}},
    };
    for (size_t i = 0; i < TG_COUNT(cases); i++) {
        tg_link link;
        ok(tg_link_parse(cases[i].text, &link));
        assert_int_equal(link.struct_size, sizeof link);
        assert_true(link.up_bps == cases[i].link.up_bps && link.down_bps == cases[i].link.down_bps);
        assert_int_equal(link.delay_ns, cases[i].link.delay_ns);
        assert_int_equal(link.jitter_ns, cases[i].link.jitter_ns);
    }
}

static void link_bad(void **state)
{
    (void)state;
    static const char *const cases[] = {
        "",
        ",",
        "20mbit,",
        ",10ms",
        "20",
        "mbit",
        "20MB",
        "20MBPS",
        "20mbit 10ms",
        ", 10ms",
        "-1ms",
        "0mbit",
        "nanms",
        "infs",
        "0x10ms",
        "1e400gbit",
        "1e30gbit",
        "up=1.1e9gbit",
        "3601s",
        "20mbit,10mbit",
        "10ms,delay=5ms",
        "up=5ms",
        "delay=5mbit",
        "up=",
        "rate=5mbit",
        "20mbit,up=5mbit",
        "up=up=5mbit",
        "10ms10ms",
        "1e-9kbit",
        "111111111111111111111111111111111111111111111111111111111111111111111111111111ms"};
    tg_link link = {.struct_size = 1};
    for (size_t i = 0; i < TG_COUNT(cases); i++)
        if (tg_link_parse(cases[i], &link) != TG_E_SPEC || !strstr(tg_error(), "allowed"))
            fail_msg("\"%s\": %s", cases[i], tg_error());
    assert_int_equal(link.struct_size, 1);
    assert_int_equal(tg_link_parse(NULL, &link), TG_E_ARG);
}

/* Between nodes a message takes the link; within a node it arrives at once, and takes none of the
 * link's time. */
static void shaped_nodes(void **state)
{
    (void)state;
    static const int nodes[] = {7, 7, 2};
    const tg_link link = {.struct_size = sizeof link, .delay_ns = 1000000, .up_bps = 8e6};
    tg_transport *t[3];
    tg_request send[2], recv[2];
    hand_ns = 1000000000;
    ok(tg_transport_inproc(3, t));
    for (int r = 0; r < 3; r++) {
        t[r]->clock = &hand;
        assert_int_equal(tg_transport_shaped_nodes(t[r], &link, NULL, &t[r]), TG_E_ARG);
        ok(tg_transport_shaped_nodes(t[r], &link, nodes, &t[r]));
    }
    ok(post_recv(t[1], 0, 5, room[0], 4000, &recv[0]));
    ok(post_recv(t[2], 0, 5, room[1], 1000, &recv[1]));
    ok(post_send(t[0], 1, 5, bytes, 4000, &send[0]));
    ok(post_send(t[0], 2, 5, bytes, 1000, &send[1]));
    assert_true(done(t[1], &recv[0]));
    assert_true(done(t[0], &send[0]));
    over_at(t[0], &send[1], 1000000);
    over_at(t[2], &recv[1], 2000000);
    for (int r = 0; r < 3; r++)
        tg_transport_destroy(t[r]);
}

/* If links differ: the sender's up rate, the receiver's down rate, the longer of both delays. */
static void shaped_links(void **state)
{
    (void)state;
    const tg_link links[] = {
        {.struct_size = sizeof links[0], .delay_ns = 1000000, .up_bps = 8e6},
        {.struct_size = sizeof links[0], .delay_ns = 5000000, .up_bps = 4e6, .down_bps = 2e6},
        {.struct_size = sizeof links[0]}};
    tg_transport *t[3];
    tg_request send[3], recv[3];
    tg_link bad[3] = {links[0], links[1], links[2]};
    bad[1].delay_ns = -1;
    hand_ns = 1000000000;
    ok(tg_transport_inproc(3, t));
    for (int r = 0; r < 3; r++) {
        t[r]->clock = &hand;
        assert_int_equal(tg_transport_shaped_links(t[r], NULL, NULL, &t[r]), TG_E_ARG);
        assert_int_equal(tg_transport_shaped_links(t[r], bad, NULL, &t[r]), TG_E_ARG);
        assert_non_null(strstr(tg_error(), "-1"));
        ok(tg_transport_shaped_links(t[r], links, NULL, &t[r]));
    }
    ok(post_recv(t[1], 0, 1, room[0], 1000, &recv[0]));
    ok(post_recv(t[0], 1, 1, room[1], 1000, &recv[1]));
    ok(post_recv(t[0], 2, 1, room[2], 1000, &recv[2]));
    ok(post_send(t[0], 1, 1, bytes, 1000, &send[0]));
    ok(post_send(t[1], 0, 1, bytes, 1000, &send[1]));
    ok(post_send(t[2], 0, 1, bytes, 1000, &send[2]));
    assert_true(done(t[2], &send[2])); /* no rate */
    over_at(t[0], &send[0], 1000000);
    over_at(t[0], &recv[2], 1000000); /* of a rank without delay: the receiver's own */
    over_at(t[1], &send[1], 2000000);
    over_at(t[0], &recv[1], 7000000);
    over_at(t[1], &recv[0], 9000000); /* 5 ms, and then through 2 Mbit/s */
    destroy_ranks(3, t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shaped_one_message), cmocka_unit_test(shaped_overlap),
        cmocka_unit_test(shaped_incast),      cmocka_unit_test(shaped_jitter_keeps_order),
        cmocka_unit_test(shaped_real_time),   cmocka_unit_test(shaped_arguments),
        cmocka_unit_test(downlink),           cmocka_unit_test(link_good),
        cmocka_unit_test(link_bad),           cmocka_unit_test(shaped_nodes),
        cmocka_unit_test(shaped_links),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
