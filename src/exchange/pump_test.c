/* Failures: faulty, silent and mismatched ranks; and when tg__pump_run returns. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "exchange_ranks.h"
#include "telegrad/clock.h"

/* ---- faults ---------------------------------------------------------------------------------- */

enum { TIMEOUT_MS = 1000 };

/* Exchange until something fails. */
static tg_status run_until_failure(job *j)
{
    const fixture_case *c = j->arg;
    tg_codec *codec = NULL;
    tg__flight f = {.bucket = 3};
    tg__pump p;
    float dst[1000];
    TG_TRY(fixture_create(c, j->t->rank, j->t->size, &codec, &f.x));
    tg__pump_init(&p, j->t, 5, TIMEOUT_MS * ms);
    tg_status status = TG_OK;
    for (uint64_t step = 0; step < 60 && status == TG_OK; step++) {
        f.sequence = (uint32_t)step;
        status = fixture_run(&p, &f, step, dst);
        if (status == TG_OK)
            status = fixture_compare(c, j->t->rank, j->t->size, step, dst);
    }
    if (status != TG_OK) { /* a dead pump repeats its error */
        char error[256];
        snprintf(error, sizeof error, "%s", tg_error());
        if (tg__pump_run(&p, 0) != status || strcmp(tg_error(), error) != 0 ||
            tg__pump_launch(&p, &f) != status || strcmp(tg_error(), error) != 0)
            status = tg_fail(TG_E_ARG, "the failure changed: %s", error);
        (void)j->t->ops->shut(j->t);
    }
    tg__flight_fini(&f);
    tg__exchange_destroy(f.x);
    tg_codec_destroy(codec);
    tg__pump_fini(&p);
    return status;
}

static const fixture_case fault_cases[] = {{"direct", "f32", 200},
                                           {"ring", "f32", 200},
                                           {"allgather", "topk:density=0.1", 1000},
                                           {"halving", "f32", 200},
                                           {"reducescatter", "topk:density=0.1", 1000},
                                           {"gtopk", "topk:density=0.1", 1000}};

static void name_the_faulty(const job *jobs)
{
    expect_text(&jobs[0], "rank 1");
    expect_text(&jobs[2], "rank 1");
    expect_text(&jobs[3], "rank 1");
}

static void run_fault(const fixture_case *c, const char *fault, job *jobs)
{
    int64_t begin = tg_now_ns(tg_clock_monotonic());
    run_ranks(4, run_until_failure, c, 1, fault, jobs);
    int64_t took = tg_now_ns(tg_clock_monotonic()) - begin;
    assert_true(took < 60 * TIMEOUT_MS * ms); /* no rank hangs; slack for a busy machine */
    for (int r = 0; r < 4; r++)
        if (jobs[r].status != TG_E_PEER && jobs[r].status != TG_E_CORRUPT)
            fail_msg("%s, %s: rank %d: %s: %s", c->exchange, fault, r,
                     tg_status_name(jobs[r].status), jobs[r].error);
}

static void test_damage_is_found(void **state)
{
    static const char *const faults[] = {"fault:drop=0.2,seed=3",     "fault:corrupt=0.2,seed=4",
                                         "fault:truncate=0.2,seed=5", "fault:garbage=0.2,seed=6",
                                         "fault:oversize=0.2,seed=7", "fault:replay=0.2,seed=8"};
    (void)state;
    for (size_t i = 0; i < TG_COUNT(fault_cases); i++)
        for (size_t k = 0; k < TG_COUNT(faults); k++) {
            job jobs[MAX_RANKS];
            run_fault(&fault_cases[i], faults[k], jobs);
            bool damaged = false;
            for (int r = 0; r < 4; r++)
                damaged |= (jobs[r].status == TG_E_CORRUPT || strstr(jobs[r].error, ": step=")) &&
                           strstr(jobs[r].error, "rank 1");
            assert_int_equal(damaged, k != 0);
            if (damaged)
                name_the_faulty(jobs);
        }
}

static void test_stalled_rank_is_named(void **state)
{
    (void)state;
    for (size_t i = 0; i < TG_COUNT(fault_cases); i++) {
        job jobs[MAX_RANKS];
        run_fault(&fault_cases[i], "fault:stall=20", jobs);
        /* In a ring, only the rank after the stalled one notices; in halving, its partners; in a
         * tree, the rank above. The others learn it from these. */
        name_the_faulty(jobs);
    }
}

static void test_slow_messages_are_no_failure(void **state)
{
    (void)state;
    for (size_t i = 0; i < TG_COUNT(fault_cases); i++) {
        job jobs[MAX_RANKS];
        run_ranks(3, run_until_failure, &fault_cases[i], 1, "fault:delay=1ms", jobs);
        all_ok(jobs, 3);
    }
}

static tg_status run_killed(job *j)
{
    tg_status status = run_until_failure(j);
    /* The killed rank's own calls fail with another status. */
    return status == TG_E_STATE && j->t->rank == 1 ? tg_fail(TG_E_PEER, "%s", tg_error()) : status;
}

static void test_killed_rank_ends_all(void **state)
{
    (void)state;
    for (size_t i = 0; i < TG_COUNT(fault_cases); i++) {
        job jobs[MAX_RANKS];
        run_ranks(4, run_killed, &fault_cases[i], 1, "fault:kill=20", jobs);
        for (int r = 0; r < 4; r++)
            assert_int_equal(jobs[r].status, TG_E_PEER);
        expect_text(&jobs[1], "killed by fault");
        name_the_faulty(jobs);
    }
}

