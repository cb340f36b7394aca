/* Averages of updates in sessions: a step that one rank's gradient spoils, in any bucket and with
 * every overlap; rates that change; a run that is saved and continued; the default strategy. The
 * strategy cd, which can do so, too, is tested with it. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "session_fixture.h"
#include <stdlib.h>
#include <unistd.h>

enum { WORLD = 3, STEPS = 9, BAD = 1, BAD_STEP = 4 };

static const char *const methods[] = {"dense", "2bit", "topk:density=0.1,rescale=yes",
                                      "powersgd:rank=1"};

/* The strategies that average updates, with optimizers that they take apart. */
static const struct {
    const char *strategy, *optimizer;
} kinds[] = {{"updates", "adamw:lr=0.01,weight_decay=0.1"},
             {"updates", "adam:lr=0.01,clip=1"},
             {"updates", "sgd:lr=0.05,momentum=0.9,nesterov=yes,weight_decay=0.1"},
             {"updates", "sgd:lr=0.05,momentum=0.9,clip=1"},
             {"cd:k=3,warmup=2,average=updates", "adamw:lr=0.01,weight_decay=0.1"},
             {"cd:k=3,warmup=2,average=updates", "sgd:lr=0.05,momentum=0.9,clip=1"}};

static fixture_result result[WORLD];

static fixture_job job_of(const char *method)
{
    fixture_job job = fixture_defaults();
    job.method = method;
    job.strategy = "updates";
    job.optimizer = "adamw:lr=0.01,weight_decay=0.1";
    job.world = WORLD;
    job.steps = STEPS;
    job.bucket_bytes = 1400; /* three buckets */
    return job;
}

/* The hash of all ranks' parameters. */
static uint64_t hash_of(const fixture_job *job)
{
    fixture_run(job, result);
    for (int r = 0; r < job->world; r++) {
        if (result[r].status != TG_OK)
            fail_msg("%s: rank %d: %s", job->method, r, result[r].error);
        assert_true(result[r].hash == result[0].hash);
        for (size_t i = 0; i < FIXTURE_N; i++)
            assert_true(isfinite(result[r].w[i]));
    }
    return result[0].hash;
}

/* The step is dropped on all ranks, whatever overlaps, and wherever the bad value is. */
static void drops_a_step(void **state)
{
    (void)state;
    static const tg_overlap overlaps[] = {TG_OVERLAP_NONE, TG_OVERLAP_BACKWARD, TG_OVERLAP_FULL};
    for (size_t m = 0; m < TG_COUNT(methods); m++)
        for (size_t k = 0; k < TG_COUNT(kinds); k++) {
            uint64_t hash[TG_COUNT(overlaps)];
            fixture_job job = job_of(methods[m]);
            job.strategy = kinds[k].strategy;
            job.optimizer = kinds[k].optimizer;
            const uint64_t clean = hash_of(&job);
            job.nan_rank = BAD;
            job.nan_step = BAD_STEP;
            for (size_t i = 0; i < TG_COUNT(overlaps); i++) {
                job.overlap = overlaps[i];
                hash[i] = hash_of(&job);
                for (int r = 0; r < WORLD; r++)
                    assert_int_equal(result[r].skipped, 1);
            }
            assert_true(hash[0] == hash[1] && hash[0] == hash[2] && hash[0] != clean);
        }
}

/* With plain SGD, dense exchanges and exact sums, the parameters are those of ssgd. bad: a rank's
 * gradient is not finite in BAD_STEP; rest_at: the step with a rate of 0. */
static void assert_as_ssgd(bool bad, uint64_t rest_at)
{
    uint64_t hash[2];
    for (int i = 0; i < 2; i++) {
        fixture_job job = job_of("dense");
        job.strategy = i == 0 ? "ssgd" : "updates";
        job.optimizer = "sgd:lr=0.125";
        job.dyadic = true;
        job.nan_rank = bad ? BAD : -1;
        job.nan_step = BAD_STEP;
        job.rest_at = rest_at;
        hash[i] = hash_of(&job);
    }
    assert_true(hash[0] == hash[1]);
}

/* What the bad rank sent in the step before does not count again. */
static void a_dropped_step_leaves_no_trace_in_parameters(void **state)
{
    (void)state;
    assert_as_ssgd(true, 0);
}

static void fails_on_all_ranks(void **state)
{
    (void)state;
    for (size_t m = 0; m < TG_COUNT(methods); m++) {
        fixture_job job = job_of(methods[m]);
        job.nan_rank = BAD;
        job.nan_step = BAD_STEP;
        job.on_nonfinite = TG_NONFINITE_FAIL;
        fixture_run(&job, result);
        for (int r = 0; r < WORLD; r++) {
            assert_int_equal(result[r].status, TG_E_NONFINITE);
            assert_int_equal(result[r].steps, BAD_STEP);
            if (strstr(result[r].error, r == BAD ? "of the gradient is nan" : "another rank") ==
                NULL)
                fail_msg("%s: rank %d: %s", methods[m], r, result[r].error);
        }
    }
}

/* The rate is set between the backward pass and the step: a rate of 0 moves nothing, and what is
 * exchanged does not depend on it. */
