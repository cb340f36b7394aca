/* Strategies whose ranks take own steps, in sessions: the same bits with a thread and inline, with
 * every kind of method; checkpoints in the middle of rounds and of exchanges; refusals and their
 * reasons. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "session_fixture.h"

#include <unistd.h>

static fixture_result result[16];

static const char *const strategies[] = {"pipe:width=3",
                                         "dga:delay=3",
                                         "dga:delay=4,every=2",
                                         "local:every=3,after=2",
                                         "local:every=2,momentum=average",
                                         "fedavg:every=3,clients=0.67",
                                         "diloco:every=3",
                                         "eager:every=3",
                                         "sparseloco:every=4",
                                         "streaming:every=4,fragments=2,overlap=2,alpha=0.5",
                                         "gossip:mean=4",
                                         "gossip:overlap=2,mean=7"};
static const char *const methods[] = {"dense",
                                      "topk:density=0.1",
                                      "qsgd",
                                      "efsign",
                                      "topk:density=0.1,exchange=reducescatter",
                                      "blocktopk:keep=7",
                                      "dct:keep=3"};

static void run(const fixture_job *job)
{
    fixture_run(job, result);
    for (int r = 0; r < job->world; r++) {
        if (result[r].status != TG_OK)
            fail_msg("%s, %s, rank %d: %s", job->method, job->strategy, r, result[r].error);
        assert_true(result[r].hash == result[0].hash);
        assert_memory_equal(result[r].w, result[0].w, sizeof result[0].w);
    }
}

static fixture_job job_of(size_t m, size_t s)
{
    fixture_job job = fixture_defaults();
    job.method = methods[m];
    job.strategy = strategies[s];
    job.optimizer = s % 2 == 0 ? "sgd:lr=0.25,momentum=0.5,clip=9" : "adamw:lr=0.1";
    job.world = 3;
    job.bucket_bytes = 1400; /* three buckets */
    job.samples = true;
    return job;
}

/* Gossip exchanges parameters as they are; ranks weighted by samples cannot be clipped to one
 * norm. */
static bool goes_with(const char *method, const char *strategy)
{
    if (strncmp(strategy, "fedavg", 6) == 0)
        return strncmp(method, "blocktopk", 9) != 0;
    return strncmp(strategy, "gossip", 6) != 0 || strcmp(method, "dense") == 0;
}

/* With threads, inline, and resumed from a checkpoint of the inline run: the final state is the
 * same. */
static void check_resume(fixture_job job, uint64_t save_at, const char *dir)
{
    char command[64];
    run(&job);
    const uint64_t hash = result[0].hash;
    job.driver = TG_DRIVER_INLINE;
    job.save_dir = dir;
    job.save_at = save_at;
    run(&job);
    if (result[0].hash != hash)
        fail_msg("%s, %s: inline, saved after %d steps, it ends elsewhere", job.method,
                 job.strategy, (int)save_at);
    job.driver = TG_DRIVER_AUTO;
    job.save_dir = NULL;
    job.load_dir = dir;
    run(&job);
    if (result[0].hash != hash)
        fail_msg("%s, %s: resumed after %d steps, it ends elsewhere", job.method, job.strategy,
                 (int)save_at);
    snprintf(command, sizeof command, "rm -r %s/*", dir);
    assert_int_equal(system(command), 0);
}

static void test_same_bits_and_resume(void **state)
{
    (void)state;
    char dir[] = "/tmp/telegrad-strategies-XXXXXX";
    assert_non_null(mkdtemp(dir));
    for (size_t m = 0; m < sizeof methods / sizeof *methods; m++)
        for (size_t s = 0; s < sizeof strategies / sizeof *strategies; s++) {
            fixture_job job = job_of(m, s);
            if (!goes_with(job.method, job.strategy))
                continue;
            job.steps = 13; /* in the middle of a round */
            job.nan_rank = 1;
            job.nan_step = 5;
            check_resume(job, 6 + (m + s) % 4, dir);
        }
    assert_int_equal(rmdir(dir), 0);
}

/* With exchange=none each rank has weights of its own, and resumes with these, not with rank
 * 0's. */
