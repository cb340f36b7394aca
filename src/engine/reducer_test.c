/* The reducer and the handshake over in-process ranks. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "engine/handshake.h"
#include "telegrad/reducer.h"
#include "telegrad/random.h"
#include "telegrad/spec.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N = 3001, P = 4 };

typedef struct rank {
    tg_transport *t;
    const char *method, *text;
    bool parts; /* start and test instead of mean */
    int nan_step;
    size_t n;
    tg_status status;
    char error[512];
    float mean[N];
    double ratio;
    int done_calls, nonfinite;
} rank;

static void on_done(void *arg, tg_status status)
{
    rank *r = arg;
    (void)status;
    r->done_calls++;
}

static tg_status reduce(rank *r, tg_reducer *reducer, const float *g)
{
    if (!r->parts)
        return tg_reducer_mean(reducer, g, r->mean);
    bool done = false;
    TG_TRY(tg_reducer_start(reducer, g, r->mean, on_done, r));
    if (tg_reducer_start(reducer, g, r->mean, NULL, NULL) != TG_E_STATE)
        return tg_fail(TG_E_STATE, "a second start was accepted");
    if (tg_reducer_mean(reducer, g, r->mean) != TG_E_STATE ||
        strstr(tg_error(), "tg_reducer_mean: an operation is under way") == NULL)
        return tg_fail(TG_E_STATE, "a mean meanwhile: %s", tg_error());
    while (!done)
        TG_TRY(tg_reducer_test(reducer, &done));
    return TG_OK;
}

static tg_status steps(rank *r, tg_reducer *reducer)
{
    static const int count = 5;
    float *g = malloc(N * sizeof *g);
    tg_status status = TG_OK;
    for (int t = 0; t < count && status == TG_OK; t++) {
        tg_rng_key key = {.seed = 2,
                          .purpose = TG_PURPOSE_TEST,
                          .rank = (uint32_t)r->t->rank,
                          .step = (uint64_t)t};
        for (size_t i = 0; i < N; i++)
            g[i] = (float)tg_rng_normal(&key, i);
        if (t == r->nan_step && r->t->rank == 1)
            g[7] = INFINITY;
        status = reduce(r, reducer, g);
        if (t == r->nan_step && status == TG_E_NONFINITE) {
            r->nonfinite++;
            status = TG_OK;
        }
    }
    free(g);
    r->ratio = tg_reducer_ratio(reducer);
    return status;
}

static void *run_rank(void *arg)
{
    rank *r = arg;
    tg_reducer *reducer = NULL;
    tg_reducer_config config = {.struct_size = sizeof config, .seed = 3, .timeout_ms = 5000};
    r->status = tg_reducer_create(r->method, r->t, r->n, &config, &reducer);
    if (r->status == TG_OK)
        r->status = steps(r, reducer);
    snprintf(r->error, sizeof r->error, "%s", tg_error());
    tg_reducer_destroy(reducer);
    tg_transport_destroy(r->t);
    return NULL;
}

static rank ranks[P];

static void run(void *(*body)(void *))
{
    tg_transport *t[P];
    pthread_t thread[P];
    assert_int_equal(tg_transport_inproc(P, t), TG_OK);
    for (int i = 0; i < P; i++) {
        ranks[i].t = t[i];
        assert_int_equal(pthread_create(&thread[i], NULL, body, &ranks[i]), 0);
    }
    for (int i = 0; i < P; i++)
        pthread_join(thread[i], NULL);
}

static void setup(const char *method, bool parts)
{
    memset(ranks, 0, sizeof ranks);
    for (int i = 0; i < P; i++)
        ranks[i] = (rank){.method = method, .parts = parts, .nan_step = -1, .n = N};
}

