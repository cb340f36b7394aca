/* The session over in-process ranks: same bits everywhere, limiting cases, resuming, steps that are
 * dropped, stopping. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "session_fixture.h"
#include "session_alike.h"
#include "tsan_skips.h"
#include <unistd.h>

static const char *const methods[] = {"dense",
                                      "dense:exchange=ring",
                                      "dense:exchange=halving",
                                      "dense:exchange=allgather",
                                      "fp16",
                                      "fp16:exchange=ring",
                                      "int8:feedback=residual,exchange=ring",
                                      "bf16:feedback=residual",
                                      "2bit:threshold=0.25",
                                      "2bit:threshold=auto",
                                      "strom:threshold=auto,target=0.05,exchange=direct",
                                      "adacomp:bin=20",
                                      "int8:feedback=residual",
                                      "qsgd:bits=3,exchange=direct",
                                      "qsgd:norm=l2,coding=elias,feedback=residual",
                                      "terngrad",
                                      "terngrad:scaler=local,clip=0,exchange=direct",
                                      "1bit",
                                      "1bit:twoway=yes,rescale=yes",
                                      "signsgd",
                                      "signum:exchange=direct",
                                      "efsign",
                                      "efsign:scale=tensor,exchange=direct",
                                      "topk:density=0.05",
                                      "topk:density=0.05,values=f32,exchange=direct",
                                      "topk:density=0.05,values=2bit,index=ef,scope=tensor",
                                      "topk:density=0.05,exchange=reducescatter",
                                      "topk:density=0.05,select=trimmed",
                                      "topk:density=0.05,select=trimmed,exchange=gtopk",
                                      "int8:feedback=residual,exchange=reducescatter",
                                      "qsgd:bits=3,exchange=reducescatter",
                                      "dgc:density=0.02,warmup=6,exchange=reducescatter",
                                      "dgc:density=0.02,warmup=6,exchange=gtopk",
                                      "randomk:density=0.1,warmup=6",
                                      "cltk:density=0.1,warmup=6",
                                      "cltk:density=0.1,values=fp16,exchange=ring",
                                      "cltk:density=0.1,beta=0.1",
                                      "randomk:density=0.1,feedback=none,exchange=ring",
                                      "atomo:rank=2",
                                      "powersgd:rank=2",
                                      "powersgd:rank=1,warm=no,start=2,exchange=ring",
                                      "csc:chunk=64,density=0.2,warmup=3",
                                      "csc:chunk=25,density=0.1,warmup=0,exchange=ring",
                                      "fetchsgd:ratio=2,density=0.1",
                                      "fetchsgd:rows=3,ratio=3,extract=subtract,exchange=ring",
                                      "blocktopk:keep=5",
                                      "blocktopk:keep=9,values=f32,clip=no,decay=1",
                                      "dct:keep=4",
                                      "dct:keep=7,values=fp16,rescale=no",
                                      "dgc:density=0.02,warmup=6",
                                      "dgc:density=0.02,warmup=0,clip=0.5,nesterov=yes"};
static const char *const strategies[] = {"ssgd", "od:warmup=3", "cd:k=3,warmup=2",
                                         "cd:k=0,warmup=0,local=preview"};

/* Every method and strategy: all ranks hold the same bits, with a thread and inline, in one bucket
 * and in several, with gradients side by side or copied. */
static void test_same_bits(void **state)
{
    (void)state;
    for (size_t m = 0; m < sizeof methods / sizeof *methods; m++)
        for (size_t s = 0; s < sizeof strategies / sizeof *strategies; s++) {
            if (tsan_skips(m, s, sizeof strategies / sizeof *strategies))
                continue;
            fixture_job job = fixture_defaults();
            job.method = methods[m];
            job.strategy = strategies[s];
            job.world = 3;
            if (strncmp(job.method, "dgc", 3) != 0)
                job.optimizer = "sgd:lr=0.25,momentum=0.5,weight_decay=0.01";
            run(&job);
            uint64_t hash = result[0].hash;
            job.driver = TG_DRIVER_INLINE;
            run(&job);
            assert_true(result[0].hash == hash);
            job.driver = TG_DRIVER_THREAD;
            job.adjacent = true;
            run(&job);
            assert_true(result[0].hash == hash);
            job.bucket_bytes =
                1400; /* three buckets: top-k selects differently, so only the ranks must agree */
            run(&job);
        }
}

