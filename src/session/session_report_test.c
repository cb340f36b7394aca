/* Figures of steps by method, and warnings in the log. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "session_fixture.h"

static fixture_result result[4];

static void run(const fixture_job *job)
{
    fixture_run(job, result);
    for (int r = 0; r < job->world; r++)
        if (result[r].status != TG_OK)
            fail_msg("%s %s: rank %d: %s", job->method, job->strategy, r, result[r].error);
}

/* The parts add up to the whole: bytes, kept elements, times. */
static void test_figures(void **state)
{
    (void)state;
    static const struct {
        const char *method;
        size_t bucket_bytes;
        size_t kept, fell_back;
    } cases[] = {
        {"dense", 0, FIXTURE_N, 0},
        {"fp16", 1400, FIXTURE_N, 0},
        {"topk:density=0.1", 0, 86, 0},
        {"topk:density=0.1,exchange=direct", 0, 86, 0},
        {"topk:density=0.1", 1400, 50 + 2 + 34, 0}, /* buckets of 500, 20 and 340 */
        {"topk:density=1,values=f32", 0, FIXTURE_N, 1},
        {"dgc:density=0.1,warmup=0,exchange=none", 0, 86, 0},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        fixture_job job = fixture_defaults();
        job.method = cases[c].method;
        job.bucket_bytes = cases[c].bucket_bytes;
        job.world = 3;
        run(&job);
        for (int r = 0; r < job.world; r++) {
            const tg_step_info *info = &result[r].info[5];
            assert_int_equal(info->elements, FIXTURE_N);
            assert_int_equal(info->kept, cases[c].kept);
            assert_int_equal(info->fell_back, cases[c].fell_back);
            assert_int_equal(info->nmethods, 1);
            assert_true(info->decode_ns > 0 && info->decode_ns <= info->exchange_ns);
            const tg_method_info *m = &result[r].method[5];
            assert_int_equal(m->n, FIXTURE_N);
            assert_int_equal(m->kept, info->kept);
            assert_int_equal(m->bytes, info->coded_bytes);
            assert_int_equal(m->bytes_sent, info->bytes_sent);
            assert_true(m->encode_ns == info->encode_ns && m->decode_ns == info->decode_ns);
            assert_true(fabs(m->norm - info->grad_norm) <= 1e-12 * m->norm);
            assert_true(m->residual_norm == info->residual_norm);
            assert_true(strstr(job.method, "dense") != NULL || m->bytes < 4 * FIXTURE_N + 100);
        }
    }
}

/* A strategy with delay: the figures are those of the exchange delivered, including dense ones. */
static void test_figures_of_delayed_exchanges(void **state)
{
    (void)state;
    fixture_job job = fixture_defaults();
    job.method = "topk:density=0.1";
    job.strategy = "cd:k=3,warmup=1";
    job.world = 2;
    run(&job);
    assert_int_equal(result[0].info[1].nmethods, 1); /* started in this step, not delivered yet */
    assert_int_equal(result[0].method[1].n, 0);
    assert_true(result[0].info[1].density == 1 && result[0].info[1].elements == 0);
    for (int t = 2; t < 12; t++) {
        bool coded = t % 3 != 2;
        assert_int_equal(result[0].info[t].coded, coded);
        assert_true(result[0].info[t].density == (coded ? 0.1 : 1));
        assert_int_equal(result[0].info[t].kept, coded ? 86 : FIXTURE_N);
        assert_int_equal(result[0].method[t].kept, coded ? 86 : FIXTURE_N);
    }
}

/* Checkpoints and evaluation send only messages of control, also while exchanges are in flight. */
static void test_control_bytes(void **state)
{
    (void)state;
    char dir[] = "/tmp/telegrad-control-XXXXXX", command[64];
    assert_non_null(mkdtemp(dir));
    fixture_job job = fixture_defaults();
    job.method = "topk:density=0.1";
    job.strategy = "cd:k=3,warmup=1";
    job.world = 2;
    run(&job);
    const uint64_t bytes = result[1].bytes, control = result[1].control_bytes;
    assert_true(control > 0 && control < bytes);
    job.save_dir = dir;
    job.save_at = 7;
    job.eval_every = 5;
    run(&job);
    assert_true(result[1].control_bytes > control);
    assert_int_equal(result[1].bytes - result[1].control_bytes, bytes - control);
    snprintf(command, sizeof command, "rm -r %s", dir);
    assert_int_equal(system(command), 0);
}

typedef struct heard {
    int count;
    char text[1024];
} heard;

static void hear(void *arg, tg_log_level level, const char *message)
{
    heard *h = arg;
    if (level != TG_LOG_WARN)
        return;
    h->count++;
    snprintf(h->text, sizeof h->text, "%s", message);
}

static heard listen_to(const char *method, uint64_t steps)
{
    heard h = {0};
    fixture_job job = fixture_defaults();
    job.method = method;
    job.optimizer = "sgd:lr=0.0625";
    job.world = 2;
    job.steps = steps;
    tg_log_set(hear, &h);
    run(&job);
    tg_log_set(NULL, NULL);
    return h;
}

/* Each warning is logged once, by one rank, with the method's name. */
static void test_warnings(void **state)
{
    (void)state;
    heard h = listen_to("topk:density=1,values=f32", 60);
    assert_int_equal(h.count, 1);
    assert_non_null(strstr(h.text, "topk:density=1"));
    assert_non_null(strstr(h.text, "in 20 of 20 steps"));
    h = listen_to("topk:density=1,values=f32", 19);
    assert_int_equal(h.count, 0);
    h = listen_to("2bit:threshold=0.0001", 400);
    assert_int_equal(h.count, 1);
    assert_non_null(strstr(h.text, "2bit:threshold=0.0001"));
    assert_non_null(strstr(h.text, "residual grows without bound"));
    static const char *const quiet[] = {"topk:density=0.002", "topk:density=0.1",
                                        "2bit:threshold=2", "dgc:density=0.002,warmup=0",
                                        "fp16:feedback=residual"};
    for (size_t i = 0; i < sizeof quiet / sizeof *quiet; i++) {
        h = listen_to(quiet[i], 400);
        if (h.count != 0)
            fail_msg("%s: %s", quiet[i], h.text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_figures),
        cmocka_unit_test(test_figures_of_delayed_exchanges),
        cmocka_unit_test(test_control_bytes),
        cmocka_unit_test(test_warnings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