static void test_resume_apart(void **state)
{
    (void)state;
    static const char *const each[] = {"ssgd",          "od:warmup=2", "cd:k=3,warmup=2",
                                       "pipe:width=3",  "dga:delay=3", "local:every=3",
                                       "diloco:every=3"};
    static const char *const none[] = {"dense:exchange=none", "topk:density=0.1,exchange=none"};
    static fixture_result whole[2];
    char dir[] = "/tmp/telegrad-apart-XXXXXX", command[64];
    assert_non_null(mkdtemp(dir));
    for (size_t i = 0; i < 2 * sizeof each / sizeof *each; i++) {
        fixture_job job = fixture_defaults();
        job.method = none[i % 2];
        job.strategy = each[i / 2];
        job.optimizer = "sgd:lr=0.25,momentum=0.5";
        job.world = 2;
        job.save_dir = dir;
        job.save_at = 7;
        fixture_run(&job, whole);
        job.save_dir = NULL;
        job.load_dir = dir;
        fixture_run(&job, result);
        assert_memory_not_equal(whole[0].w, whole[1].w, sizeof whole[0].w);
        for (int r = 0; r < 2; r++) {
            if (whole[r].status != TG_OK || result[r].status != TG_OK)
                fail_msg("%s: %s%s", job.strategy, whole[r].error, result[r].error);
            if (memcmp(result[r].w, whole[r].w, sizeof whole[r].w) != 0)
                fail_msg("%s, %s: rank %d ends elsewhere", job.method, job.strategy, r);
        }
        snprintf(command, sizeof command, "rm -r %s/*", dir);
        assert_int_equal(system(command), 0);
    }
    assert_int_equal(rmdir(dir), 0);
}

/* One coded exchange at a time, while the optimizer's state is averaged uncompressed. */
static void test_state_beside_one_lane(void **state)
{
    (void)state;
    static const char *const one[] = {"powersgd:rank=2", "powersgd:rank=2,start=4",
                                      "cltk:density=0.1", "1bit:twoway=yes"};
    char dir[] = "/tmp/telegrad-one-lane-XXXXXX";
    assert_non_null(mkdtemp(dir));
    for (size_t m = 0; m < sizeof one / sizeof *one; m++)
        for (int adaptive = 0; adaptive < 2; adaptive++) {
            fixture_job job = job_of(0, (size_t)adaptive);
            job.method = one[m];
            job.strategy = "local:every=2,momentum=average";
            job.steps = 13;
            job.nan_rank = 1;
            job.nan_step = 5;
            check_resume(job, 6 + m % 2, dir);
        }
    assert_int_equal(rmdir(dir), 0);
}

/* If the optimizer has no memory there is no state to average, so the result equals momentum=keep.
 * A lossless method averages like dense, also with state. */
static void test_state_changes_nothing_else(void **state)
{
    (void)state;
    static const struct {
        const char *method[2], *strategy[2], *optimizer;
    } pairs[] = {{{"powersgd:rank=2", "powersgd:rank=2"},
                  {"local:every=2,momentum=average", "local:every=2"},
                  "sgd:lr=0.25"},
                 {{"powersgd:rank=2,start=1000", "dense:exchange=allgather"},
                  {"local:every=2,momentum=average", "local:every=2,momentum=average"},
                  "adamw:lr=0.1"},
                 {{"cltk:density=1", "dense:exchange=allgather"},
                  {"local:every=2,momentum=average", "local:every=2,momentum=average"},
                  "sgd:lr=0.25,momentum=0.5"}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        uint64_t hash[2];
        for (int which = 0; which < 2; which++) {
            fixture_job job = job_of(0, 0);
            job.method = pairs[i].method[which];
            job.strategy = pairs[i].strategy[which];
            job.optimizer = pairs[i].optimizer;
            job.world = 2; /* sums of two are the same in any order */
            run(&job);
            hash[which] = result[0].hash;
        }
        if (hash[0] != hash[1])
            fail_msg("%s and %s part", pairs[i].method[0], pairs[i].method[1]);
    }
}