/* w after `steps` of plain momentum SGD on the mean gradient, summed in rank order. */
static void sequential(const fixture_job *job, float eta, float m, float w[FIXTURE_N])
{
    static float g[FIXTURE_N], sum[FIXTURE_N], u[FIXTURE_N];
    memset(u, 0, sizeof u);
    fixture_initial(w);
    for (uint64_t t = 0; t < job->steps; t++) {
        memset(sum, 0, sizeof sum);
        for (int r = 0; r < job->world; r++) {
            fixture_gradient(job, r, t, w, g);
            for (size_t i = 0; i < FIXTURE_N; i++)
                sum[i] += g[i];
        }
        for (size_t i = 0; i < FIXTURE_N; i++) {
            float mean = sum[i] * (1.0f / (float)job->world);
            volatile float product = m * u[i]; /* no fused multiply-add */
            u[i] = product + mean;
            product = eta * (m == 0 ? mean : u[i]);
            w[i] = w[i] - product;
        }
    }
}

/* Limiting cases that equal a known algorithm, bit for bit. */
static void test_limits(void **state)
{
    (void)state;
    static float w[FIXTURE_N];
    static const struct {
        const char *method, *strategy, *optimizer;
        int world;
        float m;
        bool dyadic;
    } cases[] = {
        {"dense", "ssgd", "sgd:lr=0.25", 4, 0, false},
        {"dense", "ssgd", "sgd:lr=0.25,momentum=0.5", 3, 0.5f, false},
        {"dense:exchange=allgather", "ssgd", "sgd:lr=0.25,momentum=0.5", 3, 0.5f, false},
        /* top-k with k = n is synchronous SGD */
        {"topk:density=1,values=f32", "ssgd", "sgd:lr=0.25,momentum=0.5", 4, 0.5f, false},
        {"topk:density=1,values=f32,select=trimmed", "ssgd", "sgd:lr=0.25,momentum=0.5", 3, 0.5f,
         false},
        {"randomk:density=1", "ssgd", "sgd:lr=0.25,momentum=0.5", 3, 0.5f, false},
        {"cltk:density=1", "ssgd", "sgd:lr=0.25,momentum=0.5", 3, 0.5f, false},
        {"topk:density=1,values=f32,exchange=reducescatter", "ssgd", "sgd:lr=0.25,momentum=0.5", 3,
         0.5f, false},
        {"topk:density=1,values=f32,exchange=gtopk", "ssgd", "sgd:lr=0.25,momentum=0.5", 4, 0.5f,
         true},
        {"atomo:rank=100", "ssgd", "sgd:lr=0.25,momentum=0.5", 3, 0.5f, false},
        {"blocktopk:keep=4096,values=f32,decay=1,clip=no", "ssgd", "sgd:lr=0.25,momentum=0.5", 3,
         0.5f, false},
        {"dct:keep=4096,decay=1", "ssgd", "sgd:lr=0.25,momentum=0.5", 3, 0.5f, false},
        {"powersgd:rank=100", "ssgd", "sgd:lr=0.25,momentum=0.5", 3, 0.5f, false},
        /* DGC at density 1: with masking plain SGD, without it momentum SGD (P = 1, or dyadic) */
        {"dgc:density=1,warmup=0,values=f32,momentum=0.5", "ssgd", "sgd:lr=0.25", 4, 0, false},
        {"dgc:density=1,warmup=0,values=f32,masking=no", "ssgd", "sgd:lr=0.25,momentum=0.5", 1,
         0.5f, false},
        {"dgc:density=1,warmup=0,values=f32,masking=no", "ssgd", "sgd:lr=0.25,momentum=0.5", 4,
         0.5f, true},
        /* the same for CSC with all chunks; an endless warm-up is momentum SGD */
        {"csc:density=1,chunk=32,warmup=0,momentum=0.5", "ssgd", "sgd:lr=0.25", 3, 0, false},
        {"csc:density=0.01,chunk=32768,warmup=0,momentum=0.5", "ssgd", "sgd:lr=0.25", 4, 0, false},
        {"csc:density=1,chunk=32,warmup=0,masking=no", "ssgd", "sgd:lr=0.25,momentum=0.5", 1, 0.5f,
         false},
        {"csc:density=1,chunk=32,warmup=0,masking=no", "ssgd", "sgd:lr=0.25,momentum=0.5", 4, 0.5f,
         true},
        {"csc:chunk=32,warmup=1000", "ssgd", "sgd:lr=0.25,momentum=0.5", 1, 0.5f, false},
        {"csc:chunk=32,warmup=1000", "ssgd", "sgd:lr=0.25,momentum=0.5", 2, 0.5f, true},
        /* FetchSGD without collisions, likewise; all of its memory is that of the mean */
        {"fetchsgd:ratio=1,density=1,momentum=0.5", "ssgd", "sgd:lr=0.25", 3, 0, false},
        {"fetchsgd:ratio=1,density=1,masking=no", "ssgd", "sgd:lr=0.25,momentum=0.5", 3, 0.5f,
         false},
        {"fetchsgd:ratio=1,density=1,masking=no,extract=subtract", "ssgd",
         "sgd:lr=0.25,momentum=0.5", 4, 0.5f, false},
        /* CD-SGD: with k = 1, one rank, eta_loc = eta; OD-SGD is the same */
        {"2bit", "cd:k=1,warmup=0", "sgd:lr=0.25", 1, 0, false},
        {"2bit", "cd:k=1,warmup=0,local=preview", "sgd:lr=0.25,momentum=0.5", 1, 0.5f, false},
        {"dense", "od:warmup=3", "sgd:lr=0.25", 1, 0, false},
        {"dense", "cd:k=2,warmup=3,average=updates", "sgd:lr=0.25,momentum=0.5", 1, 0.5f, false},
        /* an endless warm-up is synchronous SGD */
        {"2bit", "cd:warmup=1000,average=gradients", "sgd:lr=0.25,momentum=0.5", 4, 0.5f, false},
        {"2bit", "od:warmup=1000", "sgd:lr=0.25", 2, 0, false},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        fixture_job job = fixture_defaults();
        job.method = cases[c].method;
        job.strategy = cases[c].strategy;
        job.optimizer = cases[c].optimizer;
        job.world = cases[c].world;
        job.dyadic = cases[c].dyadic;
        run(&job);
        sequential(&job, 0.25f, cases[c].m, w);
        if (memcmp(w, result[0].w, sizeof w) != 0)
            fail_msg("case %zu: %s, %s, P = %d is not the sequential algorithm", c, job.method,
                     job.strategy, job.world);
    }
}

