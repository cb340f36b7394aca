/* Each fault. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "transport_tools.h"
#include "base/mem.h"
#include <string.h>

enum { FAULT_N = 400, FAULT_LEN = 64 };

/* Send FAULT_N messages with faults; got[i] = length of message i as received, -1: it did not
 * arrive. All bytes of message i are (uint8_t)i. Returns the number of flipped bits in all. */
static int send_over(const char *fault, int got[FAULT_N])
{
    static uint8_t out[FAULT_N][FAULT_LEN], in[FAULT_N][FAULT_LEN];
    static tg_request send[FAULT_N], recv[FAULT_N];
    tg_transport *t[2];
    int flipped = 0;
    make_ranks(2, NULL, fault, t);
    for (int i = 0; i < FAULT_N; i++) {
        memset(out[i], i, FAULT_LEN);
        ok(post_recv(t[1], 0, (uint32_t)i, in[i], FAULT_LEN, &recv[i]));
        ok(post_send(t[0], 1, (uint32_t)i, out[i], FAULT_LEN, &send[i]));
    }
    for (int i = 0; i < FAULT_N; i++) {
        bool yes = false;
        size_t len = 0;
        ok(t[0]->ops->test(t[0], &send[i], &yes, &len));
        assert_true(yes && len == FAULT_LEN); /* the sender does not notice */
        ok(t[1]->ops->test(t[1], &recv[i], &yes, &len));
        got[i] = yes ? (int)len : -1;
        for (size_t b = 0; yes && b < len; b++)
            flipped += __builtin_popcount((unsigned)(in[i][b] ^ (uint8_t)i));
        for (size_t b = 0; b < FAULT_LEN; b++)
            assert_int_equal(out[i][b], (uint8_t)i); /* the caller's buffer is unchanged */
    }
    destroy_ranks(2, t);
    return flipped;
}

static void faulty_messages(void **state)
{
    (void)state;
    int got[FAULT_N], again[FAULT_N], count;
    assert_int_equal(send_over("fault", got), 0);
    for (int i = 0; i < FAULT_N; i++)
        assert_int_equal(got[i], FAULT_LEN);

    assert_int_equal(send_over("fault:drop=0.25", got), 0);
    count = 0;
    for (int i = 0; i < FAULT_N; i++)
        count += got[i] < 0;
    assert_in_range(count, 60, 140);
    (void)send_over("fault:drop=0.25", again);
    assert_memory_equal(got, again, sizeof got);
    (void)send_over("fault:drop=0.25,seed=2", again);
    assert_memory_not_equal(got, again, sizeof got);

    assert_int_equal(send_over("fault:corrupt=1", got), FAULT_N); /* one bit in each */
    assert_in_range(send_over("fault:corrupt=0.25", got), 60, 140);
    for (int i = 0; i < FAULT_N; i++)
        assert_int_equal(got[i], FAULT_LEN);

    assert_int_equal(send_over("fault:truncate=1", got), 0);
    int least = FAULT_LEN, most = 0;
    for (int i = 0; i < FAULT_N; i++) {
        assert_in_range(got[i], 0, FAULT_LEN - 1);
        least = TG__MIN(least, got[i]);
        most = TG__MAX(most, got[i]);
    }
    assert_true(least < 3 && most > FAULT_LEN - 4);
    (void)send_over("fault:drop=0.2,corrupt=0.5,truncate=0.5", got); /* all at once */

    assert_in_range(send_over("fault:garbage=0.5", got), FAULT_N * FAULT_LEN,
                    FAULT_N * FAULT_LEN * 3);
    for (int i = 0; i < FAULT_N; i++)
        assert_int_equal(got[i], FAULT_LEN);
}

/* A message that does not fit is an error of the receiver; the sender does not notice. */
static void faulty_oversize(void **state)
{
    (void)state;
    uint8_t out[16] = {1}, in[16];
    tg_request send, recv;
    tg_transport *t[2];
    bool yes = false;
    size_t len = 0;
    make_ranks(2, NULL, "fault:oversize=1", t);
    ok(post_recv(t[1], 0, 7, in, sizeof in, &recv));
    ok(post_send(t[0], 1, 7, out, sizeof out, &send));
    assert_int_equal(t[1]->ops->test(t[1], &recv, &yes, &len), TG_E_CORRUPT);
    assert_non_null(strstr(tg_error(), "65552 bytes from rank 0"));
    destroy_ranks(2, t);
}

/* The previous message with the same tag (without the exchange's number) arrives in place of the
 * next one. */
static void faulty_replay(void **state)
{
    (void)state;
    enum { SEQUENCE = 1 << 12 };
    static const uint32_t tags[] = {1, 2, SEQUENCE + 1, SEQUENCE + 2, 2 * SEQUENCE + 1};
    static const uint8_t want[] = {0, 1, 0, 1, 2};
    uint8_t out[5], in[5];
    tg_request send[5], recv[5];
    tg_transport *t[2];
    make_ranks(2, NULL, "fault:replay=1", t);
    for (uint8_t i = 0; i < 5; i++) {
        bool yes = false;
        size_t len = 0;
        out[i] = i;
        ok(post_recv(t[1], 0, tags[i], &in[i], 1, &recv[i]));
        ok(post_send(t[0], 1, tags[i], &out[i], 1, &send[i]));
        ok(t[1]->ops->test(t[1], &recv[i], &yes, &len));
        assert_true(yes && len == 1);
        assert_int_equal(in[i], want[i]);
    }
    destroy_ranks(2, t);
}