static void test_mean(void **state)
{
    (void)state;
    static const char *const methods[] = {
        "dense",
        "fp16",
        "2bit",
        "topk:density=0.01",
        "topk:density=0.01,values=4bit,index=ef,scope=tensor",
        "randomk:density=0.01",
        "atomo",
        "strom:target=0.01",
        "adacomp:bin=500",
        "dgc:density=0.01,warmup=0",
        "int8",
        "qsgd:exchange=direct",
        "terngrad",
        "terngrad:scaler=local,exchange=direct",
        "1bit:twoway=yes",
        "signum",
        "efsign",
    };
    static float mean[N];
    for (size_t m = 0; m < sizeof methods / sizeof *methods; m++) {
        setup(methods[m], false);
        run(run_rank);
        memcpy(mean, ranks[0].mean, sizeof mean);
        for (int i = 0; i < P; i++) {
            if (ranks[i].status != TG_OK)
                fail_msg("%s", ranks[i].error);
            assert_memory_equal(ranks[i].mean, mean, sizeof mean);
        }
        assert_true(ranks[0].ratio >
                    (m == 0 || strcmp(methods[m], "atomo") == 0 ? 0.9 : 1.5)); /* one vector */
        setup(methods[m], true);
        run(run_rank);
        assert_int_equal(ranks[2].status, TG_OK);
        assert_int_equal(ranks[2].done_calls, 5);
        assert_memory_equal(ranks[2].mean, mean, sizeof mean);
    }
}

/* dense gives the exact mean in rank order, also if the exchange was chosen by measuring: other
 * exchanges with as many bytes have more delays, so it is one of the two that sum in rank order. */
static void test_dense(void **state)
{
    static const char *const methods[] = {"dense", "dense:exchange=auto"};
    (void)state;
    for (size_t m = 0; m < 2; m++) {
        setup(methods[m], false);
        run(run_rank);
        for (size_t i = 0; i < N; i++) {
            float sum = 0;
            for (uint32_t r = 0; r < P; r++) {
                tg_rng_key key = {.seed = 2, .purpose = TG_PURPOSE_TEST, .rank = r, .step = 4};
                sum += (float)tg_rng_normal(&key, i);
            }
            assert_int_equal(ranks[3].status, TG_OK);
            assert_true(ranks[3].mean[i] == sum * 0.25f);
        }
    }
}

/* Whatever is chosen, it is the same on all ranks. */
static void test_auto(void **state)
{
    static const char *const methods[] = {"topk:density=0.1,exchange=auto", "qsgd:exchange=auto",
                                          "powersgd:exchange=auto"};
    (void)state;
    for (size_t m = 0; m < sizeof methods / sizeof *methods; m++) {
        setup(methods[m], false);
        run(run_rank);
        for (int i = 0; i < P; i++) {
            if (ranks[i].status != TG_OK)
                fail_msg("%s: %s", methods[m], ranks[i].error);
            assert_memory_equal(ranks[i].mean, ranks[0].mean, sizeof ranks[0].mean);
        }
    }
}

static void test_nonfinite(void **state)
{
    (void)state;
    setup("topk:density=0.01", false);
    for (int i = 0; i < P; i++)
        ranks[i].nan_step = 2;
    run(run_rank);
    for (int i = 0; i < P; i++) {
        assert_int_equal(ranks[i].status, TG_OK);
        assert_int_equal(ranks[i].nonfinite, 1);
        assert_memory_equal(ranks[i].mean, ranks[0].mean, sizeof ranks[0].mean);
    }
}

static void test_different(void **state)
{
    (void)state;
    setup("dense", false);
    ranks[2].method = "fp16";
    run(run_rank);
    for (int i = 0; i < P; i++) {
        assert_int_equal(ranks[i].status, TG_E_MISMATCH);
        assert_non_null(strstr(ranks[i].error, "rank 2 has reducer=fp16"));
    }
    setup("dense", false);
    ranks[1].n = N - 1;
    run(run_rank);
    assert_int_equal(ranks[0].status, TG_E_MISMATCH);
    assert_non_null(strstr(ranks[0].error, "n=3000"));
}

static void *shake(void *arg)
{
    rank *r = arg;
    tg__engine *e;
    r->status = tg__engine_create(r->t, TG_DRIVER_AUTO, INT64_C(5000000000), NULL, &e);
    if (r->status == TG_OK) {
        r->status = tg__handshake(e, r->text, 1);
        snprintf(r->error, sizeof r->error, "%s", tg_error());
        tg__engine_destroy(e);
    }
    tg_transport_destroy(r->t);
    return NULL;
}