/* eta_loc = 0 is SGD delayed by one step: the gradient of step t is computed at W_t, which does not
 * yet include step t-1's. */
static void test_delay(void **state)
{
    (void)state;
    static float w[FIXTURE_N], g[2][FIXTURE_N];
    fixture_job job = fixture_defaults();
    job.strategy = "od:warmup=0,eta_loc=0";
    run(&job);
    fixture_initial(w);
    for (uint64_t t = 0; t < job.steps; t++) {
        if (t > 0) /* the forward pass of step t used W without step t-1 */
            assert_memory_equal(result[0].trail[t - 1], w, sizeof w);
        fixture_gradient(&job, 0, t, w, g[t % 2]);
        for (size_t i = 0; t > 0 && i < FIXTURE_N; i++)
            w[i] -= 0.25f * g[(t - 1) % 2][i];
    }
    for (size_t i = 0; i < FIXTURE_N; i++)
        w[i] -= 0.25f * g[(job.steps - 1) % 2][i];
    assert_memory_equal(result[0].w, w, sizeof w);
}

/* A run that is saved in the middle continues unchanged, and a run resumed from there ends with the
 * same bits. */
static void test_resume(void **state)
{
    (void)state;
    char dir[] = "/tmp/telegrad-session-XXXXXX", command[64];
    assert_non_null(mkdtemp(dir));
    for (size_t m = 0; m < sizeof methods / sizeof *methods; m++)
        for (size_t s = 0; s < sizeof strategies / sizeof *strategies; s++) {
            if (tsan_skips(m + 1, s, sizeof strategies / sizeof *strategies))
                continue;
            fixture_job job = fixture_defaults();
            job.method = methods[m];
            job.strategy = strategies[s];
            job.world = 2;
            job.optimizer = "sgd:lr=0.25,momentum=0.5,weight_decay=0.01";
            job.bucket_bytes = 1400;
            job.nan_rank = 1; /* a dropped step may be in flight at the save */
            job.nan_step = 6;
            run(&job);
            uint64_t hash = result[0].hash;
            assert_int_equal(result[0].skipped, 1);
            job.save_dir = dir;
            job.save_at = 7;
            run(&job);
            assert_true(result[0].hash == hash);
            job.save_dir = NULL;
            job.load_dir = dir;
            run(&job);
            assert_true(result[0].hash == hash);
            assert_int_equal(result[0].steps, job.steps);
            assert_int_equal(result[0].skipped, 1);
            snprintf(command, sizeof command, "rm -r %s/*", dir);
            assert_int_equal(system(command), 0);
        }
    assert_int_equal(rmdir(dir), 0);
}

