/* Two levels over in-process ranks. P ranks on N nodes equal, bit for bit, N ranks that each have
 * their node's mean gradient: for every method, strategy and kind of overlap, with skipped steps,
 * and after a resume. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "session_fixture.h"
#include "tsan_skips.h"
#include <unistd.h>

static fixture_result result[8], wanted[8];

typedef struct layout {
    int world, nodes, of[5];
} layout;

static const layout layouts[] = {
    {4, 2, {0, 0, 1, 1}}, {4, 2, {7, 7, 7, 3}}, {5, 3, {0, 1, 0, 2, 1}}, {4, 1, {2, 2, 2, 2}}};

static const char *const methods[] = {"dense",
                                      "dense:exchange=ring",
                                      "fp16",
                                      "2bit:threshold=auto",
                                      "int8:feedback=residual,exchange=ring",
                                      "qsgd:bits=3,exchange=direct",
                                      "terngrad",
                                      "1bit:twoway=yes,rescale=yes",
                                      "efsign",
                                      "topk:density=0.05",
                                      "topk:density=0.05,exchange=reducescatter",
                                      "dgc:density=0.02,warmup=6,exchange=gtopk",
                                      "dgc:density=0.02,warmup=0,clip=0.5,nesterov=yes",
                                      "randomk:density=0.1,warmup=6",
                                      "cltk:density=0.1,warmup=6",
                                      "cltk:density=0.1,beta=0.1",
                                      "powersgd:rank=2",
                                      "fetchsgd:ratio=2,density=0.05"};
static const char *const strategies[] = {"ssgd", "od:warmup=3", "cd:k=3,warmup=2"};

static fixture_job job_of(const layout *l, const char *method, const char *strategy)
{
    fixture_job job = fixture_defaults();
    job.method = method;
    job.strategy = strategy;
    job.world = l->world;
    job.nodes = l->of;
    /* the other strategies' ranks compute at parameters of their own, so gradients must not depend
     * on them */
    job.dyadic = strcmp(strategy, "ssgd") != 0;
    return job;
}

/* The same job with one rank per node, numbered by the lowest rank. */
static fixture_job merged(const fixture_job *job, const layout *l, int merge[5])
{
    fixture_job one = *job;
    int known = 0;
    for (int r = 0; r < l->world; r++) {
        int q = 0;
        while (l->of[q] != l->of[r])
            q++;
        merge[r] = q < r ? merge[q] : known++;
    }
    one.nodes = NULL;
    one.world = l->nodes;
    one.merge = merge;
    one.merged = l->world;
    return one;
}

static void run(const fixture_job *job, fixture_result *to)
{
    fixture_run(job, to);
    for (int r = 0; r < job->world; r++) {
        if (to[r].status != TG_OK)
            fail_msg("%s, %s, rank %d: %s", job->method, job->strategy, r, to[r].error);
        if (to[r].hash != to[0].hash)
            fail_msg("%s, %s: rank %d has other parameters than rank 0", job->method, job->strategy,
                     r);
    }
}

static void run_both(const fixture_job *job, const layout *l)
{
    int merge[5];
    const fixture_job one = merged(job, l, merge);
    run(&one, wanted);
    run(job, result);
    for (size_t i = 0; i < FIXTURE_N; i++)
        if (memcmp(&result[0].w[i], &wanted[0].w[i], sizeof(float)) != 0)
            fail_msg("%s, %s, %d ranks on %d nodes: parameter %zu is %.9g, not %.9g", job->method,
                     job->strategy, l->world, l->nodes, i, (double)result[0].w[i],
                     (double)wanted[0].w[i]);
    assert_true(result[0].skipped == wanted[0].skipped);
    assert_true(result[l->world - 1].skipped == wanted[0].skipped);
    for (uint64_t t = 0; t < job->steps; t++)
        if (result[0].info[t].residual_norm != wanted[0].info[t].residual_norm)
            fail_msg("%s, %s, overlap %d: after step %d the residual is %.9g, not %.9g",
                     job->method, job->strategy, (int)job->overlap, (int)t,
                     result[0].info[t].residual_norm, wanted[0].info[t].residual_norm);
}

static void test_nodes_are_ranks(void **state)
{
    (void)state;
    const size_t strategy_count = sizeof strategies / sizeof *strategies;
    for (size_t m = 0; m < sizeof methods / sizeof *methods; m++)
        for (size_t s = 0; s < strategy_count; s++) {
            if (tsan_skips(m, s, strategy_count))
                continue;
            const bool one_lane =
                strstr(methods[m], "powersgd") != NULL || strstr(methods[m], "twoway") != NULL;
            const layout *l = &layouts[(m + s) % (sizeof layouts / sizeof *layouts)];
            fixture_job job = job_of(l, methods[m], strategies[one_lane ? 0 : s]);
            job.driver = s == 1 ? TG_DRIVER_INLINE : TG_DRIVER_AUTO;
            run_both(&job, l);
            job.bucket_bytes = 1400;
            job.overlap = s == 0 ? TG_OVERLAP_FULL : TG_OVERLAP_NONE;
            run_both(&job, l);
        }
}