/* If nothing is cut and nothing remains, the mean equals dense's, and the round equals DiLoCo's
 * without momentum. */
static void test_sparseloco_limits(void **state)
{
    (void)state;
    static float want[FIXTURE_N];
    static const char *const same[][2] = {
        {"dense", "diloco:every=4,lr=0.5,momentum=0"},
        {"dense", "sparseloco:every=4,lr=0.5"},
        {"blocktopk:keep=4096,values=f32,decay=1,clip=no", "sparseloco:every=4,lr=0.5"}};
    for (size_t i = 0; i < 3; i++) {
        fixture_job job = job_of(0, 1);
        job.method = same[i][0];
        job.strategy = same[i][1];
        run(&job);
        if (i == 0)
            memcpy(want, result[0].w, sizeof want);
        assert_memory_equal(result[0].w, want, sizeof want);
    }
}

/* One rank's NaN: no rank hangs; all end with the same finite parameters. */
static void test_nonfinite(void **state)
{
    (void)state;
    for (size_t m = 0; m < 2; m++)
        for (size_t s = 0; s < sizeof strategies / sizeof *strategies; s++) {
            fixture_job job = job_of(m, s);
            if (!goes_with(job.method, job.strategy))
                continue;
            job.nan_rank = 1;
            job.nan_step = 4;
            run(&job);
            for (size_t i = 0; i < FIXTURE_N; i++)
                assert_true(isfinite(result[2].w[i]));
        }
}

/* If a NaN is an error, it is one on all ranks: at once, or when the round is exchanged. */
static void test_nonfinite_fails(void **state)
{
    (void)state;
    for (size_t s = 0; s < sizeof strategies / sizeof *strategies; s++) {
        fixture_job job = job_of(0, s);
        job.steps = 14;
        job.nan_rank = 1;
        job.nan_step = 6;
        job.strategy = strncmp(job.strategy, "fedavg", 6) == 0 ? "fedavg:every=3" : job.strategy;
        job.on_nonfinite = TG_NONFINITE_FAIL;
        fixture_run(&job, result);
        for (int r = 0; r < 3; r++)
            if (result[r].status != TG_E_NONFINITE)
                fail_msg("%s, rank %d: %d %s", job.strategy, r, result[r].status, result[r].error);
    }
}

/* Parameters that overflow f32: their rank returns to the last mean. If this is an error, all ranks
 * learn of it with the next mean. */
static void test_gossip_of_infinity(void **state)
{
    (void)state;
    static const char *const gossips[] = {"gossip:mean=4", "gossip:overlap=2,mean=4"};
    for (int i = 0; i < 4; i++) {
        fixture_job job = fixture_defaults();
        job.strategy = gossips[i % 2];
        job.optimizer = "sgd:lr=4";
        job.world = 3;
        job.dyadic = true;
        job.bucket_bytes = 1400;
        job.huge_ranks = 2;
        job.huge_step = 5;
        job.huge_at = 600;
        job.on_nonfinite = i < 2 ? TG_NONFINITE_SKIP : TG_NONFINITE_FAIL;
        if (i < 2) {
            run(&job);
            for (size_t e = 0; e < FIXTURE_N; e++)
                assert_true(isfinite(result[1].w[e]));
            continue;
        }
        fixture_run(&job, result);
        for (int r = 0; r < 3; r++)
            if (result[r].status != TG_E_NONFINITE)
                fail_msg("%s, rank %d: %d %s", job.strategy, r, result[r].status, result[r].error);
    }
}

/* All ranks stop after the same step, if not at once: the request is sent with the next
 * exchange. */
static void test_stop(void **state)
{
    (void)state;
    for (size_t s = 0; s < sizeof strategies / sizeof *strategies; s++) {
        fixture_job job = job_of(0, s);
        job.steps = 20;
        job.stop_at = 4;
        run(&job);
        assert_true(result[0].stopped_after > 4 && result[0].stopped_after < 13);
        for (int r = 1; r < 3; r++)
            assert_true(result[r].stopped_after == result[0].stopped_after);
    }
}

