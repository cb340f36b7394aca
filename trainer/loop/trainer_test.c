/* Whole runs: how well they learn, and the figures that they report. */
#include "trainer/data/data.h"
#include "trainer/model/model.h"
#include "trainer/loop/trainer_ranks.h"

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

    const train_end_info *end = &run[1].end; /* set on every rank, not only on rank 0 */
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

/* Two ranks with batches of 16 learn from the same samples as one rank with batches of 32. */
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

/* Evaluation sees every test sample once, on whichever rank. */
static void test_evaluation(void **state)
{
    (void)state;
    enum { TEST = 200 };
    train_job job = basic();
    job.epochs = 0;
    job.steps = 1;
    job.optimizer = "sgd:lr=1e-20"; /* the parameters keep their initial values */
    static float x[TEST * DATA_PIXELS];
    int32_t labels[TEST];
    for (size_t i = 0; i < TEST; i++)
        data_sample(data, DATA_TEST, i, x + i * DATA_PIXELS, &labels[i]);
    model *m;
    const model_batch whole = {.x = x, .labels = labels, .count = TEST};
    model_result result;
    OK(model_create(job.model, &(model_input){DATA_SIDE, DATA_SIDE, 1, 0, DATA_CLASSES, false},
                    TEST, job.seed, &m));
    OK(model_forward(m, &whole, &(model_pass){0}, NULL, &result));
    model_destroy(m);
    for (size_t batch = 7; batch <= 300; batch += 293) { /* neither divides the test set */
        witness w = {.steps = 0};
        rank_run run[2];
        job.batch = batch;
        run_both(&job, &w, run);
        assert_fine(run, 2);
        assert_true(fabs(run[0].end.test_loss - result.loss / TEST) < 1e-5);
        assert_true(fabs(run[0].end.test_accuracy - (double)result.correct / TEST) < 1e-9);
    }
}

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

/* LeNet-5 with the published methods learns, and coded gradients are smaller. */
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

/* ---- figures --------------------------------------------------------------------------------- */

/* Evaluation and saving do not affect the figures of training. */
static void test_traffic(void **state)
{
    (void)state;
    static const struct {
        const char *method, *strategy;
        uint64_t save_every; /* 0: no saves */
    } cases[] = {
        {"dense", "ssgd", 3}, {"topk:density=0.01", "ssgd", 1}, {"2bit", "cd:warmup=4", 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char dir[] = "/tmp/telegrad-run-XXXXXX";
        assert_non_null(mkdtemp(dir));
        train_job job = basic();
        job.method = cases[i].method;
        job.strategy = cases[i].strategy;
        job.evaluate = false;
        witness w = {.steps = 0};
        rank_run bare[2], busy[2];
        run_both(&job, &w, bare);
        assert_fine(bare, 2);
        job.evaluate = true;
        job.epochs = 0;
        job.steps = 60;
        job.save_dir = cases[i].save_every ? dir : NULL;
        job.save_every = cases[i].save_every;
        run_both(&job, &w, busy);
        assert_fine(busy, 2);
        for (int rank = 0; rank < 2; rank++) {
            const train_end_info *a = &bare[rank].end, *b = &busy[rank].end;
            if (a->ratio_wire != b->ratio_wire)
                fail_msg("%s: ratio_wire %.17g, busy %.17g", job.method, a->ratio_wire,
                         b->ratio_wire);
            if (cases[i].save_every) {
                assert_true(a->bytes_per_step == b->bytes_per_step);
                assert_true(b->bytes_sent > a->bytes_sent);
            }
            assert_true(a->bytes_sent > 60 * (uint64_t)(a->bytes_per_step * 0.9));
        }
        remove_tree(dir);
    }
}

/* Exchanges still in flight after the last step count as sent for training. */
static void test_drain(void **state)
{
    (void)state;
    train_job job = basic();
    job.strategy = "od:warmup=0";
    job.driver = TG_DRIVER_INLINE;
    job.epochs = 0;
    job.steps = 1;
    job.evaluate = false;
    witness w = {.steps = 0};
    rank_run run[2];
    run_both(&job, &w, run);
    assert_fine(run, 2);
    for (int i = 0; i < 2; i++) {
        if (!(run[i].end.ratio_wire > 0.9 && run[i].end.ratio_wire <= 1))
            fail_msg("rank %d: ratio_wire %g", i, run[i].end.ratio_wire);
    }
}

/* A mean over all steps: the dense steps of CD-SGD count as much as the others. */
static void test_bytes_per_step(void **state)
{
    (void)state;
    train_job job = basic();
    job.method = "2bit";
    job.strategy = "cd:k=4,warmup=2";
    job.evaluate = false;
    job.epochs = 1; /* no sums of losses between the steps */
    witness w = {.late_from = 10};
    rank_run run[2];
    run_both(&job, &w, run);
    assert_fine(run, 2);
    assert_true(run[0].end.bytes_per_step == (double)w.bytes_late / 10);
    assert_true(run[0].end.ratio > 14);
    /* 2 or 3 of 10 steps are dense, one of them possibly in part. */
    const double dense = 4.0 * (double)w.start.params;
    const double mean = run[0].end.bytes_per_step;
    if (!(mean > 0.15 * dense && mean < 0.40 * dense))
        fail_msg("%g bytes per step, %g if dense", mean, dense);
}

/* A dense gradient costs the same in every step, however late it arrives, and a round's exchange
 * counts for its steps. */
static void test_bytes_of_late_exchanges(void **state)
{
    (void)state;
    static const struct {
        const char *strategy;
        uint64_t steps;
        double share; /* of a step's dense exchange */
    } cases[] = {{"ssgd", 20, 1},
                 {"cd:warmup=0", 3, 1},
                 {"cd:warmup=0", 20, 1},
                 {"dga:delay=1", 1, 1},
                 {"dga:delay=1", 2, 1},
                 {"dga:delay=2", 20, 1},
                 {"dga:delay=7", 10, 1},
                 {"pipe:width=3", 9, 1},
                 {"local:every=4", 18, 0.25},
                 {"local:every=8", 20, 0.125},
                 {"local:every=30", 20, 0.05}};
    double dense = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        train_job job = basic();
        job.strategy = cases[i].strategy;
        job.epochs = 0;
        job.steps = cases[i].steps;
        job.evaluate = false;
        witness w = {.steps = 0};
        rank_run run[2];
        run_both(&job, &w, run);
        assert_fine(run, 2);
        const double bytes = run[0].end.bytes_per_step;
        dense = i == 0 ? bytes : dense;
        if (!(fabs(bytes / (cases[i].share * dense) - 1) < 0.01))
            fail_msg("%s, %d steps: %g bytes a step, dense %g", cases[i].strategy,
                     (int)cases[i].steps, bytes, dense);
    }
}

