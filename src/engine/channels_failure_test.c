/* Several reducers on one transport: a failure of one ends all, with the reason. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/virtual_clock.h"
#include "channel_ranks.h"
#include "telegrad/clock.h"

/* Two are in flight when a rank falls silent: both report it by number; a third is not created. */
static tg_status silent(job *j)
{
    tg_reducer *r[3] = {NULL};
    float g = 1, mean[2];
    char first[512];
    tg_status status = TG_OK;
    for (int i = 0; status == TG_OK && i < 2; i++)
        status = make_for(j, "dense", 1, 500, &r[i]);
    for (int step = 0; status == TG_OK && step < 100; step++) {
        for (int i = 0; status == TG_OK && i < 2; i++)
            status = tg_reducer_start(r[i], &g, &mean[i], NULL, NULL);
        for (int i = 0; status == TG_OK && i < 2; i++)
            status = tg_reducer_wait(r[j->rank == 0 ? i : 1 - i]);
    }
    snprintf(first, sizeof first, "%s", tg_error());
    for (int i = 0; status != TG_OK && i < 2; i++)
        if (tg_reducer_wait(r[i]) != status || strcmp(tg_error(), first) != 0)
            status = tg_fail(TG_E_STATE, "first %s, then %s", first, tg_error());
    if (status != TG_OK && make(j, "dense", 1, &r[2]) != status)
        status = tg_fail(TG_E_STATE, "made: %s", first);
    (void)tg_fail(status, "%s", first);
    for (int i = 0; i < 3; i++)
        tg_reducer_destroy(r[i]);
    return status;
}

static void test_silent(void **state)
{
    (void)state;
    job jobs[3];
    /* 8 messages for setup, then 7 steps of 8 */
    run_ranks(3, silent, NULL, 2, "fault:stall=64", jobs);
    for (int r = 0; r < 2; r++) {
        assert_int_equal(jobs[r].status, TG_E_PEER);
        expect_text(&jobs[r], "rank 2");
    }
    assert_int_equal(jobs[2].status, TG_E_PEER);
}

/* One is destroyed in flight: the other one on this rank reports that; other ranks name this
 * rank. */
static tg_status destroyed(job *j)
{
    tg_reducer *r[2] = {NULL};
    float g = 1, mean[2];
    tg_status status = TG_OK;
    for (int i = 0; status == TG_OK && i < 2; i++)
        status = make(j, "dense", 1, &r[i]);
    if (status == TG_OK && j->rank == 2) {
        status = tg_reducer_start(r[0], &g, mean, NULL, NULL);
        tg_reducer_destroy(r[0]);
        r[0] = NULL;
        if (status == TG_OK)
            status = tg_reducer_start(r[1], &g, mean, NULL, NULL);
    } else if (status == TG_OK) {
        status = tg_reducer_mean(r[1], &g, mean);
    }
    for (int i = 0; i < 2; i++)
        tg_reducer_destroy(r[i]);
    return status;
}

static void test_destroyed(void **state)
{
    (void)state;
    job jobs[3];
    run_ranks(3, destroyed, NULL, -1, NULL, jobs);
    for (int r = 0; r < 2; r++) {
        assert_int_equal(jobs[r].status, TG_E_PEER);
        expect_text(&jobs[r], "rank 2");
    }
    assert_int_equal(jobs[2].status, TG_E_STATE);
    expect_text(&jobs[2], "channel 1 was destroyed on this rank (2)");
}

/* One rank's method is wrong, and its caller destroys the transport: the others stop waiting. */
static tg_status refused(job *j)
{
    tg_reducer *r[2] = {NULL};
    float g = 1;
    tg_status status = make(j, "dense", 1, &r[0]);
    if (status == TG_OK)
        status = make(j, j->rank == 2 ? "topk:density=7" : "topk", 1, &r[1]);
    for (int i = 0; i < 2 && j->rank == 2; i++)
        tg_reducer_destroy(r[i]);
    if (j->rank == 2) {
        tg_transport_destroy(j->t);
        return status;
    }
    if (status != TG_OK && tg_reducer_mean(r[0], &g, &g) != status)
        status = tg_fail(TG_E_STATE, "the first lives");
    for (int i = 0; i < 2; i++)
        tg_reducer_destroy(r[i]);
    tg_transport_destroy(j->t);
    return status;
}

static void test_refused(void **state)
{
    (void)state;
    tg_transport *t[3];
    job jobs[3];
    assert_int_equal(tg_transport_inproc(3, t), TG_OK);
    for (int r = 0; r < 3; r++) {
        jobs[r] = (job){.t = t[r], .rank = r, .run = refused};
        assert_int_equal(tg__thread_start("rank", job_main, &jobs[r], &jobs[r].thread), TG_OK);
    }
    for (int r = 0; r < 3; r++)
        assert_int_equal(pthread_join(jobs[r].thread, NULL), 0);
    assert_int_equal(jobs[2].status, TG_E_SPEC);
    for (int r = 0; r < 2; r++) {
        assert_int_equal(jobs[r].status, TG_E_PEER);
        expect_text(&jobs[r], "rank 2");
    }
}

