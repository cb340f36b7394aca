/* Buckets chosen by measurements: the rule on made-up times, and runs, whose results must not
 * change. */
#include "trainer_ranks.h"
#include "trainer/loop/run_fusion.h"
#include "trainer/loop/run_lags.h"

static void buckets_are(const fusion_tensor *t, size_t n, double alpha, bool forward, size_t count,
                        const uint32_t *want)
{
    uint32_t got[8];
    assert_int_equal(fusion_merge(t, n, alpha, forward, got), count);
    assert_memory_equal(got, want, count * sizeof *want);
}

static void merged(const fusion_tensor *t, size_t n, double alpha, size_t count,
                   const uint32_t *want)
{
    buckets_are(t, n, alpha, false, count, want);
}

static void test_rule(void **state)
{
    (void)state;
    /* gradients become ready a second apart, that of the last layer first */
    const fusion_tensor even[] = {{4, 0.1}, {3, 0.1}, {2, 0.1}, {1, 0.1}};
    merged(even, 4, 0, 4, (const uint32_t[]){1, 1, 1, 1});
    merged(even, 4, 0.5, 4, (const uint32_t[]){1, 1, 1, 1}); /* waiting takes longer than alpha */
    merged(even, 4, 1.5, 1, (const uint32_t[]){4});          /* waiting takes less, each time */
    merged(even, 1, 1, 1, (const uint32_t[]){1});
    /* The first exchange lasts until 7. What becomes ready before then is merged, even without
     * start-up time. */
    const fusion_tensor busy[] = {{7.5, 1}, {3, 1}, {2, 1}, {1, 6}};
    merged(busy, 4, 0, 3, (const uint32_t[]){1, 2, 1});
    merged(busy, 4, 0.04, 3, (const uint32_t[]){1, 2, 1});
    merged(busy, 4, 0.9, 2, (const uint32_t[]){3, 1});
    /* If layers are awaited one by one, a bucket is full when its bytes take alpha. */
    buckets_are(busy, 4, 0.9, true, 4, (const uint32_t[]){1, 1, 1, 1});
    buckets_are(busy, 4, 1.5, true, 3, (const uint32_t[]){1, 2, 1});
    buckets_are(busy, 4, 0, true, 4, (const uint32_t[]){1, 1, 1, 1});
    buckets_are(even, 4, 1.5, true, 1, (const uint32_t[]){4});
}

static void densities_are(const fusion_tensor *t, size_t n, const uint32_t *buckets, size_t count,
                          double alpha, double least, const double *want)
{
    double got[8];
    lags_densities(t, n, buckets, count, alpha, least, got);
    for (size_t i = 0; i < count; i++)
        if (fabs(got[i] - want[i]) > 1e-12)
            fail_msg("bucket %zu: %g, not %g", i, got[i], want[i]);
}

/* Two layers by hand: the second is ready at 1, the first at 3, so with a start-up of 0.5 there is
 * room for 1.5. */
static void test_densities(void **state)
{
    static const uint32_t each[] = {1, 1, 1};
    (void)state;
    /* at density 1 the second takes 3, so half of it fits; nothing hides the first */
    densities_are((const fusion_tensor[]){{3, 0.01}, {1, 0.03}}, 2, each, 2, 0.5, 0.01,
                  (const double[]){0.01, 0.5});
    /* a slower link: 30 and 300 */
    densities_are((const fusion_tensor[]){{3, 0.01}, {1, 0.3}}, 2, each, 2, 0.5, 0.01,
                  (const double[]){0.01, 0.05});
    densities_are((const fusion_tensor[]){{3, 0.01}, {1, 3}}, 2, each, 2, 0.5, 0.01,
                  (const double[]){0.01, 0.01});
    /* a link so slow that nothing is hidden, and a start-up that is longer than the pass */
    densities_are((const fusion_tensor[]){{3, 1e9}, {1, 1e9}}, 2, each, 2, 0.5, 0.01,
                  (const double[]){0.01, 0.01});
    densities_are((const fusion_tensor[]){{3, 1e-9}, {1, 1e-9}}, 2, each, 2, 5, 0.01,
                  (const double[]){0.01, 0.01});
    /* an infinitely fast one: all is sent */
    densities_are((const fusion_tensor[]){{3, 0}, {1, 0}}, 2, each, 2, 0, 0.01,
                  (const double[]){1, 1});
    /* the third is sent until 2, as it must be, so the second begins then and has 2 less 0.5; two
     * tensors of a bucket count together, and are ready with the later one */
    densities_are((const fusion_tensor[]){{4, 1}, {1.25, 0.02}, {1, 0.5}}, 3, each, 3, 0.5, 0.01,
                  (const double[]){0.01, 1.5 / 2, 0.01});
    densities_are((const fusion_tensor[]){{4, 1}, {2, 0.02}, {1, 0.01}}, 3,
                  (const uint32_t[]){1, 2}, 2, 0.5, 0.01, (const double[]){0.01, 0.5});
}

