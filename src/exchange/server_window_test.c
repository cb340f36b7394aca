/* The window to servers, beside a simulated server: a link that takes so many bytes a second, and
 * answers after a delay. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "exchange/server_window.h"
#include "base/mem.h"
#include <string.h>

enum { MS = 1000000, SLICE = 16 << 10, MOST = 4096 };

/* Ranks that each send `slices` slices, as their windows let them, step by step; slice i is
 * answered when that of all ranks is here, and a delay later. */
static struct {
    int ranks;
    size_t slice;
    double byte_ns; /* of the server's link */
    int64_t delay_ns;
    tg__server_window w;
    int64_t sent_ns[MOST], answer_ns[MOST];
    int64_t free_ns;   /* when the server's link has taken all */
    int64_t queued_ns; /* [out] the longest that a slice has waited for it */
} net;

static void begin(int ranks, double mbit, int64_t delay_ns)
{
    memset(&net, 0, sizeof net);
    net.ranks = ranks;
    net.slice = SLICE;
    net.byte_ns = 8e3 / mbit;
    net.delay_ns = delay_ns;
}

/* All ranks are alike, so one window stands for all. Returns when all is answered. */
static int64_t step(int64_t now, size_t slices)
{
    size_t sent = 0, answered = 0;
    assert_true(slices <= MOST && net.w.out == 0);
    net.queued_ns = 0;
    while (answered < slices) {
        while (sent < slices && tg__server_window_lets(&net.w, net.ranks, 1,
                                                       (sent - answered) * net.slice, net.slice)) {
            const int64_t there = now + net.delay_ns, from = TG__MAX(there, net.free_ns);
            net.queued_ns = TG__MAX(net.queued_ns, from - there);
            net.free_ns = from + (int64_t)((double)net.ranks * (double)net.slice * net.byte_ns);
            net.sent_ns[sent] = tg__server_window_sent(&net.w, net.slice, now);
            net.answer_ns[sent++] = net.free_ns + net.delay_ns;
        }
        assert_true(sent > answered); /* an exchange with nothing out may always send */
        now = net.answer_ns[answered];
        tg__server_window_answered(&net.w, net.slice, net.sent_ns[answered], now);
        answered++;
    }
    return now;
}

/* After a few steps, a step takes the bytes and two delays, and the queue stays short. */
static void fills_the_link(void **state)
{
    static const struct {
        int ranks;
        double mbit;
        int64_t delay_ns;
    } all[] = {{4, 100, 20 * MS}, {4, 100, 0},   {16, 1000, 5 * MS},
               {2, 20, 50 * MS},  {64, 1000, 0}, {4, 1000, 50 * MS}};
    (void)state;
    for (size_t i = 0; i < TG_COUNT(all); i++) {
        int64_t now = 0, begun = 0;
        begin(all[i].ranks, all[i].mbit, all[i].delay_ns);
        for (int k = 0; k < 30; k++) {
            begun = now;
            now = step(begun, 1024);
        }
        const double least = 1024.0 * SLICE * net.ranks * net.byte_ns + 2.0 * (double)net.delay_ns;
        const double ratio = (double)(now - begun) / least;
        if (!(ratio < 1.1) || net.queued_ns > 2 * TG__SERVER_QUEUE_NS + 40 * MS)
            fail_msg("%zu: %.3f of the least time, %.1f ms in the queue, window %.0f", i, ratio,
                     (double)net.queued_ns / MS, net.w.open);
    }
}

/* A window that nothing had to wait for does not grow, whatever the round trips. */
static void grows_if_full(void **state)
{
    (void)state;
    begin(4, 1e6, 1 * MS);
    int64_t now = step(0, 2);
    const double open = net.w.open;
    for (int k = 0; k < 100; k++)
        now = step(now, 2);
    assert_true(open >= (double)TG__SERVER_WINDOW_LEAST && net.w.open <= open);
    now = step(now, 1024);
    assert_true(net.w.open > open);
}

/* Two slices are more than may go after a pause, so they begin one by one. */
static void large_slices(void **state)
{
    (void)state;
    begin(4, 200, 10 * MS);
    net.slice = 250000;
    int64_t now = step(0, 64);
    const int64_t begun = now;
    now = step(now, 64);
    const double least = 64 * 250000.0 * net.ranks * net.byte_ns + 2.0 * (double)net.delay_ns;
    if (!((double)(now - begun) < 1.1 * least))
        fail_msg("%.3f of the least time, window %.0f", (double)(now - begun) / least, net.w.open);
}

/* The link becomes ten times slower: the window follows, but not below its least. */
static void shrinks(void **state)
{
    (void)state;
    begin(4, 1000, 20 * MS);
    int64_t now = 0;
    for (int k = 0; k < 10; k++)
        now = step(now, 1024);
    const double open = net.w.open;
    net.byte_ns *= 10;
    for (int k = 0; k < 10; k++)
        now = step(now, 1024);
    assert_true(net.w.open < open / 2);
    net.byte_ns *= 1000;
    now = step(now, 1024);
    now = step(now, 1024);
    assert_true(net.w.open >= (double)TG__SERVER_WINDOW_LEAST);
    assert_true(net.w.open < 1.01 * (double)TG__SERVER_WINDOW_LEAST);
}

/* After a pause so much of it that 3/8 of the windows wait, which is half of it with 4 ranks; with
 * two servers, 3/4. And each exchange may have one message under way. */
static void lets(void **state)
{
    tg__server_window w = {0};
    size_t count = 0;
    (void)state;
    while (tg__server_window_lets(&w, 4, 1, count * SLICE, SLICE)) {
        assert_int_equal(tg__server_window_sent(&w, SLICE, 100), -100);
        count++;
    }
    assert_int_equal(count, TG__SERVER_WINDOW_FIRST / 4 / 2 / SLICE);
    assert_true(tg__server_window_lets(&w, 4, 2, SLICE, TG__SERVER_WINDOW_FIRST / 4 / 4));
    assert_false(tg__server_window_lets(&w, 4, 2, SLICE, TG__SERVER_WINDOW_FIRST / 4 / 4 + 1));
    assert_true(tg__server_window_lets(&w, 4, 1, 0, SLICE));
    assert_int_equal(tg__server_window_sent(&w, SLICE, 110), -110);
    assert_false(tg__server_window_lets(&w, 4, 1, SLICE, SLICE));
    tg__server_window_answered(&w, SLICE, -100, 300);
    assert_true(tg__server_window_lets(&w, 4, 1, SLICE, SLICE));
    assert_int_equal(tg__server_window_sent(&w, SLICE, 310), 310);
    assert_int_equal(w.shortest_ns, 200);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fills_the_link), cmocka_unit_test(grows_if_full),
        cmocka_unit_test(large_slices),   cmocka_unit_test(shrinks),
        cmocka_unit_test(lets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