/* It retries with the right method, for which the others have waited. */
static tg_status retried(job *j)
{
    tg_reducer *r[2] = {NULL};
    float g = (float)j->rank;
    tg_status status = make(j, "dense", 1, &r[0]);
    if (status == TG_OK && j->rank == 2 && make(j, "topk:density=7", 1, &r[1]) != TG_E_SPEC)
        status = tg_fail(TG_E_STATE, "a wrong spec was accepted");
    if (status == TG_OK)
        status = make(j, "topk", 1, &r[1]);
    for (int i = 0; status == TG_OK && i < 2; i++)
        status = tg_reducer_mean(r[i], &g, &g);
    if (status == TG_OK && g != 1)
        status = tg_fail(TG_E_STATE, "the mean is %g", (double)g);
    for (int i = 0; i < 2; i++)
        tg_reducer_destroy(r[i]);
    return status;
}

static void test_retried(void **state)
{
    (void)state;
    job jobs[3];
    run_ranks(3, retried, NULL, -1, NULL, jobs);
    all_ok(jobs, 3);
}

/* ---- a pause is long for one reducer and short for another ----------------------------------- */

typedef struct timed_rank {
    job j;
    tg_clock *clock;
    tg_clock_thread *thread;
} timed_rank;

/* Rank 0 is away for 1.5 s, then waits. With a timeout of 2 s the time away does not count; with
 * 200 s it does: rank 1, which sends nothing, is late at 3.5 s, or at 200 s. Before it is given up
 * it gets a short time to say whom it waits for: 3/4 of the timeout, at most 2 s. */
static tg_status pausing(timed_rank *t, int64_t timeout_ms)
{
    tg_reducer *r[2] = {NULL};
    float g = 1, mean[2];
    job *j = &t->j;
    tg_status status = make_for(j, "dense", 1, 2000000, &r[0]);
    if (status == TG_OK)
        status = make_for(j, "dense", 1, timeout_ms, &r[1]);
    const int64_t begin = tg_now_ns(t->clock);
    if (status == TG_OK && j->rank == 1) {
        t->clock->sleep_until_ns(t->clock->arg, begin + 1000000 * ms);
        status = tg_fail(TG_E_PEER, "away");
    }
    bool done = false;
    for (int i = 0; status == TG_OK && i < 2; i++)
        status = tg_reducer_start(r[i], &g, &mean[i], NULL, NULL);
    if (status == TG_OK)
        status = tg_reducer_test(r[0], &done);
    if (status == TG_OK) {
        t->clock->sleep_until_ns(t->clock->arg, begin + 1500 * ms);
        status = tg_reducer_wait(r[0]);
    }
    j->flags = (uint32_t)((tg_now_ns(t->clock) - begin) / ms);
    for (int i = 0; i < 2; i++)
        tg_reducer_destroy(r[i]);
    return status;
}

static void *pausing_main(void *arg)
{
    timed_rank *t = arg;
    t->j.status = pausing(t, *(const int64_t *)t->j.arg);
    snprintf(t->j.error, sizeof t->j.error, "%s", tg_error());
    return NULL;
}

static void test_pause(void **state)
{
    static const int64_t timeout_ms[] = {2000, 200000};
    static const uint32_t end_ms[] = {5000, 202000};
    (void)state;
    for (int k = 0; k < 2; k++) {
        timed_rank ranks[2];
        tg_transport *t[2];
        tg_clock *clock;
        assert_int_equal(tg_clock_virtual_create(1000 * ms, &clock), TG_OK);
        assert_int_equal(tg_transport_inproc_clock(2, clock, t), TG_OK);
        assert_int_equal(tg_clock_enter(clock, 100), TG_OK); /* until both are there */
        for (int r = 0; r < 2; r++) {
            ranks[r] =
                (timed_rank){.j = {.t = t[r], .rank = r, .arg = &timeout_ms[k]}, .clock = clock};
            assert_int_equal(tg_clock_thread_start(clock, 2 * (uint64_t)r, "rank", pausing_main,
                                                   &ranks[r], &ranks[r].thread),
                             TG_OK);
        }
        tg_clock_leave(clock);
        for (int r = 0; r < 2; r++)
            tg_clock_thread_join(clock, ranks[r].thread);
        assert_int_equal(ranks[0].j.status, TG_E_PEER);
        expect_text(&ranks[0].j, "rank 1 sent nothing");
        expect_text(&ranks[0].j, "channel 2");
        assert_in_range(ranks[0].j.flags, end_ms[k], end_ms[k] + 300);
        tg_transport_destroy(t[0]);
        tg_transport_destroy(t[1]);
        tg_clock_virtual_destroy(clock);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_silent), cmocka_unit_test(test_destroyed),
        cmocka_unit_test(test_refused), cmocka_unit_test(test_retried),
        cmocka_unit_test(test_pause)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
