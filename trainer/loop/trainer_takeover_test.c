/* Runs resumed by another number of ranks: position in the data and the schedule, and length. */
#include "trainer/loop/trainer_ranks.h"

enum { STEPS = 128 };

/* What rank 0 saw of each step. */
typedef struct seen {
    train_start_info start;
    char anew[320];
    double loss[STEPS], lr[STEPS];
    uint64_t epoch[STEPS]; /* epoch of step i + 1 */
    uint64_t epochs;
    train_epoch_info last;
} seen;

static tg_status see_start(void *arg, const train_start_info *info)
{
    seen *s = arg;
    s->start = *info;
    snprintf(s->anew, sizeof s->anew, "%s", info->anew ? info->anew : "-");
    return TG_OK;
}

static tg_status see_step(void *arg, const train_step_info *info)
{
    seen *s = arg;
    assert_in_range(info->step, 1, STEPS);
    s->loss[info->step - 1] = info->loss;
    s->lr[info->step - 1] = info->lr;
    s->epoch[info->step - 1] = info->epoch;
    return TG_OK;
}

static tg_status see_epoch(void *arg, const train_epoch_info *info)
{
    seen *s = arg;
    s->epochs++;
    s->last = *info;
    return TG_OK;
}

static void run_seen(const train_job *job, int ranks, seen *s, rank_run *run)
{
    tg_transport *transport[RANKS_MAX];
    pthread_t thread[RANKS_MAX];
    const train_events events = {
        .arg = s, .start = see_start, .step = see_step, .epoch = see_epoch};
    memset(s, 0, sizeof *s);
    OK(tg_transport_inproc(ranks, transport));
    for (int i = 0; i < ranks; i++) {
        run[i] = (rank_run){.job = job, .transport = transport[i], .events = &events};
        assert_int_equal(pthread_create(&thread[i], NULL, run_rank, &run[i]), 0);
    }
    for (int i = 0; i < ranks; i++)
        pthread_join(thread[i], NULL);
    for (int i = 0; i < ranks; i++)
        tg_transport_destroy(transport[i]);
    assert_fine(run, ranks);
}

static char dir[] = "/tmp/telegrad-run-XXXXXX";

static void empty(void)
{
    char command[64];
    snprintf(command, sizeof command, "rm -rf %s/*", dir);
    assert_int_equal(system(command), 0);
}

/* Epochs have 20 steps with two ranks and 40 with one. Parameters do not change, so a loss shows
 * which batch it belongs to. */
static train_job still(void)
{
    train_job job = basic();
    job.optimizer = "sgd:lr=1e-20";
    job.lr_schedule = "step:every=1ep,factor=0.5";
    return job;
}

/* Ten steps of two ranks take 320 samples, as 20 steps of one rank. */
static void test_fewer(void **state)
{
    (void)state;
    static seen straight, part, rest;
    rank_run run[2];
    train_job job = still();
    run_seen(&job, 1, &straight, run);
    assert_int_equal(straight.start.steps, 120);
    empty();
    job.epochs = 0;
    job.steps = 10;
    job.save_dir = dir;
    run_seen(&job, 2, &part, run);
    job.steps = 0;
    job.epochs = 3;
    job.save_dir = NULL;
    job.resume_dir = dir;
    run_seen(&job, 1, &rest, run);
    assert_int_equal(rest.start.resumed, 2);
    assert_string_equal(rest.anew, "");
    assert_int_equal(rest.start.first_step, 10);
    assert_int_equal(rest.start.steps, 110);
    assert_int_equal(run[0].end.steps, 110);
    assert_int_equal(run[0].end.epochs, 3);
    for (int i = 10; i < 110; i++) {
        assert_true(rest.loss[i] == straight.loss[i + 10]);
        assert_true(rest.lr[i] == straight.lr[i + 10]);
        assert_int_equal(rest.epoch[i], straight.epoch[i + 10]);
    }
    assert_int_equal(rest.epochs, 3);
    assert_int_equal(rest.last.epoch, 2);
}

/* In the other direction, twice; the second checkpoint must be as good. */
static void test_more_and_back(void **state)
{
    (void)state;
    static seen straight, part, rest;
    rank_run run[2];
    train_job job = still();
    run_seen(&job, 2, &straight, run);
    empty();
    job.epochs = 0;
    job.steps = 48; /* epoch 1, step 8 of 40: with two ranks 24 */
    job.save_dir = dir;
    run_seen(&job, 1, &part, run);
    job.resume_dir = dir;
    job.steps = 55; /* ... 31 */
    run_seen(&job, 2, &part, run);
    assert_int_equal(part.start.resumed, 1);
    for (int i = 48; i < 55; i++)
        assert_true(part.loss[i] == straight.loss[i - 24]);
    job.steps = 0;
    job.epochs = 3;
    run_seen(&job, 2, &rest, run);
    assert_int_equal(rest.start.resumed, 2);
    assert_int_equal(rest.start.first_step, 55);
    assert_int_equal(rest.start.steps, 84);
    for (int i = 55; i < 84; i++) {
        assert_true(rest.loss[i] == straight.loss[i - 24]);
        assert_true(rest.lr[i] == straight.lr[i - 24]);
        assert_int_equal(rest.epoch[i], straight.epoch[i - 24]);
    }
    job.epochs = 4;
    run_seen(&job, 1, &rest, run); /* 24 after 60 were done: 120 of today's */
    assert_int_equal(rest.start.first_step, 84);
    assert_int_equal(rest.start.steps, 124);
    assert_int_equal(rest.epoch[84], 3);
}

/* An epoch that has ended but is not closed is closed first. */
static void test_between_epochs(void **state)
{
    (void)state;
    static seen part, rest;
    rank_run run[2];
    train_job job = basic();
    empty();
    job.epochs = 1;
    job.save_dir = dir;
    run_seen(&job, 2, &part, run);
    job.epochs = 2;
    job.resume_dir = dir;
    run_seen(&job, 1, &rest, run);
    assert_int_equal(rest.start.first_step, 20);
    assert_int_equal(rest.start.steps, 60);
    assert_int_equal(rest.epochs, 2);
    assert_true(isfinite(rest.last.train_loss));
    assert_int_equal(rest.epoch[20], 1);
}

/* A run whose length is given in steps keeps its schedule in steps. */
static void test_by_steps(void **state)
{
    (void)state;
    static seen straight, part, rest;
    rank_run run[2];
    train_job job = basic();
    job.lr_schedule = "cosine";
    job.epochs = 0;
    job.steps = 60;
    run_seen(&job, 2, &straight, run);
    empty();
    job.save_dir = dir;
    job.save_every = 33;
    run_seen(&job, 2, &part, run);
    char command[128];
    snprintf(command, sizeof command, "rm -r %s/step-*60", dir);
    assert_int_equal(system(command), 0);
    job.save_dir = NULL;
    job.resume_dir = dir;
    run_seen(&job, 1, &rest, run);
    assert_int_equal(rest.start.first_step, 33);
    assert_int_equal(rest.start.steps, 60);
    for (int i = 33; i < 60; i++)
        assert_true(rest.lr[i] == straight.lr[i]);
}

static int open_all(void **state)
{
    return mkdtemp(dir) == NULL || open_data(state);
}

static int close_all(void **state)
{
    remove_tree(dir);
    return close_data(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fewer),
        cmocka_unit_test(test_more_and_back),
        cmocka_unit_test(test_between_epochs),
        cmocka_unit_test(test_by_steps),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
