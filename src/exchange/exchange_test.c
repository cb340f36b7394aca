/* Exchanges over threads: the pump on the in-process transport, whole and faulty. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/thread.h"
#include "exchange_fixture.h"

enum { MAX_RANKS = 8 };
static const int64_t ms = 1000000;

/* ---- ranks as threads ------------------------------------------------------------------------ */

typedef struct job job;
struct job {
    tg_transport *t;
    const void *arg;
    tg_status (*run)(job *j);
    tg_status status;
    char error[1024];
    int rank;
    uint32_t flags;
    pthread_t thread;
};

static void *job_main(void *arg)
{
    job *j = arg;
    j->status = j->run(j);
    if (j->status != TG_OK)
        snprintf(j->error, sizeof j->error, "%s", tg_error());
    return NULL;
}

/* Run on `size` ranks; faulty_rank (-1: none) sees its transport through `fault`; without a faulty
 * rank, `fault` is a link that all see theirs through. */
static void run_ranks(int size, tg_status (*run)(job *), const void *arg, int faulty_rank,
                      const char *fault, job *jobs)
{
    tg_transport *t[MAX_RANKS];
    assert_int_equal(tg_transport_inproc(size, t), TG_OK);
    if (faulty_rank >= 0)
        assert_int_equal(tg_transport_faulty(t[faulty_rank], fault, &t[faulty_rank]), TG_OK);
    for (int r = 0; r < size && faulty_rank < 0 && fault; r++) {
        tg_link link = {.struct_size = sizeof link};
        assert_int_equal(tg_link_parse(fault, &link), TG_OK);
        assert_int_equal(tg_transport_shaped(t[r], &link, &t[r]), TG_OK);
    }
    for (int r = 0; r < size; r++) {
        jobs[r] = (job){.t = t[r], .rank = r, .arg = arg, .run = run};
        assert_int_equal(tg__thread_start("rank", job_main, &jobs[r], &jobs[r].thread), TG_OK);
    }
    for (int r = 0; r < size; r++)
        assert_int_equal(pthread_join(jobs[r].thread, NULL), 0);
    for (int r = 0; r < size; r++)
        tg_transport_destroy(t[r]);
}

static void all_ok(const job *jobs, int size)
{
    for (int r = 0; r < size; r++)
        if (jobs[r].status != TG_OK)
            fail_msg("rank %d of %d: %s: %s", r, size, tg_status_name(jobs[r].status),
                     jobs[r].error);
}

/* ---- results --------------------------------------------------------------------------------- */

static tg_status conform(job *j)
{
    return fixture_conformance(j->t, 60000 * ms);
}

static void test_conformance(void **state)
{
    static const int sizes[] = {1, 2, 3, 4, 7};
    (void)state;
    for (size_t i = 0; i < TG__COUNT(sizes); i++) {
        job jobs[MAX_RANKS];
        run_ranks(sizes[i], conform, NULL, -1, NULL, jobs);
        all_ok(jobs, sizes[i]);
    }
}

static void test_conformance_over_links(void **state)
{
    (void)state;
    job jobs[MAX_RANKS];
    run_ranks(3, conform, NULL, -1, "1gbit,delay=100us,jitter=200us", jobs);
    all_ok(jobs, 3);
}

static const fixture_case many[] = {{"direct", "topk:density=0.1", 1000},
                                    {"ring", "f32", 333},
                                    {"allgather", "2bit:threshold=0.5", 700},
                                    {"direct", "f32", 5},
                                    {"allgather", "fp16", 4097}};
enum { MANY = 5 };
_Static_assert(MANY == TG__COUNT(many), "");