/* ---- one rank alone -------------------------------------------------------------------------- */

/* Rank 0's view while the others send nothing. */
static void test_silence_names_the_silent(void **state)
{
    static const fixture_case c = {"allgather", "f32", 100};
    (void)state;
    tg_transport *t[7];
    tg_codec *codec = NULL;
    tg__flight f = {.step = 7, .bucket = 3};
    tg__pump p;
    assert_int_equal(tg_transport_inproc(7, t), TG_OK);
    assert_int_equal(fixture_create(&c, 0, 7, &codec, &f.x), TG_OK);
    tg__pump_init(&p, t[0], 5, 2000 * ms); /* long beside a pause between two posts */
    assert_int_equal(fixture_encode(f.x, 7), TG_OK);
    assert_int_equal(fixture_wait(&p, &f), TG_E_PEER);
    assert_string_equal(
        tg_error(),
        "rank 1, rank 2, rank 3, rank 4 and 2 others sent nothing for 2.0 s: this rank (0) may be "
        "cut off (step 7, bucket 3, exchange allgather, round 0)");
    assert_int_equal(tg__pump_run(&p, INT64_MAX), TG_E_PEER);
    tg__flight_fini(&f);
    tg__exchange_destroy(f.x);
    tg_codec_destroy(codec);
    tg__pump_fini(&p);
    for (int r = 0; r < 7; r++)
        tg_transport_destroy(t[r]);
}

/* A sleeping pump returns when woken, when its deadline passes, and when nothing is active; time in
 * which it was not called does not count as silence of the others. */
static void test_run_returns(void **state)
{
    static const fixture_case c = {"direct", "f32", 100};
    (void)state;
    tg_transport *t[2];
    tg_codec *codec = NULL;
    tg__flight f = {0}, clash = {.sequence = 4096};
    tg__pump p;
    const tg_clock *clock = tg_clock_monotonic();
    assert_int_equal(tg_transport_inproc(2, t), TG_OK);
    assert_int_equal(fixture_create(&c, 0, 2, &codec, &f.x), TG_OK);
    tg__pump_init(&p, t[0], 5, 400 * ms);
    assert_int_equal(tg__pump_run(&p, INT64_MAX), TG_OK);

    assert_int_equal(fixture_encode(f.x, 0), TG_OK);
    assert_int_equal(tg__pump_launch(&p, &f), TG_OK);
    assert_int_equal(tg__pump_run(&p, tg_now_ns(clock)), TG_OK);
    assert_false(f.finished);
    t[0]->ops->wake(t[0]);
    assert_int_equal(tg__pump_run(&p, INT64_MAX), TG_OK);
    assert_false(f.finished);
    clock->sleep_until_ns(clock->arg, tg_now_ns(clock) + 500 * ms);
    assert_int_equal(tg__pump_run(&p, tg_now_ns(clock) + 5 * ms), TG_OK);
    assert_ptr_equal(p.active, &f);

    clash.x = f.x;
    assert_int_equal(tg__pump_launch(&p, &clash), TG_E_STATE);
    tg__flight_fini(&f);
    tg__flight_fini(&clash);
    tg__exchange_destroy(f.x);
    tg_codec_destroy(codec);
    tg__pump_fini(&p);
    tg_transport_destroy(t[0]);
    tg_transport_destroy(t[1]);
}

/* Rank 1 uses another session, then another codec, then another length, then another round of its
 * method's program. */
static tg_status run_mismatch(job *j)
{
    int kind = *(const int *)j->arg;
    bool odd = j->t->rank == 1;
    const fixture_case c = {"allgather", odd && kind == 1 ? "fp16" : "f32",
                            odd && kind == 2 ? 90 : 100};
    tg_codec *codec = NULL;
    tg__flight f = {.program_round = odd && kind == 3};
    tg__pump p;
    float dst[100];
    TG_TRY(fixture_create(&c, j->t->rank, j->t->size, &codec, &f.x));
    tg__pump_init(&p, j->t, odd && kind == 0 ? 6 : 5, 60000 * ms);
    tg_status status = fixture_run(&p, &f, 0, dst);
    (void)j->t->ops->shut(j->t);
    tg__flight_fini(&f);
    tg__exchange_destroy(f.x);
    tg_codec_destroy(codec);
    tg__pump_fini(&p);
    return status;
}

static void test_mismatch_names_the_sender(void **state)
{
    (void)state;
    for (int kind = 0; kind < 4; kind++) {
        job jobs[MAX_RANKS];
        run_ranks(2, run_mismatch, &kind, -1, NULL, jobs);
        /* One of them finds the difference; the other may only learn that it left. */
        bool found = false;
        for (int r = 0; r < 2; r++) {
            char name[16];
            snprintf(name, sizeof name, "rank %d", 1 - r);
            expect_text(&jobs[r], name);
            found |= jobs[r].status == TG_E_MISMATCH || jobs[r].status == TG_E_CORRUPT ||
                     strstr(jobs[r].error, ": round=");
        }
        assert_true(found);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_damage_is_found),
        cmocka_unit_test(test_stalled_rank_is_named),
        cmocka_unit_test(test_slow_messages_are_no_failure),
        cmocka_unit_test(test_killed_rank_ends_all),
        cmocka_unit_test(test_silence_names_the_silent),
        cmocka_unit_test(test_run_returns),
        cmocka_unit_test(test_mismatch_names_the_sender),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
