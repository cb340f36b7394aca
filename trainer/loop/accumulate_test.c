/* Steps of several parts, and learning rates that grow with the minibatch. */
#include "trainer/loop/trainer_ranks.h"
#include <inttypes.h>

enum { PARAMS_MAX = 784 * 32 + 32 + 320 + 10, STEPS = 5 };

/* What rank 0 saw of a run: rates, losses, the gradients of the first step. */
typedef struct seen {
    double lr[STEPS], loss[STEPS];
    uint64_t steps, steps_per_epoch;
    float grad[PARAMS_MAX];
    size_t n;
} seen;

static tg_status see_start(void *arg, const train_start_info *info)
{
    seen *s = arg;
    s->steps_per_epoch = info->steps_per_epoch;
    return TG_OK;
}

static tg_status see_step(void *arg, const train_step_info *info)
{
    seen *s = arg;
    s->lr[s->steps] = info->lr;
    s->loss[s->steps++] = info->loss;
    return TG_OK;
}

static tg_status see_gradient(void *arg, uint64_t step, const train_gradient *tensor, size_t count)
{
    seen *s = arg;
    for (size_t i = 0; i < count && step == 1; i++) {
        if (s->n + tensor[i].n > PARAMS_MAX) /* no assertion here: this is not the test's thread */
            return tg_fail(TG_E_SPACE, "more gradients than %d", PARAMS_MAX);
        memcpy(s->grad + s->n, tensor[i].grad, tensor[i].n * sizeof *s->grad);
        s->n += tensor[i].n;
    }
    return TG_OK;
}

static void watch(const train_job *job, int ranks, seen *s, rank_run *run)
{
    const train_events events = {.arg = s,
                                 .start = see_start,
                                 .step = see_step,
                                 .gradient = job->gradient_every ? see_gradient : NULL};
    tg_transport *transport[RANKS_MAX];
    pthread_t thread[RANKS_MAX];
    memset(s, 0, sizeof *s);
    OK(tg_transport_inproc(ranks, transport));
    for (int i = 0; i < ranks; i++) {
        run[i] = (rank_run){.job = job, .transport = transport[i], .events = &events};
        assert_int_equal(pthread_create(&thread[i], NULL, run_rank, &run[i]), 0);
    }
    for (int i = 0; i < ranks; i++)
        assert_int_equal(pthread_join(thread[i], NULL), 0);
    for (int i = 0; i < ranks; i++)
        tg_transport_destroy(transport[i]);
    assert_fine(run, ranks);
}

static train_job short_job(void)
{
    train_job job = basic();
    job.epochs = 0;
    job.steps = STEPS;
    job.gradient_every = 1;
    return job;
}

/* n batches of b equal one of n * b: the same samples, and the same mean gradient except for the
 * order of its sum. */
static void parts_are_one_batch(void **state)
{
    (void)state;
    static const char *const models[] = {"mlp:hidden=32,hidden2=0", "lenet5"};
    static seen whole, parts;
    for (size_t m = 0; m < 2; m++) {
        for (int ranks = 1; ranks <= 2; ranks++) {
            train_job job = short_job();
            rank_run run[2];
            job.model = models[m];
            job.gradient_every = m == 0; /* LeNet-5 has too many to keep */
            job.batch = 32;
            watch(&job, ranks, &whole, run);
            const double loss = run[0].end.test_loss;
            job.batch = 8;
            job.accumulate = 4;
            watch(&job, ranks, &parts, run);
            assert_int_equal(parts.steps, STEPS);
            assert_int_equal(parts.steps_per_epoch, 640 / 32 / ranks);
            assert_int_equal(parts.steps_per_epoch, whole.steps_per_epoch);
            for (size_t i = 0; i < STEPS; i++)
                assert_true(fabs(parts.loss[i] - whole.loss[i]) < 1e-4);
            assert_true(fabs(run[0].end.test_loss - loss) < 1e-3);
            assert_int_equal(parts.n, whole.n);
            for (size_t i = 0; i < whole.n; i++)
                assert_true(fabsf(parts.grad[i] - whole.grad[i]) <= 1e-6f);
        }
    }
}