/* Several exchanges under way at once, launched in another order on every rank. */
static tg_status run_many(job *j)
{
    tg__flight f[MANY] = {{0}};
    tg_codec *codec[MANY];
    float dst[4097];
    tg__pump p;
    tg__pump_init(&p, j->t, 5, 60000 * ms);
    for (int i = 0; i < MANY; i++)
        TG_TRY(fixture_create(&many[i], j->t->rank, j->t->size, &codec[i], &f[i].x));
    for (uint64_t step = 0; step < 4; step++) {
        for (int k = 0; k < MANY; k++) {
            int i = (k + j->t->rank) % MANY;
            TG_TRY(fixture_encode(f[i].x, step));
            f[i].step = step;
            f[i].bucket = (uint16_t)i;
            f[i].sequence = (uint32_t)(step * MANY + (uint64_t)i);
            TG_TRY(tg__pump_launch(&p, &f[i]));
        }
        while (p.active)
            TG_TRY(tg__pump_run(&p, INT64_MAX));
        for (int i = 0; i < MANY; i++) {
            if (!f[i].finished || f[i].end_ns < f[i].begin_ns)
                return tg_fail(TG_E_STATE, "flight %d did not finish", i);
            f[i].x->ops->result(f[i].x, dst);
            TG_TRY(fixture_compare(&many[i], j->t->rank, j->t->size, step, dst));
        }
    }
    uint64_t bytes = p.bytes_sent;
    for (int i = 0; i < MANY; i++) {
        tg__flight_fini(&f[i]);
        tg__exchange_destroy(f[i].x);
        tg_codec_destroy(codec[i]);
    }
    tg__pump_fini(&p);
    return bytes > 0 ? TG_OK : tg_fail(TG_E_STATE, "no bytes counted");
}

static void test_many_at_once(void **state)
{
    (void)state;
    job jobs[MAX_RANKS];
    run_ranks(5, run_many, NULL, -1, NULL, jobs);
    all_ok(jobs, 5);
}

/* Rank 1 wants to stop, the last rank has a NaN. */
static tg_status run_flags(job *j)
{
    const fixture_case *c = j->arg;
    tg_codec *codec = NULL;
    tg__flight f = {.sequence = 3};
    tg__pump p;
    float dst[64];
    TG_TRY(fixture_create(c, j->t->rank, j->t->size, &codec, &f.x));
    tg__pump_init(&p, j->t, 5, 60000 * ms);
    f.flags_out = (uint16_t)(TG__FLAG_CLOSES | (j->t->rank == 1 ? TG__FLAG_STOP : 0) |
                             (j->t->rank == j->t->size - 1 ? TG__FLAG_NONFINITE : 0));
    TG_TRY(fixture_run(&p, &f, 0, dst));
    j->flags = f.flags_in | f.flags_out;
    tg__flight_fini(&f);
    tg__exchange_destroy(f.x);
    tg_codec_destroy(codec);
    tg__pump_fini(&p);
    return TG_OK;
}

static void test_flags_reach_everyone(void **state)
{
    static const fixture_case cases[] = {
        {"direct", "f32", 3}, {"ring", "f32", 64}, {"allgather", "topk:density=0.1", 64}};
    (void)state;
    for (size_t i = 0; i < TG__COUNT(cases); i++)
        for (int size = 2; size <= 5; size++) {
            job jobs[MAX_RANKS];
            run_ranks(size, run_flags, &cases[i], -1, NULL, jobs);
            all_ok(jobs, size);
            for (int r = 0; r < size; r++)
                assert_int_equal(jobs[r].flags,
                                 TG__FLAG_CLOSES | TG__FLAG_STOP | TG__FLAG_NONFINITE);
        }
}

/* ---- faults ---------------------------------------------------------------------------------- */