static void rates_apply_to_the_mean(void **state)
{
    (void)state;
    assert_as_ssgd(false, 3);
    fixture_job job = job_of("topk:density=0.1,rescale=yes");
    const uint64_t usual = hash_of(&job);
    job.rest_at = 3;
    assert_true(hash_of(&job) != usual);
}

static void assert_continues(fixture_job job)
{
    char dir[] = "/tmp/telegrad-updates-XXXXXX", command[64];
    assert_non_null(mkdtemp(dir));
    job.overlap = TG_OVERLAP_FULL;
    job.save_dir = dir;
    job.save_at = 5;
    const uint64_t whole = hash_of(&job);
    job.save_dir = NULL;
    job.load_dir = dir;
    if (hash_of(&job) != whole)
        fail_msg("%s, %s, %s: other bits", job.method, job.strategy, job.optimizer);
    snprintf(command, sizeof command, "rm -r %s", dir);
    assert_int_equal(system(command), 0);
}

static void continues_with_the_same_bits(void **state)
{
    (void)state;
    for (size_t m = 0; m < TG_COUNT(methods); m++)
        for (size_t k = 0; k < TG_COUNT(kinds); k++) {
            fixture_job job = job_of(methods[m]);
            job.strategy = kinds[k].strategy;
            job.optimizer = kinds[k].optimizer;
            assert_continues(job);
        }
}

/* Without a strategy: updates for an optimizer with a memory and a method that sends in parts. */
static void is_the_default(void **state)
{
    (void)state;
    static const struct {
        const char *method, *optimizer, *strategy;
    } is[] = {{"topk:density=0.1", "adam:lr=0.01", "updates"},
              {"topk:density=0.1", "sgd:lr=0.01,momentum=0.9", "updates"},
              {"topk:density=0.1", "sgd:lr=0.01", "ssgd"},
              {"dense", "adam:lr=0.01", "ssgd"}};
    for (size_t i = 0; i < TG_COUNT(is); i++) {
        fixture_job job = job_of(is[i].method);
        job.optimizer = is[i].optimizer;
        job.strategy = NULL;
        const uint64_t open = hash_of(&job);
        job.strategy = is[i].strategy;
        assert_true(hash_of(&job) == open);
        job.strategy = strcmp(is[i].strategy, "ssgd") == 0 ? "local:every=1" : "ssgd";
        assert_true(hash_of(&job) != open);
    }
}

/* cd, too, averages updates where that is the default, but only if it codes. */
static void cd_follows_the_default(void **state)
{
    (void)state;
    static const struct {
        const char *method, *optimizer, *cd, *as;
    } is[] = {
        {"2bit", "adam:lr=0.01", "k=3", "k=3,average=updates"},
        {"topk:density=0.1", "sgd:lr=0.05,momentum=0.9", "k=0", "k=0,average=updates"},
        {"2bit", "sgd:lr=0.05,momentum=0.9", "k=1", "k=1,average=gradients"},
        {"2bit", "sgd:lr=0.05", "k=3", "k=3,average=gradients"},
        {"2bit", "lars:lr=0.05", "k=3", "k=3,average=gradients"},
        {"2bit", "sgd:lr=0.05,momentum=0.9", "k=3,eta_loc=0.05",
         "k=3,eta_loc=0.05,average=gradients"},
        {"2bit", "sgd:lr=0.05,momentum=0.9", "k=3,eta_loc=0.05,local=preview",
         "k=3,eta_loc=0.05,local=preview,average=gradients"},
        {"2bit", "sgd:lr=0.05,momentum=0.9", "k=3,scaled=yes", "k=3,scaled=yes,average=gradients"},
        {"qsgd", "adam:lr=0.01", "k=3", "k=3,average=gradients"}};
    for (size_t i = 0; i < TG_COUNT(is); i++) {
        char strategy[2][80];
        snprintf(strategy[0], sizeof strategy[0], "cd:warmup=2,%s", is[i].cd);
        snprintf(strategy[1], sizeof strategy[1], "cd:warmup=2,%s", is[i].as);
        uint64_t hash[2];
        for (int k = 0; k < 2; k++) {
            fixture_job job = job_of(is[i].method);
            job.optimizer = is[i].optimizer;
            job.strategy = strategy[k];
            hash[k] = hash_of(&job);
        }
        if (hash[0] != hash[1])
            fail_msg("%s, %s: %s is not %s", is[i].method, is[i].optimizer, strategy[0],
                     strategy[1]);
    }
    fixture_job job = job_of(NULL); /* 2bit */
    job.optimizer = "sgd:lr=0.05,momentum=0.9";
    job.strategy = "cd:k=3,warmup=2";
    const uint64_t updates = hash_of(&job);
    job.strategy = "cd:k=3,warmup=2,average=gradients";
    assert_true(hash_of(&job) != updates);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(drops_a_step),
        cmocka_unit_test(a_dropped_step_leaves_no_trace_in_parameters),
        cmocka_unit_test(fails_on_all_ranks),
        cmocka_unit_test(rates_apply_to_the_mean),
        cmocka_unit_test(continues_with_the_same_bits),
        cmocka_unit_test(is_the_default),
        cmocka_unit_test(cd_follows_the_default),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
