/* Runs that end early: stopped, resumed or failed. */
#include "trainer/loop/trainer_ranks.h"

/* ---- resuming -------------------------------------------------------------------------------- */

static void assert_same_end(const rank_run *a, const rank_run *b)
{
    for (int i = 0; i < 2; i++) {
        assert_int_equal(a[i].end.steps, b[i].end.steps);
        assert_true(a[i].end.params_hash == b[i].end.params_hash);
        assert_true(a[i].end.train_loss == b[i].end.train_loss);
        assert_true(a[i].end.test_loss == b[i].end.test_loss);
        assert_true(a[i].end.test_accuracy == b[i].end.test_accuracy);
    }
}

static void check_resume(const char *method, const char *strategy, uint64_t at)
{
    char dir[] = "/tmp/telegrad-run-XXXXXX";
    assert_non_null(mkdtemp(dir));
    train_job job = basic();
    job.method = method;
    job.strategy = strategy;
    job.epochs = 0;
    job.steps = 47;
    witness w = {.steps = 0};
    rank_run straight[2], part[2], rest[2];
    run_both(&job, &w, straight);
    assert_fine(straight, 2);

    job.steps = at; /* a finished run that is extended */
    job.save_dir = dir;
    run_both(&job, &w, part);
    assert_fine(part, 2);
    assert_int_equal(part[0].end.steps, at);
    job.steps = 47;
    job.resume_dir = dir;
    w = (witness){.steps = 0};
    run_both(&job, &w, rest);
    assert_fine(rest, 2);
    assert_int_equal(w.start.first_step, at);
    assert_int_equal(w.steps, 47 - at);
    assert_same_end(straight, rest);

    /* Nothing is left to do: the end is the same again. */
    run_both(&job, &w, rest);
    assert_fine(rest, 2);
    assert_same_end(straight, rest);

    job.steps = 30;
    run_both(&job, &w, rest);
    assert_int_equal(rest[0].status, TG_E_MISMATCH);
    assert_non_null(strstr(rest[0].message, "of step 47, but this run ends at step 30"));
    remove_tree(dir);
}

static void test_resume(void **state)
{
    (void)state;
    check_resume("dense", "ssgd", 20); /* at the end of an epoch */
    check_resume("dgc:density=0.05,warmup=40", "ssgd", 33);
    check_resume("2bit", "cd:warmup=20", 31);
}

/* A run that pauses follows the schedules of its whole length, tests where it pauses, and continues
 * with the bits of one that did not pause. */
static void check_pause(const char *method, const char *strategy, const char *rates, uint64_t at)
{
    char dir[] = "/tmp/telegrad-run-XXXXXX";
    assert_non_null(mkdtemp(dir));
    train_job job = basic();
    job.method = method;
    job.strategy = strategy;
    job.lr_schedule = rates;
    witness w = {.steps = 0};
    rank_run straight[2], part[2], rest[2];
    run_both(&job, &w, straight);
    assert_fine(straight, 2);

    job.save_dir = dir;
    job.until = at;
    w = (witness){.steps = 0};
    run_both(&job, &w, part);
    assert_fine(part, 2);
    assert_true(w.start.steps == 60 && w.start.until == at && part[0].end.steps == at);
    assert_false(part[0].end.interrupted);
    assert_true(isfinite(part[0].end.test_accuracy) && w.epoch.step == at);
    job.resume_dir = dir;
    run_both(&job, &w, rest); /* it has paused already */
    assert_fine(rest, 2);
    assert_same_end(part, rest);
    job.until = 1000;
    w = (witness){.steps = 0};
    run_both(&job, &w, rest);
    assert_fine(rest, 2);
    assert_true(w.start.until == 60 && w.steps == 60 - at);
    assert_same_end(straight, rest);
    remove_tree(dir);
}

