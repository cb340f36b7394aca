/* Whole runs of two ranks as threads, over memory. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "train/data/data.h"
#include "train/model/model.h"
#include "train/train.h"

#define OK(expr) assert_int_equal((expr), TG_OK)
#define RANKS_MAX 2

static train_data *data; /* 640 + 200 glyphs: with two ranks and batches of 16, 20 steps an epoch */

static int open_data(void **state)
{
    (void)state;
    return train_data_open("glyphs:train=640,test=200", 0, &data) == TG_OK ? 0 : -1;
}

static int close_data(void **state)
{
    (void)state;
    train_data_close(data);
    return 0;
}

/* What rank 0 reports, and when to interfere. */
typedef struct witness {
    train_start_info start; /* its strings are gone after the run */
    char method[128];
    uint64_t steps, epochs, last_step;
    double first_loss, last_loss;
    train_epoch_info epoch;
    uint64_t fail_at, stop_at; /* steps; 0: never */
    volatile sig_atomic_t stop;
} witness;

static tg_status on_start(void *arg, const train_start_info *info)
{
    witness *w = arg;
    w->start = *info;
    snprintf(w->method, sizeof w->method, "%s", info->method);
    return TG_OK;
}

static tg_status on_step(void *arg, const train_step_info *info)
{
    witness *w = arg;
    if (w->steps++ == 0)
        w->first_loss = info->loss;
    w->last_loss = info->loss;
    w->last_step = info->step;
    if (info->step == w->stop_at)
        __atomic_store_n(&w->stop, 1, __ATOMIC_RELAXED);
    if (info->step == w->fail_at)
        return tg_fail(TG_E_IO, "disk full at step %d", (int)info->step);
    return TG_OK;
}

static tg_status on_epoch(void *arg, const train_epoch_info *info)
{
    witness *w = arg;
    w->epochs++;
    w->epoch = *info;
    return TG_OK;
}

typedef struct rank_run {
    const train_job *job;
    tg_transport *transport;
    const train_events *events;
    train_end_info end;
    tg_status status;
    char message[512];
} rank_run;

static void *run_rank(void *arg)
{
    rank_run *r = arg;
    r->status = train_run(r->job, data, r->transport, r->events, &r->end);
    snprintf(r->message, sizeof r->message, "%s", r->status == TG_OK ? "" : tg_error());
    return NULL;
}

/* job[rank]: a job for each rank, by pointer. */
static void run_jobs(const train_job *const *job, int ranks, witness *w, rank_run *run)
{
    tg_transport *transport[RANKS_MAX];
    pthread_t thread[RANKS_MAX];
    const train_events events = {w, on_start, on_step, on_epoch};
    OK(tg_transport_inproc(ranks, transport));
    for (int i = 0; i < ranks; i++) {
        run[i] = (rank_run){.job = job[i], .transport = transport[i], .events = &events};
        assert_int_equal(pthread_create(&thread[i], NULL, run_rank, &run[i]), 0);
    }
    for (int i = 0; i < ranks; i++)
        assert_int_equal(pthread_join(thread[i], NULL), 0);
    /* Not before: a rank that fails must tell the others by itself. */
    for (int i = 0; i < ranks; i++)
        tg_transport_destroy(transport[i]);
}

static void run_both(const train_job *job, witness *w, rank_run *run)
{
    run_jobs((const train_job *const[]){job, job}, 2, w, run);
}

static void assert_fine(const rank_run *run, int ranks)
{
    for (int i = 0; i < ranks; i++) {
        if (run[i].status != TG_OK)
            fail_msg("rank %d: %s: %s", i, tg_status_name(run[i].status), run[i].message);
        assert_true(run[i].end.params_hash == run[0].end.params_hash);
        assert_true(run[i].end.train_loss == run[0].end.train_loss);
    }
}

static train_job basic(void)
{
    return (train_job){.model = "mlp:hidden=32,hidden2=0",
                       .method = "dense",
                       .strategy = "ssgd",
                       .optimizer = "sgd:lr=0.05,momentum=0.9",
                       .lr_schedule = "constant",
                       .batch = 16,
                       .epochs = 3,
                       .seed = 1,
                       .log_every = 10,
                       .timeout_ms = 20000,
                       .evaluate = true};
}