/* A gradient that is not finite on a leader, on another rank, or in a node of one rank. */
static void test_skipped_steps(void **state)
{
    (void)state;
    static const char *const some[] = {"dense",
                                       "topk:density=0.05",
                                       "dgc:density=0.1,warmup=0",
                                       "randomk:density=0.1",
                                       "efsign",
                                       "topk:density=0.1,exchange=reducescatter"};
    for (size_t m = 0; m < sizeof some / sizeof *some; m++)
        for (int rank = 0; rank < 4; rank++) {
            const layout *l = &layouts[rank % 2];
            fixture_job job = job_of(l, some[m], strategies[m % 3]);
            job.nan_rank = rank;
            job.nan_step = 5;
            job.bucket_bytes = rank < 2 ? 0 : 1400;
            /* buckets sent before the value was seen are not flagged; which these are depends on
             * the order in which a rank's gradients become ready */
            job.overlap = rank < 2 ? TG_OVERLAP_FULL : TG_OVERLAP_NONE;
            run_both(&job, l);
            assert_true(result[0].skipped > 0);
        }
}

static void refused(const fixture_job *job, tg_status status, const char *word)
{
    fixture_run(job, result);
    for (int r = 0; r < job->world; r++) {
        assert_int_equal(result[r].status, status);
        if (strstr(result[r].error, word) == NULL)
            fail_msg("rank %d says \"%s\", without \"%s\"", r, result[r].error, word);
    }
}

/* Finite gradients whose sum over node 1 is not finite. If there is only one bucket, a NaN on that
 * node has the same effect. In the first layers' bucket it drops the whole step. */
static void test_sum_overflows(void **state)
{
    (void)state;
    static const char *const some[] = {"dense", "topk:density=0.05", "1bit:twoway=yes,rescale=yes",
                                       "randomk:density=0.1", "powersgd:rank=2"};
    const layout *l = &layouts[0];
    for (size_t m = 0; m < sizeof some / sizeof *some; m++) {
        fixture_job job = job_of(l, some[m], "ssgd");
        job.nan_rank = 2;
        job.nan_step = 5;
        run(&job, wanted);
        job.nan_rank = -1;
        job.huge_ranks = 12;
        job.huge_step = 5;
        run(&job, result);
        assert_true(result[0].hash == wanted[0].hash);
        assert_true(result[0].skipped == 1 && result[3].skipped == 1);
        job.bucket_bytes = 1400;
        job.overlap = TG_OVERLAP_FULL;
        run(&job, result);
        assert_true(result[0].skipped == 1 && result[3].skipped == 1);
        assert_memory_equal(result[0].trail[5], result[0].trail[4], FIXTURE_N * sizeof(float));
    }
    for (size_t s = 1; s < sizeof strategies / sizeof *strategies; s++) {
        fixture_job job = job_of(l, "topk:density=0.05", strategies[s]);
        job.huge_ranks = 3;
        job.huge_step = 5;
        job.bucket_bytes = 1400;
        fixture_run(&job, result);
        for (int r = 0; r < job.world; r++) {
            assert_int_equal(result[r].status, TG_OK);
            assert_true(result[r].skipped == result[0].skipped && result[r].skipped > 0);
        }
    }
}

/* In another bucket it drops that bucket, with every kind of overlap; or all ranks fail. */
static void test_bucket_overflows(void **state)
{
    (void)state;
    fixture_job job = job_of(&layouts[0], "topk:density=0.05", "ssgd");
    job.bucket_bytes = 1400;
    job.huge_ranks = 12;
    job.huge_step = 5;
    job.huge_at = FIXTURE_N - 1;
    run(&job, wanted);
    assert_true(wanted[0].skipped == 1 && wanted[0].info[5].skipped);
    assert_memory_not_equal(wanted[0].trail[5], wanted[0].trail[4], 500 * sizeof(float));
    assert_memory_equal(wanted[0].trail[5] + 520, wanted[0].trail[4] + 520, 340 * sizeof(float));
    for (int o = TG_OVERLAP_FULL; o <= TG_OVERLAP_NONE; o++)
        for (int driver = TG_DRIVER_THREAD; driver <= TG_DRIVER_INLINE; driver++) {
            job.overlap = (tg_overlap)o;
            job.driver = (tg_driver)driver;
            run(&job, result);
            assert_true(result[0].hash == wanted[0].hash);
            for (int r = 0; r < job.world; r++)
                assert_true(result[r].skipped == 1);
        }
    job.on_nonfinite = TG_NONFINITE_FAIL;
    for (int o = TG_OVERLAP_BACKWARD; o <= TG_OVERLAP_NONE; o++) {
        job.overlap = (tg_overlap)o;
        refused(&job, TG_E_NONFINITE, "step 5: ");
        assert_non_null(strstr(result[0].error, "another rank's gradient, or a sum of it, is not"));
        assert_non_null(strstr(result[2].error, "the sum over the ranks of this rank's node is"));
    }
}