static void test_pause(void **state)
{
    (void)state;
    check_pause("dense", "ssgd", "cosine", 20); /* at the end of an epoch */
    check_pause("dgc:density=0.05,warmup=40", "ssgd", "onecycle", 33);
    check_pause("topk:density=0.05", "dga:delay=3", "cosine:warmup=5", 17);
    check_pause("dense", "local:every=8", "cosine", 29);
}

static void test_stop(void **state)
{
    (void)state;
    char dir[] = "/tmp/telegrad-run-XXXXXX";
    assert_non_null(mkdtemp(dir));
    train_job job = basic();
    job.method = "topk:density=0.05";
    witness w = {.steps = 0};
    rank_run straight[2], part[2], rest[2];
    run_both(&job, &w, straight);
    assert_fine(straight, 2);

    w = (witness){.stop_at = 23};
    job.stop = &w.stop;
    job.save_dir = dir;
    job.save_every = 10;
    run_both(&job, &w, part);
    assert_fine(part, 2);
    assert_true(part[0].end.interrupted && part[1].end.interrupted);
    assert_int_equal(part[0].end.steps, part[1].end.steps);
    assert_in_range(part[0].end.steps, 24, 26);
    assert_true(isnan(part[0].end.test_accuracy));
    assert_int_equal(w.epochs, 2); /* the first, and a part of the second */

    w = (witness){.steps = 0};
    job.resume_dir = dir;
    run_both(&job, &w, rest);
    assert_fine(rest, 2);
    assert_int_equal(w.start.first_step, part[0].end.steps);
    assert_false(rest[0].end.interrupted);
    assert_same_end(straight, rest);
    remove_tree(dir);
}

/* A request that came before the first step: no step is made, whoever was asked. */
static void test_stop_before_the_first_step(void **state)
{
    (void)state;
    volatile sig_atomic_t never = 0, asked = 1;
    train_job a = basic(), b;
    a.stop = &asked;
    b = a;
    b.stop = &never;
    witness w = {.steps = 0};
    rank_run run[2];
    run_jobs((const train_job *const[]){&a, &b}, 2, &w, run);
    assert_int_equal(run[0].status, TG_E_STOPPED);
    assert_int_equal(run[1].status, TG_E_PEER);
    assert_int_equal(w.steps, 0);
    run_jobs((const train_job *const[]){&a}, 1, &w, run);
    assert_int_equal(run[0].status, TG_E_STOPPED);
    assert_int_equal(w.steps, 0);

    /* While a checkpoint is loaded, which stays as it is. */
    char dir[] = "/tmp/telegrad-run-XXXXXX";
    assert_non_null(mkdtemp(dir));
    b.epochs = 0;
    b.steps = 5;
    b.save_dir = dir;
    run_both(&b, &w, run);
    assert_fine(run, 2);
    b.save_dir = NULL;
    b.steps = 9;
    b.resume_dir = dir;
    a = b;
    a.stop = &asked;
    w = (witness){.steps = 0};
    run_jobs((const train_job *const[]){&a, &b}, 2, &w, run);
    assert_int_equal(run[0].status, TG_E_STOPPED);
    assert_int_equal(w.steps, 0);
    run_both(&b, &w, run);
    assert_fine(run, 2);
    assert_int_equal(w.steps, 4);
    remove_tree(dir);
}

/* Without exchanges no message carries a rank's request to stop to the other. */
static void test_stop_apart(void **state)
{
    (void)state;
    char dir[] = "/tmp/telegrad-run-XXXXXX";
    assert_non_null(mkdtemp(dir));
    volatile sig_atomic_t never = 0;
    witness w = {.stop_at = 19};
    train_job a = basic(), b;
    a.method = "topk:density=0.05,exchange=none";
    a.timeout_ms = 3000;
    a.save_dir = dir;
    a.stop = &w.stop;
    b = a;
    b.stop = &never;
    rank_run run[2];
    run_jobs((const train_job *const[]){&a, &b}, 2, &w, run);
    for (int i = 0; i < 2; i++) {
        if (run[i].status != TG_OK)
            fail_msg("rank %d: %s", i, run[i].message);
        assert_true(run[i].end.interrupted);
        assert_int_equal(run[i].end.stopped_by, 1); /* rank 1 itself never saw a signal */
        assert_int_equal(run[i].end.stopped_at, 0);
        assert_int_equal(run[i].end.steps, 32);
    }
    a.resume_dir = dir;
    a.stop = NULL;
    w = (witness){.steps = 0};
    run_both(&a, &w, run);
    for (int i = 0; i < 2; i++) {
        if (run[i].status != TG_OK)
            fail_msg("rank %d: %s", i, run[i].message);
        assert_false(run[i].end.interrupted);
        assert_int_equal(run[i].end.steps, 60);
    }
    remove_tree(dir);
}

