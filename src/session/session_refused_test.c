/* What ends a session with an error that says why: ranks or a checkpoint that were set up in
 * another way, parameters that went apart, faults on the way, settings that are not allowed. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "session_fixture.h"
#include "session_alike.h"

static void test_resume_refused(void **state)
{
    (void)state;
    char dir[] = "/tmp/telegrad-session-XXXXXX", command[64];
    assert_non_null(mkdtemp(dir));
    fixture_job job = fixture_defaults();
    job.world = 2;
    job.save_dir = dir;
    job.save_at = 5;
    run(&job);
    job.save_dir = NULL;
    job.load_dir = dir;
    job.method = "fp16";
    fixture_run(&job, result);
    assert_int_equal(result[0].status, TG_E_MISMATCH);
    assert_non_null(strstr(result[0].error, "method"));
    job.method = "dense";
    job.load_dir = "/nonexistent/checkpoints";
    fixture_run(&job, result);
    assert_int_equal(result[0].status, TG_E_IO);
    snprintf(command, sizeof command, "rm -r %s", dir);
    assert_int_equal(system(command), 0);
}

static void test_mismatch(void **state)
{
    (void)state;
    fixture_job job = fixture_defaults();
    job.world = 3;
    job.odd_rank = 2;
    job.odd_method = "topk:density=0.5";
    fixture_run(&job, result);
    for (int r = 0; r < 3; r++) {
        assert_int_equal(result[r].status, TG_E_MISMATCH);
        assert_non_null(strstr(result[r].error, "method=topk"));
        assert_non_null(strstr(result[r].error, "rank 2"));
    }
    job.odd_method = NULL;
    job.odd_optimizer = "sgd:lr=0.125";
    fixture_run(&job, result);
    assert_int_equal(result[0].status, TG_E_MISMATCH);
    assert_non_null(strstr(result[0].error, "lr=0.125"));
}

static void test_hash_every(void **state)
{
    (void)state;
    fixture_job job = fixture_defaults();
    job.world = 3;
    job.hash_every = 2;
    run(&job);
    job.odd_rank = 1;
    job.spoil_step = 6;
    fixture_run(&job, result);
    for (int r = 0; r < 3; r++) {
        assert_int_equal(result[r].status, TG_E_MISMATCH);
        assert_non_null(strstr(result[r].error, "after step 8 the parameters of rank 1"));
    }
}

static void test_faults(void **state)
{
    (void)state;
    static const char *const faults[] = {
        "fault:stall=12", "fault:kill=12",     "fault:corrupt=0.2",  "fault:truncate=0.2",
        "fault:drop=0.2", "fault:garbage=0.2", "fault:oversize=0.2", "fault:replay=0.2"};
    for (size_t f = 0; f < sizeof faults / sizeof *faults; f++)
        for (int driver = 1; driver <= 2; driver++) {
            fixture_job job = fixture_defaults();
            job.world = 3;
            job.steps = 60;
            job.driver = (tg_driver)driver;
            job.timeout_ms = 700;
            job.odd_rank = 1;
            job.fault = faults[f];
            fixture_run(&job, result);
            for (int r = 0; r < 3; r++) {
                if (result[r].status == TG_OK)
                    fail_msg("%s: rank %d noticed nothing", job.fault, r);
                if (r != 1 && f == 0) {
                    assert_int_equal(result[r].status, TG_E_PEER);
                    assert_non_null(strstr(result[r].error, "rank 1"));
                }
            }
        }
}

static void test_settings_refused(void **state)
{
    (void)state;
    static const struct {
        const char *method, *strategy, *optimizer, *say;
    } cases[] = {
        {"topk:density=0", "ssgd", "sgd:lr=1", "density=0"},
        {"topk:density=2", "ssgd", "sgd:lr=1", "density=2"},
        {"nosuch", "ssgd", "sgd:lr=1", "dgc"},
        {"dense", "cd:k=-1", "sgd:lr=1", "k=-1"},
        {"dense", "nosuch", "sgd:lr=1", "cd"},
        {"dense", "ssgd", "nosuch", "sgd"},
        {"dgc:momentum=0.5", "ssgd", "sgd:lr=1,momentum=0.9", "momentum"},
        {"topk:exchange=ring", "ssgd", "sgd:lr=1", "ring"},
        {"2bit:threshold=0", "ssgd", "sgd:lr=1", "threshold"},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        fixture_job job = fixture_defaults();
        job.method = cases[c].method;
        job.strategy = cases[c].strategy;
        job.optimizer = cases[c].optimizer;
        fixture_run(&job, result);
        assert_int_equal(result[0].status, TG_E_SPEC);
        assert_non_null(strstr(result[0].error, cases[c].say));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_resume_refused),   cmocka_unit_test(test_mismatch),
        cmocka_unit_test(test_hash_every),       cmocka_unit_test(test_faults),
        cmocka_unit_test(test_settings_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
