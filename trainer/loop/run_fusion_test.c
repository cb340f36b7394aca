/* Buckets chosen by measurements: the rule on made-up times, and runs, whose results must not
 * change. */
#include "trainer_ranks.h"
#include "trainer/loop/run_fusion.h"

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
        cmocka_unit_test(test_nothing_changes),
        cmocka_unit_test(test_resume),
    };
    return cmocka_run_group_tests(tests, open_data, close_data);
}