/* ---- failures -------------------------------------------------------------------------------- */

static void test_callback_fails(void **state)
{
    (void)state;
    char dir[] = "/tmp/telegrad-run-XXXXXX";
    assert_non_null(mkdtemp(dir));
    train_job job = basic();
    job.save_dir = dir;
    witness w = {.fail_at = 7};
    rank_run run[2];
    run_both(&job, &w, run);
    for (int i = 0; i < 2; i++) {
        if (run[i].status != TG_OK)
            fail_msg("rank %d: %s", i, run[i].message);
        assert_true(run[i].end.interrupted);
        assert_int_equal(run[i].end.steps, 8);
        assert_int_equal(run[i].end.stopped_by, 0);
        assert_int_equal(run[i].end.stopped_at, 0);
        assert_string_equal(run[i].end.unsaved, "");
    }
    assert_string_equal(run[0].end.untold, "disk full at step 7");
    assert_string_equal(run[1].end.untold, "");
    assert_int_equal(w.last_step, 7);
    assert_int_equal(w.epochs, 0);

    /* At the last step the run is complete. */
    job.save_dir = NULL;
    job.epochs = 0;
    job.steps = 7;
    run_both(&job, &w, run);
    assert_int_equal(run[0].status, TG_OK);
    assert_false(run[0].end.interrupted);
    assert_string_equal(run[0].end.untold, "disk full at step 7");

    /* Without messages and without job.stop the ranks cannot agree on a step. */
    job.steps = 47;
    job.method = "topk:density=0.05,exchange=none";
    run_both(&job, &w, run);
    assert_int_equal(run[0].status, TG_E_IO);
    assert_string_equal(run[0].message, "disk full at step 7");
    assert_int_equal(run[1].status, TG_E_PEER);
    assert_non_null(strstr(run[1].message, "rank 0 has left")); /* told, not timed out */
    remove_tree(dir);
}

/* Both ranks report it before the first step, naming the setting, the ranks and the values. */
static void assert_differ(const train_job *a, const train_job *b, const char *text)
{
    witness w = {.steps = 0};
    rank_run run[2];
    run_jobs((const train_job *const[]){a, b}, 2, &w, run);
    for (int i = 0; i < 2; i++)
        assert_int_equal(run[i].status, TG_E_MISMATCH);
    if (!strstr(run[0].message, text))
        fail_msg("\"%s\" does not say \"%s\"", run[0].message, text);
    assert_int_equal(w.steps, 0);
}

static void test_jobs_differ(void **state)
{
    (void)state;
    char dir[] = "/tmp/telegrad-run-XXXXXX";
    assert_non_null(mkdtemp(dir));
    volatile sig_atomic_t stop = 0;
    train_job a = basic(), b;
    a.timeout_ms = 3000;
    witness w = {.steps = 0};
    rank_run run[2];
    b = a;
    b.lr_schedule = "cosine";
    run_jobs((const train_job *const[]){&a, &b}, 2, &w, run);
    assert_int_equal(run[0].status, TG_E_MISMATCH);
    if (!strstr(run[0].message, "rank 1 has lr_schedule=cosine"))
        fail_msg("%s", run[0].message);

    /* Settings that the handshake does not compare. */
    b = a;
    b.epochs = 0;
    b.steps = 10000001; /* all digits are shown */
    assert_differ(&a, &b, "rank 0 has 60 steps, rank 1 has 10000001 steps");
    b = a;
    b.evaluate = false;
    assert_differ(&a, &b, "rank 0 does not have --no-eval, rank 1 has --no-eval");
    b = a;
    b.save_dir = dir;
    assert_differ(&a, &b, "rank 0 does not have --save, rank 1 has --save");
    a.save_dir = dir;
    a.save_every = 4;
    b = a;
    b.save_every = 7;
    assert_differ(&a, &b, "rank 0 has --save-every 4, rank 1 has --save-every 7");
    b = a;
    b.stop = &stop;
    assert_differ(&a, &b, "rank 0 does not have train_job.stop, rank 1 has train_job.stop");
    remove_tree(dir);
}