static void faulty_delay(void **state)
{
    (void)state;
    tg_transport *t[2];
    tg_request send[2], recv[2];
    uint8_t out[2] = {1, 2}, in[2];
    make_ranks(2, NULL, "fault:delay=5ms", t);
    int64_t start = tg_now_ns(t[0]->clock);
    for (int i = 0; i < 2; i++) {
        ok(post_recv(t[1], 0, 0, &in[i], 1, &recv[i]));
        ok(post_send(t[0], 1, 0, &out[i], 1, &send[i]));
    }
    assert_false(done(t[1], &recv[0]));
    while (!done(t[0], &send[1])) /* the sender's poll releases it */
        ok(t[0]->ops->poll(t[0], INT64_MAX));
    assert_true(done(t[1], &recv[0]) && done(t[1], &recv[1]) && done(t[0], &send[0]));
    assert_true(tg_now_ns(t[0]->clock) - start >= 5000000);
    assert_true(in[0] == 1 && in[1] == 2);
    /* A message that is still held when the rank leaves is never sent. */
    ok(post_recv(t[1], 0, 0, &in[0], 1, &recv[0]));
    ok(post_send(t[0], 1, 0, &out[1], 1, &send[0]));
    tg_transport_destroy(t[0]);
    assert_int_equal(test(t[1], &recv[0]), TG_E_PEER);
    tg_transport_destroy(t[1]);
}

static void faulty_stall(void **state)
{
    (void)state;
    tg_transport *t[2];
    tg_request send[3], recv[3], back[2];
    uint8_t out[3] = {1, 2, 3}, in[3];
    ok(tg_transport_inproc(2, t));
    ok(tg_transport_faulty(t[0], "fault:stall=2", &t[0]));
    ok(post_recv(t[0], 1, 5, &in[0], 1, &back[0]));
    for (int i = 0; i < 3; i++) {
        ok(post_recv(t[1], 0, 0, &in[i], 1, &recv[i]));
        ok(post_send(t[0], 1, 0, &out[i], 1, &send[i]));
    }
    assert_true(done(t[1], &recv[0]) && done(t[1], &recv[1]));
    assert_false(done(t[1], &recv[2]));
    ok(post_send(t[1], 0, 5, &out[0], 1, &back[1]));
    for (int i = 0; i < 3; i++)
        assert_false(done(t[0], &send[i]));
    assert_false(done(t[0], &back[0]));
    int64_t until = tg_now_ns(t[0]->clock) + 3000000;
    ok(t[0]->ops->poll(t[0], until)); /* only time can end it */
    assert_true(tg_now_ns(t[0]->clock) >= until);
    t[0]->ops->wake(t[0]);
    ok(t[0]->ops->poll(t[0], INT64_MAX)); /* ... or wake */
    destroy_ranks(2, t);
}

static void faulty_kill(void **state)
{
    (void)state;
    tg_transport *t[2];
    tg_request send[2], recv[2];
    uint8_t out = 1, in[2];
    ok(tg_transport_inproc(2, t));
    ok(tg_transport_faulty(t[0], "fault:kill=1", &t[0]));
    for (int i = 0; i < 2; i++)
        ok(post_recv(t[1], 0, 0, &in[i], 1, &recv[i]));
    ok(post_send(t[0], 1, 0, &out, 1, &send[0]));
    assert_int_equal(post_send(t[0], 1, 0, &out, 1, &send[1]), TG_E_STATE);
    assert_non_null(strstr(tg_error(), "killed by fault"));
    assert_int_equal(test(t[0], &send[0]), TG_E_STATE);
    assert_int_equal(t[0]->ops->poll(t[0], 0), TG_E_STATE);
    assert_int_equal(post_recv(t[0], 1, 0, in, 1, &send[1]), TG_E_STATE);
    assert_non_null(strstr(tg_error(), "killed by fault"));
    assert_true(done(t[1], &recv[0]));
    assert_int_equal(test(t[1], &recv[1]), TG_E_PEER);
    assert_non_null(strstr(tg_error(), "rank 0"));
    assert_true(t[0]->ops->shut(t[0]));
    destroy_ranks(2, t);
}

static void faulty_specs(void **state)
{
    (void)state;
    static const char *const cases[] = {
        "fault:drop=1.5", "fault:drop=-0.1", "fault:lose=1", "error", "",
        "fault:delay=5",  "fault:stall=-1",  "fault:kill=x"};
    tg_transport *t, *outer = NULL;
    ok(tg_transport_inproc(1, &t));
    for (size_t i = 0; i < TG_COUNT(cases); i++)
        if (tg_transport_faulty(t, cases[i], &outer) != TG_E_SPEC || outer)
            fail_msg("\"%s\": %s", cases[i], tg_error());
    assert_int_equal(tg_transport_faulty(NULL, "fault", &outer), TG_E_ARG);
    assert_int_equal(tg_transport_faulty(t, NULL, &outer), TG_E_ARG);
    tg_transport_ops holes = *t->ops;
    holes.poll = NULL;
    tg_transport bad = *t;
    bad.ops = &holes;
    assert_int_equal(tg_transport_faulty(&bad, "fault", &outer), TG_E_ARG);
    bad.struct_size = 8;
    assert_int_equal(tg_transport_faulty(&bad, "fault", &outer), TG_E_ARG);
    tg_transport_destroy(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(faulty_messages), cmocka_unit_test(faulty_oversize),
        cmocka_unit_test(faulty_replay),   cmocka_unit_test(faulty_delay),
        cmocka_unit_test(faulty_stall),    cmocka_unit_test(faulty_kill),
        cmocka_unit_test(faulty_specs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