/* One line more, one line less, a long text that differs only at its end. */
static void test_handshake(void **state)
{
    (void)state;
    static char long_a[200000], long_b[200000];
    memset(long_a, 'x', sizeof long_a - 1);
    memset(long_b, 'x', sizeof long_b - 1);
    long_b[150000] = 'y';
    const char *cases[][2] = {
        {"a=1\nb=2", "a=1\nb=3"}, {"a=1\nb=2", "a=1"}, {"a=1", "a=1\nb=2"}, {long_a, long_b}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        memset(ranks, 0, sizeof ranks);
        for (int i = 0; i < P; i++)
            ranks[i].text = cases[c][0];
        run(shake);
        for (int i = 0; i < P; i++)
            assert_int_equal(ranks[i].status, TG_OK);
        ranks[3].text = cases[c][1];
        run(shake);
        for (int i = 0; i < P; i++) {
            assert_int_equal(ranks[i].status, TG_E_MISMATCH);
            assert_non_null(strstr(ranks[i].error, "rank 3"));
        }
    }
}

/* Ranks with another version of the library, or of what the handshake says, get an error that says
 * so, and no line after it is compared. */
static void test_versions(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"telegrad=9.9.9", "telegrad=9.9.8"},
        {"wire=3, settings 2\nnodes=none\n", "wire=3\nnone of nodes=1\n"}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        memset(ranks, 0, sizeof ranks);
        for (int i = 0; i < P; i++)
            ranks[i].text = cases[c][i != 1];
        run(shake);
        for (int i = 0; i < P; i++) {
            assert_int_equal(ranks[i].status, TG_E_VERSION);
            assert_non_null(strstr(ranks[i].error, cases[c][0][0] == 't' ? "telegrad=9.9.9"
                                                                         : "wire=3, settings 2"));
        }
    }
}

static void test_arguments(void **state)
{
    (void)state;
    tg_transport *t[1];
    tg_reducer *r = NULL;
    tg_segment gap[] = {{.begin = 0, .n = 4, .rows = 2, .cols = 2},
                        {.begin = 5, .n = 5, .rows = 5, .cols = 1}};
    tg_reducer_config config = {.struct_size = sizeof config, .segments = gap, .nsegments = 2};
    assert_int_equal(tg_transport_inproc(1, t), TG_OK);
    assert_int_equal(tg_reducer_create("dense", t[0], 0, NULL, &r), TG_E_ARG);
    assert_int_equal(tg_reducer_create("dense", t[0], 10, &config, &r), TG_E_ARG);
    assert_int_equal(tg_reducer_create("nosuch", t[0], 10, NULL, &r), TG_E_SPEC);
    assert_null(r);
    tg_transport_destroy(t[0]);
}

/* A default in epochs becomes steps if the length of an epoch is not known; an explicit duration in
 * epochs is an error. */
static void test_durations(void **state)
{
    (void)state;
    static const struct {
        const char *method;
        uint64_t total_steps;
        uint64_t dense_steps; /* of csc: steps of its warm-up */
    } cases[] = {{"csc", 0, TG_DEFAULT_EPOCH_STEPS}, {"csc", 20, 4}, {"csc:warmup=3", 20, 3}};
    tg_transport *t;
    tg_reducer *r;
    float g[256], mean[256];
    for (size_t i = 0; i < 256; i++)
        g[i] = (float)i;
    assert_int_equal(tg_transport_inproc(1, &t), TG_OK);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const tg_reducer_config config = {.struct_size = sizeof config,
                                          .total_steps = cases[i].total_steps};
        assert_int_equal(tg_reducer_create(cases[i].method, t, 256, i ? &config : NULL, &r), TG_OK);
        for (uint64_t step = 0; step <= cases[i].dense_steps; step++) {
            assert_int_equal(tg_reducer_mean(r, g, mean), TG_OK);
            size_t sent = 0;
            for (size_t e = 0; e < 256; e++)
                sent += mean[e] != 0;
            assert_int_equal(sent > 200, step < cases[i].dense_steps);
        }
        tg_reducer_destroy(r);
    }
    assert_int_equal(tg_reducer_create("dgc", t, 256, NULL, &r), TG_OK);
    tg_reducer_destroy(r);
    assert_int_equal(tg_reducer_create("dgc:warmup=4ep", t, 256, NULL, &r), TG_E_SPEC);
    assert_non_null(strstr(tg_error(), "warmup=4ep"));
    tg_transport_destroy(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mean),      cmocka_unit_test(test_nonfinite),
        cmocka_unit_test(test_different), cmocka_unit_test(test_handshake),
        cmocka_unit_test(test_versions),  cmocka_unit_test(test_arguments),
        cmocka_unit_test(test_durations), cmocka_unit_test(test_dense),
        cmocka_unit_test(test_auto),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