/* One rank sends nothing, and claims no ratio. */
static void test_alone(void **state)
{
    (void)state;
    train_job job = basic();
    job.method = "topk:density=0.01";
    witness w = {.steps = 0};
    rank_run run[1];
    run_jobs((const train_job *const[]){&job}, 1, &w, run);
    assert_fine(run, 1);
    assert_true(run[0].end.bytes_per_step == 0 && isnan(run[0].end.ratio) &&
                isnan(run[0].end.ratio_wire));
}

/* If a strategy exchanges one part at a time, the ratio is that of the part. */
static void test_ratio_of_fragments(void **state)
{
    (void)state;
    train_job job = basic();
    job.method = "qsgd:bits=4";
    job.strategy = "streaming:every=4,fragments=2,overlap=1";
    job.bucket_bytes = 65536;
    job.evaluate = false;
    job.epochs = 1;
    witness w = {.steps = 0};
    rank_run run[2];
    run_both(&job, &w, run);
    assert_fine(run, 2);
    const double ratio = run[0].end.ratio;
    if (!(ratio > 4 && ratio <= 8)) /* one fragment is small */
        fail_msg("ratio %g of codes of 4 bits", ratio);
}

/* A clock that advances only while its rank sends through its transport or polls it. */
typedef struct slow_rank {
    tg_clock clock;
    int64_t now_ns;
    tg_transport_ops ops;
    const tg_transport_ops *inner;
} slow_rank;

static slow_rank slow[RANKS_MAX];

static int64_t slow_now_ns(void *arg)
{
    return ((const slow_rank *)arg)->now_ns;
}

static tg_status slow_poll(tg_transport *t, int64_t deadline_ns)
{
    (void)deadline_ns;
    slow[t->rank].now_ns += 1000000;
    return slow[t->rank].inner->poll(t, tg_now_ns(tg_clock_monotonic()) + 1000000);
}

static tg_status slow_send(tg_transport *t, int peer, uint32_t tag, const void *buf, size_t len,
                           tg_request *req)
{
    slow[t->rank].now_ns += 1000000;
    return slow[t->rank].inner->post_send(t, peer, tag, buf, len, req);
}

/* compute_ms excludes the time that the passes spend on exchanges. */
static void test_compute_ms(void **state)
{
    (void)state;
    static const char *const strategies[] = {"ssgd", "od:warmup=0"};
    for (size_t i = 0; i < 2; i++) {
        tg_transport *transport[2];
        OK(tg_transport_inproc(2, transport));
        for (int rank = 0; rank < 2; rank++) {
            slow_rank *s = &slow[rank];
            *s = (slow_rank){.clock = {.struct_size = sizeof s->clock,
                                       .arg = s,
                                       .now_ns = slow_now_ns,
                                       .sleep_until_ns = tg_clock_monotonic()->sleep_until_ns},
                             .ops = *transport[rank]->ops,
                             .inner = transport[rank]->ops};
            s->ops.poll = slow_poll;
            s->ops.post_send = slow_send;
            transport[rank]->ops = &s->ops;
            transport[rank]->clock = &s->clock;
        }
        train_job job = basic();
        job.strategy = strategies[i];
        job.driver = TG_DRIVER_INLINE;
        job.timeout_ms = 1000000;
        witness w = {.steps = 0};
        rank_run run[2];
        run_over(transport, (const train_job *const[]){&job, &job}, 2, &w, run);
        assert_fine(run, 2);
        for (int rank = 0; rank < 2; rank++) {
            assert_true(run[rank].end.compute_ms_median == 0);
            assert_true(run[rank].end.step_ms_median >= 1);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dense),      cmocka_unit_test(test_world),
        cmocka_unit_test(test_evaluation), cmocka_unit_test(test_trace),
        cmocka_unit_test(test_methods),    cmocka_unit_test(test_traffic),
        cmocka_unit_test(test_drain),      cmocka_unit_test(test_bytes_per_step),
        cmocka_unit_test(test_compute_ms), cmocka_unit_test(test_ratio_of_fragments),
        cmocka_unit_test(test_alone),      cmocka_unit_test(test_bytes_of_late_exchanges),
    };
    return cmocka_run_group_tests(tests, open_data, close_data);
}