static void test_idle(void **state)
{
    (void)state;
    fixture_job job = job_of(0, 5);
    job.steps = 30;
    run(&job);
    assert_true(result[0].idle > 0 && result[1].idle > 0 && result[2].idle > 0);
    assert_int_equal(result[0].idle + result[1].idle + result[2].idle, 30);
}

/* What an idle rank makes ready is neither used nor an error. */
static void test_idle_gradients(void **state)
{
    (void)state;
    fixture_job job = job_of(0, 5);
    job.steps = 30;
    job.on_nonfinite = TG_NONFINITE_FAIL;
    run(&job);
    const uint64_t want = result[0].hash;
    job.idle_nan = true;
    run(&job);
    assert_true(result[0].idle > 0 && result[0].hash == want && result[0].skipped == 0);
}

static void test_refused(void **state)
{
    (void)state;
    static const int nodes[] = {0, 0, 1};
    static const struct {
        const char *method, *strategy, *want;
    } cases[] = {
        {"blocktopk", "fedavg", "would scale the heavier ranks down to the median"},
        {"dgc", "demo", "has it in its momentum"},
        {"dgc", "local", "method \"dgc\" would accumulate the momentum of gradients"},
        {"dgc", "cd:average=updates", "use average=gradients"},
        {"signsgd", "cd:average=updates", "a vote on their signs: use average=gradients"},
        {"csc", "diloco", "method \"csc\" would accumulate the momentum of gradients"},
        {"fetchsgd", "local", "method \"fetchsgd\" would accumulate the momentum of gradients"},
        {"signsgd", "streaming:fragments=1", "gives a vote on their signs"},
        {"powersgd", "dga:delay=2",
         "has 3 exchanges in flight; method \"powersgd\" needs the mean"},
        {"powersgd", "fedavg:clients=0.5", "keeps state that all ranks share"},
        {"dense:exchange=none", "fedavg:clients=0.5", "needs the mean over ranks"},
        {"dense:exchange=none", "eager", "needs the mean over ranks"},
        {"dense:exchange=none", "gossip", "needs the mean over ranks"},
        {"1bit:twoway=yes", "pipe:width=2", "twoway=yes allows one exchange in flight, not 2"},
        {"signsgd", "gossip", "what method \"signsgd\" leaves out of them would be missing"},
        {"topk", "gossip", "what method \"topk\" leaves out of them would be missing"},
        {"dense", "gossip:mean=0", "mean=0: allowed: at least 1 step"},
        {"dense", "streaming:fragments=7", "fragments=7, more than the bucket count of 1"},
        {"dense", "local:every=2,after=2x", "after=2x"},
    };
    for (size_t c = 0; c <= sizeof cases / sizeof *cases; c++) {
        const bool last = c == sizeof cases / sizeof *cases;
        fixture_job job = fixture_defaults();
        job.world = 3;
        job.method = last ? "dense" : cases[c].method;
        job.strategy = last ? "fedavg:clients=0.5" : cases[c].strategy;
        job.samples = c == 0;
        if (strcmp(job.strategy, "demo") == 0)
            job.optimizer = "sgd:lr=0.1,weight_decay=0.1";
        job.nodes = last ? nodes : NULL;
        fixture_run(&job, result);
        for (int r = 0; r < 3; r++) {
            assert_true(result[r].status == TG_E_UNSUPPORTED || result[r].status == TG_E_SPEC);
            if (strstr(result[r].error, last ? "which does not work with nodes" : cases[c].want) ==
                NULL)
                fail_msg("%s", result[r].error);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_bits_and_resume),
        cmocka_unit_test(test_resume_apart),
        cmocka_unit_test(test_state_beside_one_lane),
        cmocka_unit_test(test_state_changes_nothing_else),
        cmocka_unit_test(test_sparseloco_limits),
        cmocka_unit_test(test_nonfinite),
        cmocka_unit_test(test_nonfinite_fails),
        cmocka_unit_test(test_gossip_of_infinity),
        cmocka_unit_test(test_stop),
        cmocka_unit_test(test_idle),
        cmocka_unit_test(test_idle_gradients),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
