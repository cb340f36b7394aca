/* The pace over a simulated link: three connections share an uplink of 20 Mbit/s with a round trip
 * of 100 ms, whose queue holds 375 kB. Nothing else limits them. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "net/pace.h"
#include <linux/tcp.h>

enum { CONNECTIONS = 3, FLIGHTS = 1 << 14, MS = 1000000, ROUND_MS = 100, QUEUE = 375000 };
static const double rate = 20e6 / 8 / 1e9; /* bytes a nanosecond */

typedef struct flight {
    int64_t sent_ns, back_ns;
    uint64_t bytes;
    int connection;
} flight;

static struct {
    int64_t now_ns, free_ns; /* free: when the link has sent all that it was given */
    double longest_queue;
    flight ring[FLIGHTS];
    unsigned first, end;
    uint64_t out[CONNECTIONS], arrived[CONNECTIONS];
    double usual_us;
} uplink;

static void read_link(tg__paced *c)
{
    c->shortest_us = ROUND_MS * 1000;
    c->usual_us = (uint32_t)uplink.usual_us;
    c->out = uplink.out[c->fd];
    c->arrived = uplink.arrived[c->fd];
}

static void give(int connection, uint64_t bytes)
{
    if (uplink.free_ns < uplink.now_ns)
        uplink.free_ns = uplink.now_ns;
    uplink.free_ns += (int64_t)((double)bytes / rate);
    const double queue = (double)(uplink.free_ns - uplink.now_ns) * rate;
    if (queue > uplink.longest_queue)
        uplink.longest_queue = queue;
    uplink.ring[uplink.end++ % FLIGHTS] =
        (flight){uplink.now_ns, uplink.free_ns + (int64_t)ROUND_MS * MS, bytes, connection};
    uplink.out[connection] += bytes;
    assert_true(uplink.end - uplink.first < FLIGHTS);
}

static void pass(int64_t ns)
{
    uplink.now_ns += ns;
    while (uplink.first < uplink.end &&
           uplink.ring[uplink.first % FLIGHTS].back_ns <= uplink.now_ns) {
        const flight *f = &uplink.ring[uplink.first++ % FLIGHTS];
        uplink.out[f->connection] -= f->bytes;
        uplink.arrived[f->connection] += f->bytes;
        uplink.usual_us += ((double)(f->back_ns - f->sent_ns) / 1e3 - uplink.usual_us) / 8;
    }
}

/* All connections send so many bytes. Returns how long the last one needed. */
static double send_all(tg__pace *pace, tg__paced *c, uint64_t bytes, double limit_ms)
{
    const int64_t begin_ns = uplink.now_ns;
    uint64_t left[CONNECTIONS], due = bytes * CONNECTIONS;
    for (int i = 0; i < CONNECTIONS; i++) {
        left[i] = bytes;
        due += uplink.arrived[i] + uplink.out[i];
    }
    for (uint64_t arrived = 0; arrived < due;) {
        arrived = 0;
        for (int i = 0; i < CONNECTIONS; i++) {
            size_t room;
            while (left[i] > 0 && (room = tg__pace_room(pace, &c[i], uplink.now_ns)) > 0) {
                const uint64_t n = room < left[i] ? room : left[i];
                give(i, n);
                tg__pace_gave(pace, &c[i], (size_t)n);
                left[i] -= n;
            }
            arrived += uplink.arrived[i];
        }
        pass(MS);
        if ((double)(uplink.now_ns - begin_ns) / MS > limit_ms)
            fail_msg("%.0f ms are over", limit_ms);
    }
    return (double)(uplink.now_ns - begin_ns) / MS;
}

static void begin(tg__pace *pace, tg__paced *c)
{
    uplink.now_ns = uplink.free_ns = (int64_t)MS * 1000;
    uplink.longest_queue = 0;
    uplink.first = uplink.end = 0;
    uplink.usual_us = ROUND_MS * 1000;
    tg__pace_init(pace);
    pace->read = read_link;
    for (int i = 0; i < CONNECTIONS; i++) {
        uplink.out[i] = uplink.arrived[i] = 0;
        c[i] = (tg__paced){.fd = i};
        read_link(&c[i]);
        tg__pace_add(pace, &c[i]);
    }
}