static void test_dense(void **state)
{
    (void)state;
    const train_job job = basic();
    witness w = {.steps = 0};
    rank_run run[2];
    run_both(&job, &w, run);
    assert_fine(run, 2);
    assert_int_equal(w.start.world, 2);
    assert_int_equal(w.start.params, 784 * 32 + 32 + 320 + 10);
    assert_int_equal(w.start.tensors, 4);
    assert_int_equal(w.start.steps, 60);
    assert_int_equal(w.start.steps_per_epoch, 20);
    assert_int_equal(w.start.first_step, 0);
    assert_int_equal(w.steps, 60);
    assert_int_equal(w.epochs, 3);
    assert_int_equal(w.epoch.epoch, 2);
    assert_int_equal(w.epoch.step, 60);
    assert_true(w.last_loss < w.first_loss);

    const train_end_info *end = &run[1].end; /* every rank has it, not only rank 0 */
    assert_int_equal(end->steps, 60);
    assert_int_equal(end->epochs, 3);
    assert_int_equal(end->skipped_nonfinite, 0);
    assert_false(end->interrupted);
    assert_true(end->test_accuracy > 0.3 && end->test_accuracy <= 1);
    assert_true(end->test_accuracy == w.epoch.test_accuracy);
    assert_true(end->train_loss == w.epoch.train_loss);
    assert_true(end->test_loss > 0 && end->step_ms_median > 0 && end->compute_ms_median > 0);
    assert_true(end->ratio > 0.9 && end->ratio <= 1);
    assert_true(end->ratio_wire > 0.9 && end->ratio_wire <= 1);
    assert_true(end->bytes_sent >= 60 * 4 * w.start.params);
}

/* Two ranks with batches of 16 learn from the same samples as one with batches of 32. */
static void test_world(void **state)
{
    (void)state;
    train_job job = basic();
    rank_run two[2], one;
    witness w = {.steps = 0};
    run_both(&job, &w, two);
    assert_fine(two, 2);
    job.batch = 32;
    run_jobs((const train_job *const[]){&job}, 1, &w, &one);
    assert_fine(&one, 1);
    assert_int_equal(one.end.steps, 60);
    assert_true(fabs(one.end.test_loss - two[0].end.test_loss) < 1e-3);
    assert_true(fabs(one.end.train_loss - two[0].end.train_loss) < 1e-3);
}

/* Evaluation sees every test sample once, whichever rank has it. */
static void test_evaluation(void **state)
{
    (void)state;
    enum { TEST = 200 };
    train_job job = basic();
    job.epochs = 0;
    job.steps = 1;
    job.optimizer = "sgd:lr=1e-20"; /* the parameters stay as they were drawn */
    static float x[TEST * DATA_PIXELS];
    uint8_t labels[TEST];
    for (size_t i = 0; i < TEST; i++)
        data_sample(data, DATA_TEST, i, x + i * DATA_PIXELS, &labels[i]);
    model *m;
    double loss;
    size_t correct;
    OK(model_create(job.model, &(model_input){DATA_SIDE, DATA_SIDE, 1, DATA_CLASSES}, TEST,
                    job.seed, &m));
    OK(m->ops->forward(m, x, labels, TEST, NULL, &loss, &correct));
    model_destroy(m);
    for (size_t batch = 7; batch <= 300; batch += 293) { /* neither divides the test set */
        witness w = {.steps = 0};
        rank_run run[2];
        job.batch = batch;
        run_both(&job, &w, run);
        assert_fine(run, 2);
        assert_true(fabs(run[0].end.test_loss - loss / TEST) < 1e-5);
        assert_true(fabs(run[0].end.test_accuracy - (double)correct / TEST) < 1e-9);
    }
}

/* ---- resuming -----------------------------------------------------------------------------------
 */

static void remove_tree(const char *dir)
{
    char command[256];
    snprintf(command, sizeof command, "rm -rf '%s'", dir);
    assert_int_equal(system(command), 0);
}

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

    job.steps = at; /* a run that ended, and is then extended */
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

    /* Nothing is left to do: the same end once more. */
    run_both(&job, &w, rest);
    assert_fine(rest, 2);
    assert_same_end(straight, rest);

    job.steps = 30;
    run_both(&job, &w, rest);
    assert_int_equal(rest[0].status, TG_E_ARG);
    assert_non_null(strstr(rest[0].message, "steps=30"));
    remove_tree(dir);
}

