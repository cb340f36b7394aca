/* Exchanges that encode sums again lose nothing in a session: when gradients have been zero for
 * long enough, everything that was dropped has been applied, and the parameters are the initial
 * ones minus the rate times the mean of all gradients. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "session_fixture.h"
#include <unistd.h>

enum { BUSY = 10, STEPS = 100 };

static fixture_result result[8];

static const char *const methods[] = {
    "topk:density=0.1,values=f32,exchange=reducescatter",
    "topk:density=0.1,values=fp16,scope=tensor,exchange=reducescatter",
    "topk:density=0.2,values=fp16,exchange=gtopk",
    "cltk:density=0.1",
    "csc:chunk=64,density=0.2,warmup=4,momentum=0",
    "dgc:density=0.1,values=f32,warmup=6,momentum=0,exchange=reducescatter",
};
static const char *const strategies[] = {"ssgd", "cd:k=0,warmup=3", "cd:k=3,warmup=2"};

static fixture_job job_of(const char *method, const char *strategy, int world)
{
    fixture_job job = fixture_defaults();
    job.method = method;
    job.strategy = strategy;
    job.world = world;
    job.steps = STEPS;
    job.quiet_from = BUSY;
    job.dyadic = true;
    job.bucket_bytes = 1400;
    return job;
}

/* A rank whose gradient is not finite has none in that step, which is a coded one. */
static void want(const fixture_job *job, double w[FIXTURE_N])
{
    static float initial[FIXTURE_N], g[FIXTURE_N];
    fixture_initial(initial);
    for (size_t i = 0; i < FIXTURE_N; i++)
        w[i] = (double)initial[i];
    for (uint64_t t = 0; t < BUSY; t++)
        for (int r = 0; r < job->world; r++) {
            fixture_gradient(job, r, t, initial, g);
            if (r == job->nan_rank && t == job->nan_step)
                continue;
            for (size_t i = 0; i < FIXTURE_N; i++)
                w[i] -= 0.25 * (double)g[i] / job->world;
        }
}

/* slack: 0 where all sums and products are exact */
static void check(const fixture_job *job, double slack)
{
    static double w[FIXTURE_N];
    want(job, w);
    for (int r = 0; r < job->world; r++) {
        if (result[r].status != TG_OK)
            fail_msg("%s, %s, rank %d: %s", job->method, job->strategy, r, result[r].error);
        for (size_t i = 0; i < FIXTURE_N; i++)
            if (fabs((double)result[r].w[i] - w[i]) > slack)
                fail_msg("%s, %s, rank %d of %d: parameter %zu is %.9g, not %.9g", job->method,
                         job->strategy, r, job->world, i, (double)result[r].w[i], w[i]);
    }
}

static void nothing_is_lost(void **state)
{
    (void)state;
    for (size_t m = 0; m < sizeof methods / sizeof *methods; m++)
        for (size_t s = 0; s < sizeof strategies / sizeof *strategies; s++)
            for (int world = 1; world <= 7; world = world == 4 ? 7 : 2 * world) {
                fixture_job job = job_of(methods[m], strategies[s], world);
                const bool exact = (world & (world - 1)) == 0;
                job.driver = world % 2 ? TG_DRIVER_INLINE : TG_DRIVER_THREAD;
                if (world == 2 || world == 7) {
                    job.nan_rank = 1;
                    job.nan_step = 6;
                }
                fixture_run(&job, result);
                check(&job, exact ? 0 : 1e-4);
            }
}

/* Saved and resumed in the middle, with an exchange in flight (cd), that of a dropped step among
 * them. */
static void nothing_is_lost_at_a_save(void **state)
{
    char dir[] = "/tmp/telegrad-leftover-XXXXXX", command[64];
    (void)state;
    assert_non_null(mkdtemp(dir));
    for (size_t m = 0; m < sizeof methods / sizeof *methods; m++)
        for (size_t s = 0; s < sizeof strategies / sizeof *strategies; s++)
            for (uint64_t at = 6; at <= 8; at++) {
                fixture_job job = job_of(methods[m], strategies[s], 4);
                job.nan_rank = 1;
                job.nan_step = 6;
                job.save_dir = dir;
                job.save_at = at;
                fixture_run(&job, result);
                check(&job, 0);
                job.save_dir = NULL;
                job.load_dir = dir;
                fixture_run(&job, result);
                check(&job, 0);
                snprintf(command, sizeof command, "rm -r %s/*", dir);
                assert_int_equal(system(command), 0);
            }
    assert_int_equal(rmdir(dir), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_lost),
        cmocka_unit_test(nothing_is_lost_at_a_save),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