/* Together they send more than the queue holds. Nothing may be lost, and the link must be busy. */
static void a_queue_does_not_overflow(void **state)
{
    (void)state;
    tg__pace pace;
    tg__paced c[CONNECTIONS];
    const uint64_t bytes = 270000;
    assert_true(CONNECTIONS * bytes > 2 * QUEUE);
    begin(&pace, c);
    for (int step = 0; step < 40; step++) {
        const double ms = send_all(&pace, c, bytes, 10000);
        const double least_ms = (double)(CONNECTIONS * bytes) / rate / MS + ROUND_MS;
        assert_true(uplink.longest_queue < QUEUE);
        if (step >= 5 && ms > 1.15 * least_ms)
            fail_msg("step %d: %.0f ms; at least %.0f", step, ms, least_ms);
        pass((int64_t)150 * MS);
    }
}

/* Nothing waits without need: a message that fits into a burst goes at once, also after a pause. */
static void short_messages_go_at_once(void **state)
{
    (void)state;
    tg__pace pace;
    tg__paced c[CONNECTIONS];
    begin(&pace, c);
    for (int step = 0; step < 10; step++) {
        const double ms = send_all(&pace, c, 4000, 10000);
        assert_true(ms <= ROUND_MS + 2 + 3 * 4000 / rate / MS);
        pass((int64_t)1000 * MS);
    }
}

/* A connection that takes no more does not hold up the others. */
static void one_that_is_full_stands_aside(void **state)
{
    (void)state;
    tg__pace pace;
    tg__paced c[CONNECTIONS];
    begin(&pace, c);
    c[0].full = true;
    assert_true(tg__pace_room(&pace, &c[0], uplink.now_ns) == 0);
    assert_true(tg__pace_room(&pace, &c[1], uplink.now_ns) > 0);
    tg__pace_remove(&pace, &c[1]);
    assert_true(tg__pace_room(&pace, &c[1], uplink.now_ns) == SIZE_MAX);
}

/* One that asks again and again without room does not put off when the others may ask. */
static void one_that_asks_often_delays_nobody(void **state)
{
    (void)state;
    tg__pace pace;
    tg__paced c[CONNECTIONS];
    begin(&pace, c);
    c[0].full = true;
    assert_true(tg__pace_room(&pace, &c[0], uplink.now_ns) == 0);
    const int64_t tick_ns = pace.tick_ns;
    assert_true(tick_ns > uplink.now_ns + MS);
    while (uplink.now_ns + MS < tick_ns) {
        pass(MS);
        c[0].full = true;
        assert_true(tg__pace_room(&pace, &c[0], uplink.now_ns) == 0);
        assert_true(pace.tick_ns == tick_ns);
    }
}

/* Packets that arrived behind a loss, and lost ones that have not been sent again, are not. */
static void bytes_under_way(void **state)
{
    (void)state;
    struct tcp_info i = {.tcpi_snd_mss = 1000};
    assert_int_equal(tg__pace_under_way(&i, 50500), 50500);
    i.tcpi_sacked = 10;
    assert_int_equal(tg__pace_under_way(&i, 50500), 40500);
    i.tcpi_lost = 5;
    assert_int_equal(tg__pace_under_way(&i, 50500), 35500);
    i.tcpi_retrans = 2;
    assert_int_equal(tg__pace_under_way(&i, 50500), 37500);
    i.tcpi_retrans = 7; /* some of these have been lost again, or were sent for others */
    assert_int_equal(tg__pace_under_way(&i, 50500), 40500);
    i = (struct tcp_info){.tcpi_snd_mss = 1000, .tcpi_lost = 51}; /* a cut: the last one is short */
    assert_int_equal(tg__pace_under_way(&i, 50500), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_under_way),
        cmocka_unit_test(a_queue_does_not_overflow),
        cmocka_unit_test(short_messages_go_at_once),
        cmocka_unit_test(one_that_is_full_stands_aside),
        cmocka_unit_test(one_that_asks_often_delays_nobody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