/* One rank's NaN: nobody applies the step, finite ranks keep what they sent in the residual, and
 * training goes on. */
static void test_nonfinite(void **state)
{
    (void)state;
    for (size_t m = 0; m < sizeof methods / sizeof *methods; m++) {
        fixture_job job = fixture_defaults();
        job.method = methods[m];
        job.world = 3;
        job.nan_rank = 1;
        job.nan_step = 4;
        run(&job);
        assert_int_equal(result[0].skipped, 1);
        for (int r = 0; r < 3; r++) {
            assert_true(result[r].info[4].skipped && !result[r].info[3].skipped);
            assert_memory_equal(result[r].trail[4], result[r].trail[3], sizeof result[r].trail[3]);
            for (size_t i = 0; i < FIXTURE_N; i++)
                assert_true(isfinite(result[r].w[i]));
        }
        job.on_nonfinite = TG_NONFINITE_FAIL;
        fixture_run(&job, result);
        for (int r = 0; r < 3; r++) {
            const char *why = r == 1 ? "step 4: rank 1: tensor \"conv.weight\": element 430 of "
                                       "the gradient is nan: allowed: finite numbers"
                                     : "step 4: another rank's gradient, or a sum of it, is not";
            assert_int_equal(result[r].status, TG_E_NONFINITE);
            if (strstr(result[r].error, why) == NULL)
                fail_msg("%s, rank %d: \"%s\"", methods[m], r, result[r].error);
        }
    }
}

/* A step with rate 0 moves no parameters, so it takes nothing from a residual that is kept in units
 * of the rate: what it sent would be lost. */
static void test_rate_of_0(void **state)
{
    (void)state;
    static const char *const specs[] = {"efsign", "topk:density=0.1,rescale=yes",
                                        "topk:density=0.1,rescale=yes,exchange=reducescatter",
                                        "1bit:twoway=yes,rescale=yes"};
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
        fixture_job job = fixture_defaults();
        job.method = specs[i];
        job.world = 2;
        job.rest_at = 5;
        run(&job);
        const tg_step_info *info = result[1].info;
        assert_memory_equal(result[1].trail[5], result[1].trail[4], sizeof result[1].trail[4]);
        assert_true(info[4].residual_norm > 0);
        assert_true(info[5].residual_norm == info[4].residual_norm);
        assert_true(info[5].kept == 0 && info[6].kept > 0);
        assert_true(info[6].residual_norm != info[4].residual_norm);
    }
}

