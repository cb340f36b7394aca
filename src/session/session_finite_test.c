/* Finite gradients that overflow in a sum over ranks or in a rank's memory: with every method and
 * every strategy, under both policies. All ranks behave the same, no parameter becomes infinite,
 * and under SKIP the run completes. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "method/method.h"
#include "session_fixture.h"
#include "strategy/strategy.h"
#include "telegrad/spec.h"

enum { WORLD = 3, STEPS = 16, HUGE_STEP = 5 };

static fixture_result result[WORLD];

static void check_finite(const fixture_job *job, int r)
{
    for (size_t i = 0; i < FIXTURE_N; i++)
        if (!isfinite(result[r].w[i]))
            fail_msg("%s, %s: rank %d: parameter %zu is %g", job->method, job->strategy, r, i,
                     (double)result[r].w[i]);
}

/* True if the method was refused, as some are by some strategies. */
static bool refused(void)
{
    return result[0].steps == 0 &&
           (result[0].status == TG_E_SPEC || result[0].status == TG_E_UNSUPPORTED);
}

static void skips(fixture_job *job)
{
    job->on_nonfinite = TG_NONFINITE_SKIP;
    fixture_run(job, result);
    for (int r = 0; r < job->world && !refused(); r++) {
        if (result[r].status != TG_OK)
            fail_msg("%s, %s: rank %d: %s", job->method, job->strategy, r, result[r].error);
        check_finite(job, r);
        if (result[r].hash != result[0].hash && strncmp(job->strategy, "gossip", 6) != 0)
            fail_msg("%s, %s: rank %d: other parameters", job->method, job->strategy, r);
    }
}

static void fails(fixture_job *job)
{
    job->on_nonfinite = TG_NONFINITE_FAIL;
    fixture_run(job, result);
    for (int r = 0; r < job->world && !refused(); r++)
        if (result[r].status != result[0].status || result[r].steps != result[0].steps ||
            (result[r].status != TG_OK && result[r].status != TG_E_NONFINITE))
            fail_msg("%s, %s: rank %d: %d after %d steps: \"%s\"; rank 0: %d after %d: \"%s\"",
                     job->method, job->strategy, r, result[r].status, (int)result[r].steps,
                     result[r].error, result[0].status, (int)result[0].steps, result[0].error);
}

static fixture_job job_of(const char *method, const char *strategy)
{
    fixture_job job = fixture_defaults();
    job.method = method;
    job.strategy = strategy;
    job.world = WORLD;
    job.steps = STEPS;
    job.huge_ranks = (1u << WORLD) - 1;
    job.huge_step = HUGE_STEP;
    job.huge_all = true;
    return job;
}

/* The gradients of all ranks are huge once; three times in a row; those of one rank are. */
static void drive(fixture_job *job)
{
    skips(job);
    job->huge_steps = 2;
    skips(job);
    fails(job);
    job->huge_ranks = 2;
    skips(job);
    fails(job);
}

static bool has_key(const tg_entry *method, const char *name)
{
    for (const tg_key *key = method->keys; key->name != NULL; key++)
        if (strcmp(key->name, name) == 0)
            return true;
    return false;
}

static void test_every_method(void **state)
{
    size_t count;
    const tg_entry *const *methods = tg__method_entries(&count);
    (void)state;
    for (size_t i = 0; i < count; i++) {
        char method[96];
        snprintf(method, sizeof method, "%s%s", methods[i]->name,
                 has_key(methods[i], "warmup") ? ":warmup=0" : "");
        fixture_job job = job_of(method, "ssgd");
        drive(&job);
        job = job_of(method, "ssgd");
        job.bucket_bytes = 1400;
        job.overlap = i % 2 == 0 ? TG_OVERLAP_FULL : TG_OVERLAP_BACKWARD;
        job.driver = i % 3 == 0 ? TG_DRIVER_INLINE : TG_DRIVER_THREAD;
        drive(&job);
    }
}

/* Each strategy with settings that exercise everything it does within these few steps. */
static void test_every_strategy(void **state)
{
    static const char *const methods[] = {"dense", "topk:density=0.05", "int8", "powersgd:rank=2"};
    size_t count;
    const tg_entry *const *entries = tg__strategy_entries(&count);
    (void)state;
    for (size_t i = 0; i < count; i++) {
        const char *tested = ((const tg__strategy_ops *)entries[i])->tested;
        char strategy[64];
        snprintf(strategy, sizeof strategy, "%s%s%s", entries[i]->name, tested ? ":" : "",
                 tested ? tested : "");
        for (size_t m = 0; m < sizeof methods / sizeof *methods; m++) {
            fixture_job job = job_of(methods[m], strategy);
            drive(&job);
        }
    }
}

/* The mean of two values of 3e38 is finite, but their sum is not: the step counts as skipped on all
 * ranks, and the parameters do not change. */
static void test_a_sum_is_skipped(void **state)
{
    (void)state;
    fixture_job job = job_of("dense", "ssgd");
    skips(&job);
    for (int r = 0; r < WORLD; r++) {
        assert_true(result[r].skipped == 1 && result[r].info[HUGE_STEP].skipped);
        assert_memory_equal(result[r].trail[HUGE_STEP], result[r].trail[HUGE_STEP - 1],
                            sizeof result[r].w);
    }
    fails(&job);
    assert_int_equal(result[0].status, TG_E_NONFINITE);
    assert_non_null(strstr(result[1].error, "step 5: the sum over ranks is not finite"));
}

/* If the rate changes by orders of magnitude, so does the residual. */
static void test_rescaled_beyond_the_range(void **state)
{
    static const char *const methods[] = {"efsign:rescale=yes", "2bit:rescale=yes",
                                          "1bit:rescale=yes,twoway=yes", "topk:rescale=yes"};
    (void)state;
    for (size_t m = 0; m < sizeof methods / sizeof *methods; m++) {
        fixture_job job = job_of(methods[m], "ssgd");
        job.huge_ranks = 0;
        job.soar_at = HUGE_STEP;
        skips(&job);
        fails(&job);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_sum_is_skipped),
        cmocka_unit_test(test_rescaled_beyond_the_range),
        cmocka_unit_test(test_every_method),
        cmocka_unit_test(test_every_strategy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