static void parts_resume(void **state)
{
    (void)state;
    char dir[] = "/tmp/telegrad-parts-XXXXXX";
    assert_non_null(mkdtemp(dir));
    train_job job = basic();
    job.batch = 4;
    job.accumulate = 4;
    job.steps = 30;
    job.optimizer = "adamw:lr=0.001,clip=1";
    job.lr_schedule = "onecycle";
    witness w = {.steps = 0};
    rank_run run[2];
    run_both(&job, &w, run);
    assert_fine(run, 2);
    const uint64_t hash = run[0].end.params_hash;
    job.save_dir = dir;
    job.save_every = 13;
    w = (witness){.stop_at = 13};
    job.stop = &w.stop;
    run_both(&job, &w, run);
    assert_fine(run, 2);
    assert_true(run[0].end.interrupted && run[0].end.steps < 30);
    job.resume_dir = dir;
    job.save_dir = NULL;
    job.save_every = 0;
    w = (witness){.steps = 0};
    run_both(&job, &w, run);
    assert_fine(run, 2);
    assert_true(run[0].end.params_hash == hash);
    remove_tree(dir);
}

/* The given rate is for one batch; a step takes ranks * parts of them. */
static void rates_grow(void **state)
{
    (void)state;
    static const struct {
        train_lr_scale scale;
        const char *schedule;
        double lr[STEPS]; /* over the optimizer's */
    } cases[] = {
        {TRAIN_LR_SCALE_NONE, "constant:warmup=2", {0.5, 1, 1, 1, 1}},
        {TRAIN_LR_SCALE_LINEAR, "constant", {4, 4, 4, 4, 4}},
        {TRAIN_LR_SCALE_LINEAR, "constant:warmup=3", {1, 2, 3, 4, 4}},
        {TRAIN_LR_SCALE_SQRT, "step:at=3,factor=0.5,warmup=2", {1, 1.5, 2, 1, 1}},
    };
    static seen s;
    for (size_t c = 0; c < 4; c++) {
        train_job job = short_job();
        rank_run run[2];
        job.optimizer = "sgd:lr=0.0625";
        job.accumulate = 2;
        job.lr_schedule = cases[c].schedule;
        job.lr_scale = cases[c].scale;
        watch(&job, 2, &s, run);
        for (size_t i = 0; i < STEPS; i++)
            assert_true(fabs(s.lr[i] - 0.0625 * cases[c].lr[i]) < 1e-15);
    }
}

static void refuses(void **state)
{
    (void)state;
    const train_job job = short_job();
    train_job other = job;
    witness w = {.steps = 0};
    rank_run run[2];
    other.batch = 8;
    other.accumulate = 2; /* as many samples, summed in another order */
    run_jobs((const train_job *const[]){&job, &other}, 2, &w, run);
    assert_int_equal(run[0].status, TG_E_MISMATCH);
    other = job;
    other.lr_scale = TRAIN_LR_SCALE_LINEAR;
    run_jobs((const train_job *const[]){&job, &other}, 2, &w, run);
    assert_int_equal(run[0].status, TG_E_MISMATCH);
    assert_non_null(strstr(run[0].message, "lr_scale"));
    char times[1100] = "step:at="; /* also after long settings */
    for (uint64_t i = 0; i < 64; i++)
        snprintf(times + strlen(times), sizeof times - strlen(times), "%s%" PRIu64, i ? "+" : "",
                 UINT64_C(40000000000000) + i);
    snprintf(times + strlen(times), sizeof times - strlen(times), "%s", ",factor=0.5");
    train_job long_job = job;
    long_job.lr_schedule = other.lr_schedule = times;
    run_jobs((const train_job *const[]){&long_job, &other}, 2, &w, run);
    assert_int_equal(run[0].status, TG_E_MISMATCH);
    assert_non_null(strstr(run[0].message, "lr_scale"));
    other = job;
    other.accumulate = 21;
    run_both(&other, &w, run);
    assert_int_equal(run[0].status, TG_E_ARG);
    assert_non_null(
        strstr(run[0].message, "--accumulate 21: allowed: 1 to 20 (320 training samples"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_are_one_batch),
        cmocka_unit_test(parts_resume),
        cmocka_unit_test(rates_grow),
        cmocka_unit_test(refuses),
    };
    return cmocka_run_group_tests(tests, open_data, close_data);
}