static void test_bad_job(void **state)
{
    (void)state;
    train_job job = basic();
    witness w = {.steps = 0};
    rank_run run[2];
    job.model = "lenet6";
    run_both(&job, &w, run);
    assert_int_equal(run[0].status, TG_E_SPEC);
    job = basic();
    job.batch = 1000;
    run_both(&job, &w, run);
    assert_int_equal(run[1].status, TG_E_ARG);
    assert_non_null(strstr(run[1].message, "320"));
    job = basic();
    job.epochs = 0;
    run_both(&job, &w, run);
    assert_int_equal(run[0].status, TG_E_ARG);
    job = basic();
    job.resume_dir = "/nowhere";
    run_both(&job, &w, run);
    assert_int_equal(run[0].status, TG_E_IO);
}

/* Skipped steps do not spoil the loss of the epoch, even with a save between them. */
static void test_loss_skips(void **state)
{
    (void)state;
    char dir[] = "/tmp/telegrad-run-XXXXXX";
    assert_non_null(mkdtemp(dir));
    train_job job = basic();
    job.optimizer = "sgd:lr=1e30";
    job.evaluate = false;
    job.epochs = 0;
    job.steps = 6;
    witness w = {.steps = 0};
    rank_run one, both[2];
    run_jobs((const train_job *const[]){&job}, 1, &w, &one);
    assert_fine(&one, 1);
    assert_int_equal(w.steps, 6);
    assert_in_range(w.finite, 1, 5);
    assert_true(one.end.train_loss == w.finite_sum / (double)w.finite);
    run_both(&job, &w, both);
    assert_fine(both, 2);
    assert_true(both[0].end.skipped_nonfinite > 0);
    assert_true(isfinite(both[0].end.train_loss));

    rank_run part;
    job.save_dir = dir;
    job.steps = 4;
    run_jobs((const train_job *const[]){&job}, 1, &w, &part);
    assert_fine(&part, 1);
    job.steps = 6;
    job.resume_dir = dir;
    run_jobs((const train_job *const[]){&job}, 1, &w, &part);
    assert_fine(&part, 1);
    assert_int_equal(part.end.steps, 6);
    assert_true(part.end.train_loss == one.end.train_loss);
    remove_tree(dir);
}

static void test_diverges(void **state)
{
    (void)state;
    train_job job = basic();
    job.optimizer = "sgd:lr=1e30";
    witness w = {.steps = 0};
    rank_run run[2];
    run_both(&job, &w, run);
    for (int i = 0; i < 2; i++)
        assert_int_equal(run[i].status, TG_E_NONFINITE);
    assert_in_range(w.last_step, 19, 30);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_resume),         cmocka_unit_test(test_pause),
        cmocka_unit_test(test_stop),           cmocka_unit_test(test_stop_apart),
        cmocka_unit_test(test_callback_fails), cmocka_unit_test(test_jobs_differ),
        cmocka_unit_test(test_bad_job),        cmocka_unit_test(test_loss_skips),
        cmocka_unit_test(test_diverges),       cmocka_unit_test(test_stop_before_the_first_step),
    };
    return cmocka_run_group_tests(tests, open_data, close_data);
}