/* A dropped step returns exactly what the rank encoded, however the exchange used its buffers: all
 * exchanges continue the same (dyadic data and 4 ranks, so that the order of sums does not
 * matter). */
static void test_nonfinite_by_exchange(void **state)
{
    (void)state;
    static const char *const specs[] = {"randomk:density=0.1,exchange=direct",
                                        "randomk:density=0.1,exchange=allgather",
                                        "randomk:density=0.1,exchange=ring"};
    static float w[FIXTURE_N];
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
        fixture_job job = fixture_defaults();
        job.method = specs[i];
        job.world = 4;
        job.dyadic = true;
        job.steps = 30;
        job.nan_rank = 1;
        job.nan_step = 4;
        run(&job);
        assert_int_equal(result[0].skipped, 1);
        if (i == 0)
            memcpy(w, result[0].w, sizeof w);
        assert_memory_equal(w, result[0].w, sizeof w);
    }
}

/* A rank with a NaN takes no local step; the flagged exchange is dropped one step later on all
 * ranks. */
static void test_nonfinite_delayed(void **state)
{
    (void)state;
    fixture_job job = fixture_defaults();
    job.method = "2bit:threshold=0.25";
    job.strategy = "cd:k=3,warmup=0";
    job.world = 2;
    job.nan_rank = 1;
    job.nan_step = 4;
    run(&job);
    assert_true(result[0].info[5].skipped && result[1].info[5].skipped);
    assert_false(result[0].info[4].skipped);
    for (size_t i = 0; i < FIXTURE_N; i++)
        assert_true(isfinite(result[1].trail[4][i]));
}

static void test_stop(void **state)
{
    (void)state;
    for (size_t s = 0; s < sizeof strategies / sizeof *strategies; s++)
        for (int world = 1; world <= 3; world += 2) {
            fixture_job job = fixture_defaults();
            job.strategy = strategies[s];
            job.world = world;
            job.stop_at = 5;
            run(&job);
            for (int r = 0; r < world; r++) {
                assert_in_range(result[r].stopped_after, 6, 7);
                assert_int_equal(result[r].stopped_after, result[0].stopped_after);
            }
        }
}

/* A run resumed after a stop continues to the end: the request to stop is not saved, although an
 * exchange that carried it was in flight. */
static void test_stop_and_resume(void **state)
{
    (void)state;
    char dir[] = "/tmp/telegrad-session-XXXXXX", command[64];
    assert_non_null(mkdtemp(dir));
    fixture_job job = fixture_defaults();
    job.strategy = "od:warmup=2";
    job.world = 2;
    run(&job);
    uint64_t hash = result[0].hash;
    job.stop_at = 5;
    job.save_dir = dir;
    job.save_at = 7;
    run(&job);
    assert_int_equal(result[0].stopped_after, 7);
    job.stop_at = 0;
    job.save_dir = NULL;
    job.load_dir = dir;
    run(&job);
    assert_int_equal(result[0].stopped_after, 0);
    assert_true(result[0].hash == hash);
    /* other buckets select other elements: refused by name */
    job.bucket_bytes = 1400;
    fixture_run(&job, result);
    assert_int_equal(result[0].status, TG_E_MISMATCH);
    assert_non_null(strstr(result[0].error, "bucket_bytes"));
    snprintf(command, sizeof command, "rm -r %s", dir);
    assert_int_equal(system(command), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_bits),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_delay),
        cmocka_unit_test(test_resume),
        cmocka_unit_test(test_nonfinite),
        cmocka_unit_test(test_rate_of_0),
        cmocka_unit_test(test_nonfinite_by_exchange),
        cmocka_unit_test(test_nonfinite_delayed),
        cmocka_unit_test(test_stop),
        cmocka_unit_test(test_stop_and_resume),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