/* One node per rank equals the method without nodes. So does a single node, or sums that are exact:
 * dense is the mean over ranks in rank order. */
static void test_limits(void **state)
{
    (void)state;
    static const int apart[] = {3, 9, 0, 4};
    fixture_job job = fixture_defaults(), plain;
    job.method = "topk:density=0.05";
    job.world = 4;
    plain = job;
    job.nodes = apart;
    run(&plain, wanted);
    run(&job, result);
    assert_true(result[0].hash == wanted[0].hash);
    assert_true(result[0].bytes == wanted[0].bytes);
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
        const layout *l = &layouts[i];
        job = job_of(l, "dense", "ssgd");
        job.dyadic = true;
        job.optimizer = "sgd:lr=0.25,momentum=0.5,weight_decay=0.01";
        if (l->nodes == 1)
            job.dyadic = false;
        if (l->world == 5)
            continue; /* 1/3 and 1/5 are not exact */
        plain = job;
        plain.nodes = NULL;
        run(&plain, wanted);
        run(&job, result);
        assert_true(result[0].hash == wanted[0].hash);
    }
}

/* Bits do not depend on the driver, and traffic within a node is counted separately. */
static void test_drivers_and_bytes(void **state)
{
    (void)state;
    fixture_job job = job_of(&layouts[0], "dgc:density=0.02,warmup=6", "od:warmup=3");
    job.optimizer = "sgd:lr=0.25,weight_decay=0.01";
    job.driver = TG_DRIVER_INLINE;
    run(&job, wanted);
    job.driver = TG_DRIVER_THREAD;
    run(&job, result);
    assert_true(result[0].hash == wanted[0].hash);
    for (int r = 0; r < 4; r++)
        for (uint64_t t = 4; t < job.steps; t++) {
            const tg_step_info *info = &result[r].info[t];
            assert_true(info->bytes_near <= info->bytes_sent);
            assert_true(info->bytes_dense == 4 * FIXTURE_N); /* 8 n (N - 1) / N of 2 nodes */
            if (r % 2 == 1) /* all that these ranks send stays in the node */
                assert_true(info->bytes_near == info->bytes_sent);
        }
    uint64_t far = 0; /* of all steps: the thread decides in which step bytes are sent */
    for (uint64_t t = 4; t < job.steps; t++)
        far += result[0].info[t].bytes_sent - result[0].info[t].bytes_near;
    assert_true(far > 0);
}

static void test_resume(void **state)
{
    (void)state;
    for (size_t s = 0; s < sizeof strategies / sizeof *strategies; s++) {
        char dir[] = "/tmp/telegrad-nodes-XXXXXX", command[64];
        assert_non_null(mkdtemp(dir));
        fixture_job job = job_of(&layouts[1], "topk:density=0.05", strategies[s]);
        run(&job, wanted);
        job.save_dir = dir;
        job.save_at = 7;
        run(&job, result);
        assert_true(result[0].hash == wanted[0].hash);
        job.save_dir = NULL;
        job.load_dir = dir;
        run(&job, result);
        assert_true(result[0].hash == wanted[0].hash);
        job.nodes = layouts[0].of; /* another job */
        fixture_run(&job, result);
        for (int r = 0; r < job.world; r++) {
            assert_int_equal(result[r].status, TG_E_MISMATCH);
            assert_non_null(strstr(result[r].error, "nodes="));
        }
        snprintf(command, sizeof command, "rm -r %s", dir);
        assert_int_equal(system(command), 0);
    }
}

/* A rank that is not a leader asks to stop: all stop after the same step. */
static void test_stop(void **state)
{
    (void)state;
    fixture_job job = job_of(&layouts[0], "topk:density=0.05", "ssgd");
    job.stop_at = 4;
    job.overlap = TG_OVERLAP_FULL;
    run(&job, result);
    for (int r = 0; r < job.world; r++)
        assert_true(result[r].stopped_after == result[0].stopped_after &&
                    result[r].stopped_after > 0);
}