static void test_methods(void **state)
{
    static const struct {
        const char *method;
        double density;
        const char *want;
    } cases[] = {{"topk", 0.25, "topk:density=0.25"},
                 {"topk:density=0.01", 0.12345, "topk:density=0.123"},
                 {"dgc:warmup=0,density=0.001,clip=1", 1, "dgc:density=1,warmup=0,clip=1"}};
    train_job job = basic();
    double least = 0;
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *text;
        assert_int_equal(lags_method(cases[i].method, cases[i].density, &text), TG_OK);
        assert_string_equal(text, cases[i].want);
        free(text);
    }
    job.method = "topk:density=0.02";
    assert_int_equal(lags_least(&job, &least), TG_OK);
    assert_true(least == 0.02);
    job.method = "fetchsgd";
    assert_int_equal(lags_least(&job, &least), TG_E_SPEC);
    assert_non_null(strstr(tg_error(), "method \"fetchsgd\" has none"));
}

/* Ranks agree on the densities that rank 0 chose. Runs that resume have those of the checkpoint:
 * they measure nothing, so two of them have the same bits. */
static void test_lags(void **state)
{
    (void)state;
    char dir[] = "/tmp/telegrad-lags-XXXXXX";
    witness w = {0};
    rank_run run[RANKS_MAX];
    train_job job = basic();
    job.method = "topk:density=0.05";
    job.bucket_auto = job.bucket_lags = true;
    job.evaluate = false;
    assert_non_null(mkdtemp(dir));
    job.save_dir = dir;
    job.save_every = 4;
    job.steps = 8;
    run_both(&job, &w, run);
    assert_fine(run, 2);
    assert_true(run[0].end.params_hash == run[1].end.params_hash);
    job.save_every = 0;
    job.resume_dir = dir;
    job.steps = 12;
    run_both(&job, &w, run);
    assert_fine(run, 2);
    const uint64_t hash = run[0].end.params_hash;
    run_both(&job, &w, run);
    assert_fine(run, 2);
    assert_true(run[0].end.params_hash == hash);
    job.resume_dir = NULL;
    job.save_dir = NULL;
    job.method = "int8";
    run_both(&job, &w, run);
    assert_int_equal(run[0].status, TG_E_SPEC);
    assert_non_null(strstr(run[0].message, "--fusion lags chooses densities"));
    remove_tree(dir);
}

/* The measurement leaves parameters, statistics and state unchanged, and dense sums are the same
 * with any buckets. */
static void test_nothing_changes(void **state)
{
    static const char *const models[] = {"mlp:hidden=32", "lenet5", "resnet20"};
    (void)state;
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        witness w[2] = {0};
        rank_run run[RANKS_MAX];
        train_job job = basic();
        job.model = models[i];
        job.steps = 3;
        run_both(&job, &w[0], run);
        assert_fine(run, 2);
        const uint64_t hash = run[0].end.params_hash;
        const double accuracy = run[0].end.test_accuracy;
        job.bucket_auto = true;
        job.overlap = TG_OVERLAP_FULL;
        run_both(&job, &w[1], run);
        assert_fine(run, 2);
        assert_true(run[0].end.params_hash == hash);
        assert_true(run[0].end.test_accuracy == accuracy);
        assert_true(w[0].last_loss == w[1].last_loss);
    }
}

/* With a method that selects within a bucket, a resumed run has the same buckets; one that asks for
 * other buckets is told. */
static void test_resume(void **state)
{
    (void)state;
    char dir[] = "/tmp/telegrad-fusion-XXXXXX";
    witness w = {0};
    rank_run run[RANKS_MAX];
    train_job job = basic();
    job.method = "topk:density=0.1";
    job.bucket_auto = true;
    job.overlap = TG_OVERLAP_FULL;
    job.evaluate = false;
    assert_non_null(mkdtemp(dir));
    job.save_dir = dir;
    job.save_every = 4;
    job.steps = 8;
    run_both(&job, &w, run);
    assert_fine(run, 2);
    job.save_every = 0;
    job.resume_dir = dir;
    job.steps = 12;
    run_both(&job, &w, run);
    assert_fine(run, 2);
    assert_int_equal(w.start.first_step, 8);
    job.bucket_auto = false;
    run_both(&job, &w, run);
    assert_int_equal(run[0].status, TG_E_MISMATCH);
    assert_non_null(strstr(run[0].message, "buckets="));
    remove_tree(dir);

    char other[] = "/tmp/telegrad-fusion-XXXXXX";
    assert_non_null(mkdtemp(other));
    job.resume_dir = NULL;
    job.save_dir = other;
    job.steps = 4;
    run_both(&job, &w, run);
    assert_fine(run, 2);
    job.resume_dir = other;
    job.bucket_auto = true;
    run_both(&job, &w, run);
    assert_int_equal(run[0].status, TG_E_MISMATCH);
    assert_non_null(strstr(run[0].message, "give the same --fusion as that run"));
    remove_tree(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rule),
        cmocka_unit_test(test_densities),
        cmocka_unit_test(test_methods),
        cmocka_unit_test(test_lags),
        cmocka_unit_test(test_nothing_changes),
        cmocka_unit_test(test_resume),
    };
    return cmocka_run_group_tests(tests, open_data, close_data);
}