enum { TIMEOUT_MS = 300 };

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
    if (status != TG_OK) { /* a dead pump says the same again */
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

static const fixture_case fault_cases[] = {
    {"direct", "f32", 200}, {"ring", "f32", 200}, {"allgather", "topk:density=0.1", 1000}};

static void run_fault(const fixture_case *c, const char *fault, job *jobs)
{
    int64_t begin = tg_now_ns(tg_clock_monotonic());
    run_ranks(4, run_until_failure, c, 1, fault, jobs);
    int64_t took = tg_now_ns(tg_clock_monotonic()) - begin;
    assert_true(took < 60 * TIMEOUT_MS * ms); /* nobody hangs; slack for a busy machine */
    for (int r = 0; r < 4; r++)
        if (jobs[r].status != TG_E_PEER && jobs[r].status != TG_E_CORRUPT)
            fail_msg("%s, %s: rank %d: %s: %s", c->exchange, fault, r,
                     tg_status_name(jobs[r].status), jobs[r].error);
}

static void expect_text(const job *j, const char *text)
{
    if (!strstr(j->error, text))
        fail_msg("rank %d: \"%s\" lacks \"%s\"", j->rank, j->error, text);
}

static void test_damage_is_found(void **state)
{
    static const char *const faults[] = {"fault:drop=0.2,seed=3", "fault:corrupt=0.2,seed=4",
                                         "fault:truncate=0.2,seed=5"};
    (void)state;
    for (size_t i = 0; i < TG__COUNT(fault_cases); i++)
        for (size_t k = 0; k < TG__COUNT(faults); k++) {
            job jobs[MAX_RANKS];
            run_fault(&fault_cases[i], faults[k], jobs);
            bool damaged = false;
            for (int r = 0; r < 4; r++)
                damaged |= jobs[r].status == TG_E_CORRUPT && strstr(jobs[r].error, "rank 1");
            assert_int_equal(damaged, k != 0);
        }
}

static void test_stalled_rank_is_named(void **state)
{
    (void)state;
    for (size_t i = 0; i < TG__COUNT(fault_cases); i++) {
        job jobs[MAX_RANKS];
        run_fault(&fault_cases[i], "fault:stall=20", jobs);
        /* In a ring only the next rank hears nothing from the stalled one. */
        bool ring = strcmp(fault_cases[i].exchange, "ring") == 0;
        for (int r = 0; r < 4; r++)
            if (r == 2 || (r != 1 && !ring))
                expect_text(&jobs[r], "rank 1");
    }
}

static void test_slow_messages_are_no_failure(void **state)
{
    (void)state;
    for (size_t i = 0; i < TG__COUNT(fault_cases); i++) {
        job jobs[MAX_RANKS];
        run_ranks(3, run_until_failure, &fault_cases[i], 1, "fault:delay=1ms", jobs);
        all_ok(jobs, 3);
    }
}

static tg_status run_killed(job *j)
{
    tg_status status = run_until_failure(j);
    /* The killed rank's own calls fail in their way. */
    return status == TG_E_STATE && j->t->rank == 1 ? tg_fail(TG_E_PEER, "%s", tg_error()) : status;
}

static void test_killed_rank_ends_all(void **state)
{
    (void)state;
    for (size_t i = 0; i < TG__COUNT(fault_cases); i++) {
        job jobs[MAX_RANKS];
        run_ranks(4, run_killed, &fault_cases[i], 1, "fault:kill=20", jobs);
        for (int r = 0; r < 4; r++)
            assert_int_equal(jobs[r].status, TG_E_PEER);
        expect_text(&jobs[1], "killed by fault");
    }
}

/* ---- one rank alone -------------------------------------------------------------------------- */

/* Rank 0's view while the others say nothing. */
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
    tg__pump_init(&p, t[0], 5, 100 * ms);
    assert_int_equal(fixture_encode(f.x, 7), TG_OK);
    assert_int_equal(tg__pump_wait(&p, &f), TG_E_PEER);
    assert_string_equal(
        tg_error(),
        "rank 1, rank 2, rank 3, rank 4 and 2 others sent nothing for 0.1 s (step 7, bucket 3, "
        "exchange allgather, round 0)");
    assert_int_equal(tg__pump_run(&p, INT64_MAX), TG_E_PEER);
    tg__flight_fini(&f);
    tg__exchange_destroy(f.x);
    tg_codec_destroy(codec);
    tg__pump_fini(&p);
    for (int r = 0; r < 7; r++)
        tg_transport_destroy(t[r]);
}

/* A pump that sleeps comes back when woken, when its deadline passes, and when nothing is active;
 * and time in which it was not called does not count as silence of the others. */
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

/* Rank 1 speaks for another session, then in another codec, then of another length. */
static tg_status run_mismatch(job *j)
{
    int kind = *(const int *)j->arg;
    bool odd = j->t->rank == 1;
    const fixture_case c = {"allgather", odd && kind == 1 ? "fp16" : "f32",
                            odd && kind == 2 ? 90 : 100};
    tg_codec *codec = NULL;
    tg__flight f = {0};
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
    for (int kind = 0; kind < 3; kind++) {
        job jobs[MAX_RANKS];
        run_ranks(2, run_mismatch, &kind, -1, NULL, jobs);
        /* One of them finds the difference, the other may only learn that it left. */
        bool found = false;
        for (int r = 0; r < 2; r++) {
            char name[16];
            snprintf(name, sizeof name, "rank %d", 1 - r);
            expect_text(&jobs[r], name);
            found |= jobs[r].status == TG_E_MISMATCH || jobs[r].status == TG_E_CORRUPT;
        }
        assert_true(found);
    }
}

/* ---- the objects ----------------------------------------------------------------------------- */

static void refused(const fixture_case *c, int rank, int size, tg_status want, const char *text)
{
    tg_codec *codec = NULL;
    tg__exchange *x = NULL;
    assert_int_equal(fixture_create(c, rank, size, &codec, &x), want);
    if (!strstr(tg_error(), text))
        fail_msg("\"%s\" lacks \"%s\"", tg_error(), text);
}