static void test_refused(void **state)
{
    (void)state;
    static const int below[] = {0, 0, -1, 0};
    fixture_job job = job_of(&layouts[1], "signsgd", "ssgd");
    refused(&job, TG_E_SPEC, "one vote");
    job.method = "topk:exchange=none";
    refused(&job, TG_E_SPEC, "exchange=none");
    job.method = "dense";
    job.nodes = below;
    refused(&job, TG_E_ARG, "tg_session_create: config->nodes[2]=-1");
    job.nodes = layouts[0].of;
    job.odd_rank = 3;
    job.odd_nodes = layouts[1].of;
    refused(&job, TG_E_MISMATCH, "nodes=ranks 0-1 on node 0");
    job = job_of(&layouts[0], "signsgd", "ssgd"); /* one vote per node is fair here */
    run(&job, result);
    job.method = "1bit:twoway=yes,exchange=allgather"; /* only leaders need this method */
    refused(&job, TG_E_SPEC, "twoway=yes with exchange=allgather");
}

typedef struct many {
    tg_transport *t;
    const int *nodes;
    size_t count; /* tensors of one element, one bucket each */
    tg_status status;
    char error[300];
} many;

static tg_status train_many(const many *m, tg_session *s, float *w, float *g)
{
    static const size_t one = 1;
    uint32_t id;
    for (size_t i = 0; i < m->count; i++) {
        char name[32];
        snprintf(name, sizeof name, "%zu", i);
        const tg_tensor t = {.struct_size = sizeof t,
                             .name = name,
                             .shape = &one,
                             .ndim = 1,
                             .param = tg_array_f32(w + i, 1),
                             .grad = tg_array_f32(g + i, 1)};
        TG_TRY(tg_session_add(s, &t, &id));
    }
    TG_TRY(tg_session_begin(s));
    for (size_t i = m->count; i-- > 0;)
        TG_TRY(tg_session_grad_ready(s, (uint32_t)i));
    return tg_session_step(s, NULL);
}

static void *run_many(void *arg)
{
    many *m = arg;
    tg_session *s = NULL;
    const tg_session_config config = {.struct_size = sizeof config,
                                      .bucket_bytes = 4,
                                      .nodes = m->nodes,
                                      .overlap = TG_OVERLAP_NONE};
    float *w = calloc(m->count, sizeof *w), *g = calloc(m->count, sizeof *g);
    m->status = tg_session_create(&config, m->t, &s);
    if (m->status == TG_OK)
        m->status = train_many(m, s, w, g);
    if (m->status != TG_OK)
        snprintf(m->error, sizeof m->error, "%s", tg_error());
    tg_session_destroy(s);
    tg_transport_destroy(m->t);
    free(w);
    free(g);
    return NULL;
}

/* More exchanges at once than there are tags: the last ones wait for the first. */
static void many_buckets(int size, const int *nodes, size_t count)
{
    tg_transport *t[2];
    pthread_t thread[2];
    many ranks[2];
    assert_int_equal(tg_transport_inproc(size, t), TG_OK);
    for (int r = 0; r < size; r++)
        ranks[r] = (many){.t = t[r], .nodes = nodes, .count = count};
    for (int r = 0; r < size; r++)
        assert_int_equal(pthread_create(&thread[r], NULL, run_many, &ranks[r]), 0);
    for (int r = 0; r < size; r++)
        pthread_join(thread[r], NULL);
    for (int r = 0; r < size; r++)
        if (ranks[r].status != TG_OK)
            fail_msg("%zu buckets, rank %d: %s", count, r, ranks[r].error);
}

static void test_many_buckets(void **state)
{
    (void)state;
    static const int together[] = {0, 0};
    many_buckets(2, together, 1500); /* three rounds each */
    many_buckets(1, NULL, 5000);
}

/* If any rank falls silent, all others end, and none has applied anything wrong. */
static void test_silence(void **state)
{
    (void)state;
    for (int silent = 0; silent < 4; silent++) {
        fixture_job job = job_of(&layouts[0], "topk:density=0.05", "ssgd");
        job.odd_rank = silent;
        job.fault = "fault:stall=30";
        job.timeout_ms = 150;
        job.steps = 1000;
        fixture_run(&job, result);
        for (int r = 0; r < job.world; r++) {
            assert_int_not_equal(result[r].status, TG_OK);
            assert_non_null(strstr(result[r].error, "rank "));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nodes_are_ranks), cmocka_unit_test(test_skipped_steps),
        cmocka_unit_test(test_limits),          cmocka_unit_test(test_drivers_and_bytes),
        cmocka_unit_test(test_resume),          cmocka_unit_test(test_stop),
        cmocka_unit_test(test_refused),         cmocka_unit_test(test_silence),
        cmocka_unit_test(test_sum_overflows),   cmocka_unit_test(test_bucket_overflows),
        cmocka_unit_test(test_many_buckets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