static void test_resume(void **state)
{
    (void)state;
    check_resume("dense", "ssgd", 20); /* at the end of an epoch */
    check_resume("dgc:density=0.05", "ssgd", 33);
    check_resume("2bit", "cd", 31);
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
    assert_int_equal(w.epochs, 2); /* the first one, and the part of the second */

    w = (witness){.steps = 0};
    job.resume_dir = dir;
    run_both(&job, &w, rest);
    assert_fine(rest, 2);
    assert_int_equal(w.start.first_step, part[0].end.steps);
    assert_false(rest[0].end.interrupted);
    assert_same_end(straight, rest);
    remove_tree(dir);
}

/* ---- failures -----------------------------------------------------------------------------------
 */

static void test_callback_fails(void **state)
{
    (void)state;
    const train_job job = basic();
    witness w = {.fail_at = 7};
    rank_run run[2];
    run_both(&job, &w, run);
    assert_int_equal(run[0].status, TG_E_IO);
    assert_string_equal(run[0].message, "disk full at step 7");
    assert_int_equal(run[1].status, TG_E_PEER);
    assert_non_null(strstr(run[1].message, "rank 0 has left")); /* told, not tired of waiting */
    assert_int_equal(w.last_step, 7);
}

static void test_jobs_differ(void **state)
{
    (void)state;
    train_job a = basic(), b = basic();
    witness w = {.steps = 0};
    rank_run run[2];
    b.lr_schedule = "cosine";
    run_jobs((const train_job *const[]){&a, &b}, 2, &w, run);
    assert_int_equal(run[0].status, TG_E_MISMATCH);
    if (!strstr(run[0].message, "rank 1 has lr_schedule=cosine"))
        fail_msg("%s", run[0].message);
    b = basic();
    b.epochs = 4;
    run_jobs((const train_job *const[]){&a, &b}, 2, &w, run);
    assert_int_equal(run[0].status, TG_E_MISMATCH);
    assert_non_null(strstr(run[0].message, "steps="));
    assert_int_equal(w.steps, 0);
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

/* ---- the rest -----------------------------------------------------------------------------------
 */

static void test_trace(void **state)
{
    (void)state;
    train_job job = basic();
    job.epochs = 0;
    job.steps = 2;
    job.evaluate = false;
    witness w = {.steps = 0};
    rank_run run[2];
    OK(tg_trace_create(1000, &job.trace));
    run_both(&job, &w, run);
    assert_fine(run, 2);
    assert_true(isnan(run[0].end.test_accuracy));
    assert_int_equal(run[0].end.epochs, 0);
    char path[] = "/tmp/telegrad-trace-XXXXXX";
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    OK(tg_trace_write(job.trace, path));
    tg_trace_destroy(job.trace);
    static char text[1 << 16];
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    text[fread(text, 1, sizeof text - 1, f)] = 0;
    fclose(f);
    unlink(path);
    assert_non_null(strstr(text, "\"forward\""));
    assert_non_null(strstr(text, "\"backward\""));
}

/* LeNet-5 with the published methods: it learns, and what was coded is smaller. */
static void test_methods(void **state)
{
    (void)state;
    static const struct {
        const char *method, *strategy;
        double ratio;
    } cases[] = {{"dgc:density=0.01,warmup=0", "ssgd", 40},
                 {"2bit:threshold=0.01", "cd:warmup=2", 14}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        train_job job = basic();
        job.model = "lenet5";
        job.batch = 8;
        job.epochs = 1;
        job.optimizer = "sgd:lr=0.05";
        job.method = cases[i].method;
        job.strategy = cases[i].strategy;
        witness w = {.steps = 0};
        rank_run run[2];
        run_both(&job, &w, run);
        assert_fine(run, 2);
        assert_int_equal(run[0].end.steps, 40);
        if (!(run[0].end.ratio > cases[i].ratio))
            fail_msg("%s: ratio %g", cases[i].method, run[0].end.ratio);
        assert_true(run[0].end.ratio_wire > 1);
        if (!(run[0].end.test_accuracy > 0.3))
            fail_msg("%s: accuracy %g", cases[i].method, run[0].end.test_accuracy);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dense),       cmocka_unit_test(test_world),
        cmocka_unit_test(test_evaluation),  cmocka_unit_test(test_resume),
        cmocka_unit_test(test_stop),        cmocka_unit_test(test_callback_fails),
        cmocka_unit_test(test_jobs_differ), cmocka_unit_test(test_bad_job),
        cmocka_unit_test(test_diverges),    cmocka_unit_test(test_trace),
        cmocka_unit_test(test_methods),
    };
    return cmocka_run_group_tests(tests, open_data, close_data);
}
