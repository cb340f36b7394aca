/* DeMo in sessions: the same bits on all ranks with every kind of method, in threads and inline;
 * resuming, including a change of the learning rate; a rank's NaN; refusals and their reasons. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "session_fixture.h"

#include <unistd.h>

static fixture_result result[4];

static const char *const methods[] = {"dense", "dct:keep=4", "blocktopk:keep=6", "dgc:density=0.05",
                                      "signsgd"};

static fixture_job job_of(const char *method)
{
    fixture_job job = fixture_defaults();
    job.method = method;
    job.strategy = "demo";
    job.optimizer = "sgd:lr=0.0625,weight_decay=0.125,decoupled=yes";
    job.world = 3;
    job.bucket_bytes = 1400; /* three buckets */
    return job;
}

static void run(const fixture_job *job)
{
    fixture_run(job, result);
    for (int r = 0; r < job->world; r++) {
        if (result[r].status != TG_OK)
            fail_msg("%s, rank %d: %s", job->method, r, result[r].error);
        assert_true(result[r].hash == result[0].hash);
        assert_memory_equal(result[r].w, result[0].w, sizeof result[0].w);
    }
}

static void test_same_bits_and_resume(void **state)
{
    (void)state;
    char dir[] = "/tmp/telegrad-demo-XXXXXX", command[64];
    assert_non_null(mkdtemp(dir));
    for (size_t m = 0; m < sizeof methods / sizeof *methods; m++) {
        fixture_job job = job_of(methods[m]);
        job.rest_at = 3;
        job.nan_rank = 1;
        job.nan_step = 7;
        run(&job);
        const uint64_t hash = result[0].hash;
        for (size_t i = 0; i < FIXTURE_N; i++)
            assert_true(isfinite(result[0].w[i]));
        job.driver = TG_DRIVER_INLINE;
        job.save_dir = dir;
        job.save_at = 5;
        run(&job);
        assert_true(result[0].hash == hash);
        job.driver = TG_DRIVER_AUTO;
        job.overlap = TG_OVERLAP_FULL;
        job.save_dir = NULL;
        job.load_dir = dir;
        run(&job);
        assert_true(result[0].hash == hash);
        snprintf(command, sizeof command, "rm -r %s/*", dir);
        assert_int_equal(system(command), 0);
    }
    assert_int_equal(rmdir(dir), 0);
}

/* Every step moves each parameter by eta, or not at all. */
static void test_steps_are_signs(void **state)
{
    (void)state;
    fixture_job job = job_of("dct:keep=4");
    job.optimizer = "sgd:lr=0.0625";
    run(&job);
    for (uint64_t t = 1; t < job.steps; t++)
        for (size_t i = 0; i < FIXTURE_N; i++) {
            const float moved = result[0].trail[t][i] - result[0].trail[t - 1][i];
            assert_true(moved == 0.0625f || moved == -0.0625f || moved == 0);
        }
}

static void test_refused(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"sgd:lr=0.1,momentum=0.9", "the method's residual is the momentum"},
        {"adamw", "carry no magnitude to adapt to"},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        fixture_job job = job_of("dct");
        job.optimizer = cases[c][0];
        fixture_run(&job, result);
        for (int r = 0; r < 3; r++) {
            assert_int_equal(result[r].status, TG_E_SPEC);
            if (strstr(result[r].error, cases[c][1]) == NULL)
                fail_msg("%s", result[r].error);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_bits_and_resume),
        cmocka_unit_test(test_steps_are_signs),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