static void test_refusals(void **state)
{
    (void)state;
    refused(&(fixture_case){"ring", "topk", 10}, 0, 2, TG_E_UNSUPPORTED, "allowed: f32");
    refused(&(fixture_case){"ring", "f32", 10}, 0, 3000, TG_E_UNSUPPORTED, "at most 2049");
    refused(&(fixture_case){"direct", "f32", 10}, 2, 2, TG_E_ARG, "rank=2 of 2");
    refused(&(fixture_case){"direct", "f32", 10}, 0, 0, TG_E_ARG, "rank=0 of 0");
    refused(&(fixture_case){"direct", "f32", TG_MAX_ELEMENTS + 1}, 0, 2, TG_E_ARG, "allowed");
    tg__exchange_destroy(NULL);
}

static void test_list(void **state)
{
    (void)state;
    size_t count, entries;
    const tg__exchange_ops *const *ops = tg__exchanges(&count);
    const tg_entry *const *entry = tg__exchange_entries(&entries);
    assert_int_equal(count, 4);
    assert_int_equal(entries, 4);
    for (size_t i = 0; i < count; i++) {
        tg__cost cost;
        assert_ptr_equal(entry[i], &ops[i]->entry);
        assert_ptr_equal(tg__exchange_find(entry[i]->name), ops[i]);
        assert_true(ops[i]->decodes_own);
        ops[i]->cost(1, 1000, 4012, &cost);
        assert_true(cost.rounds == 0 && cost.delays == 0 && cost.bytes == 0);
    }
    assert_false(tg__exchange_find("broadcast")->decodes_own);
    assert_null(tg__exchange_find("carrier-pigeon"));
    assert_true(tg__dense_bytes(4, 1000) == 6000);
    assert_true(tg__dense_bytes(1, 1000) == 0);
}

/* Frames that are damaged in ways a checksum cannot tell: a peer that computes wrongly. */
static void test_bad_frames(void **state)
{
    static const fixture_case cases[] = {{"direct", "f32", 64},
                                         {"ring", "f32", 64},
                                         {"allgather", "topk:density=0.1", 64},
                                         {"broadcast", "f32", 64}};
    (void)state;
    for (size_t i = 0; i < TG__COUNT(cases); i++)
        for (int damage = 0; damage < 4; damage++) {
            tg_codec *codec = NULL;
            tg__exchange *x = NULL;
            tg__wish wish[16];
            assert_int_equal(fixture_create(&cases[i], 1, 2, &codec, &x), TG_OK);
            assert_int_equal(fixture_encode(x, 0), TG_OK);
            assert_int_equal(x->ops->start(x), TG_OK);
            assert_true(x->ops->wants(x, wish, 16) > 0);
            assert_false(wish[0].send);
            uint8_t *frame = wish[0].msg + TG__ENVELOPE_BYTES;
            size_t n =
                strcmp(cases[i].exchange, "direct") == 0 || strcmp(cases[i].exchange, "ring") == 0
                    ? 32
                    : 64;
            size_t len = TG__FRAME_HEAD;
            uint8_t id = x->codec->ops->wire_id;
            tg__frame_head(frame, damage == 0 ? (uint8_t)(id + 1) : id, TG__FORM_ZERO, 0,
                           damage == 1 ? n + 1 : n, 0);
            if (damage == 2)
                len--;
            if (damage == 3)
                len = 0;
            tg_status status = x->ops->done(x, wish[0].id, len);
            assert_true(status == TG_E_CORRUPT || status == TG_E_MISMATCH);
            assert_non_null(strstr(tg_error(), "rank 0"));
            tg__exchange_destroy(x);
            tg_codec_destroy(codec);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_conformance),
        cmocka_unit_test(test_conformance_over_links),
        cmocka_unit_test(test_many_at_once),
        cmocka_unit_test(test_flags_reach_everyone),
        cmocka_unit_test(test_damage_is_found),
        cmocka_unit_test(test_stalled_rank_is_named),
        cmocka_unit_test(test_slow_messages_are_no_failure),
        cmocka_unit_test(test_killed_rank_ends_all),
        cmocka_unit_test(test_silence_names_the_silent),
        cmocka_unit_test(test_run_returns),
        cmocka_unit_test(test_mismatch_names_the_sender),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_list),
        cmocka_unit_test(test_bad_frames),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
