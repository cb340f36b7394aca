/* Overlap changes no bit: parameters after every step are the same, whatever is waited for when;
 * with dropped steps, stops, evaluations and checkpoints in between. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "session_fixture.h"
#include "tsan_skips.h"
#include <unistd.h>

#define COUNT(a) (sizeof(a) / sizeof *(a))

static fixture_result result[4], plain[4];

static void run(const fixture_job *job, fixture_result *out)
{
    fixture_run(job, out);
    for (int r = 0; r < job->world; r++)
        if (out[r].status != TG_OK)
            fail_msg("%s, %s, P = %d, overlap %d, rank %d: %s", job->method, job->strategy,
                     job->world, (int)job->overlap, r, out[r].error);
}

static void same(const fixture_job *job)
{
    run(job, result);
    for (int r = 0; r < job->world; r++) {
        const fixture_result *a = &result[r], *b = &plain[r];
        assert_true(a->hash == b->hash);
        assert_memory_equal(a->w, b->w, sizeof a->w);
        assert_memory_equal(a->evaluated, b->evaluated, sizeof a->evaluated);
        assert_int_equal(a->skipped, b->skipped);
        assert_int_equal(a->stopped_after, b->stopped_after);
        for (uint64_t t = 0; t < a->steps && !job->blind; t++)
            if (memcmp(a->trail[t], b->trail[t], sizeof a->trail[t]) != 0)
                fail_msg("%s, %s, P = %d, overlap %d, rank %d: other parameters after step %d",
                         job->method, job->strategy, job->world, (int)job->overlap, r, (int)t);
        for (uint64_t t = 0; t < a->steps; t++) {
            assert_int_equal(a->info[t].skipped, b->info[t].skipped);
            assert_int_equal(a->info[t].stop, b->info[t].stop);
        }
    }
}

static const tg_overlap others[] = {TG_OVERLAP_NONE, TG_OVERLAP_FULL};

/* In three buckets, with both drivers. On return, `plain` is the job without early parameters. */
static void all_same(fixture_job job)
{
    job.bucket_bytes = 1400;
    run(&job, plain);
    for (size_t i = 0; i < 2 * COUNT(others); i++) {
        job.overlap = others[i / 2];
        job.driver = i % 2 == 0 ? TG_DRIVER_THREAD : TG_DRIVER_INLINE;
        job.adjacent = i % 2 == 0;
        same(&job);
    }
}

static const char *const methods[] = {"dense",
                                      "dense:exchange=ring",
                                      "dense:exchange=none",
                                      "fp16",
                                      "topk:density=0.05",
                                      "topk:density=0.05,exchange=direct",
                                      "dgc:density=0.02,warmup=6",
                                      "csc:chunk=32,density=0.2,warmup=3",
                                      "fetchsgd:ratio=2,density=0.05",
                                      "2bit:threshold=0.25",
                                      "terngrad",
                                      "1bit:twoway=yes,rescale=yes",
                                      "randomk:density=0.1"};
static const char *const strategies[] = {"ssgd", "cd:k=3,warmup=2"};
static const int worlds[] = {1, 2, 4};

static void test_same_bits(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(methods) * COUNT(strategies) * COUNT(worlds); i++) {
        fixture_job job = fixture_defaults();
        job.method = methods[i % COUNT(methods)];
        job.strategy = strategies[i / COUNT(methods) % COUNT(strategies)];
        job.world = worlds[i / COUNT(methods) / COUNT(strategies)];
        if (tsan_skips(i % COUNT(methods), i / COUNT(methods) % 3, 3) ||
            (strstr(job.method, "none") != NULL && job.world > 1))
            continue;
        if (strncmp(job.method, "dgc", 3) != 0)
            job.optimizer = "sgd:lr=0.25,momentum=0.5,weight_decay=0.01";
        all_same(job);
    }
}

/* Optimizers that work on one tensor at a time allow early parameters, clipping does not: the bits
 * are the same for all. */
static void test_optimizers(void **state)
{
    (void)state;
    static const char *const optimizers[] = {"adam:lr=0.125", "lars:lr=1,trust=0.1",
                                             "adamw:lr=0.125,weight_decay=0.1,clip=20"};
    for (size_t i = 0; i < COUNT(optimizers); i++) {
        fixture_job job = fixture_defaults();
        job.method = "topk:density=0.05";
        job.optimizer = optimizers[i];
        job.world = 2;
        all_same(job);
    }
}

/* A dropped step, a stop, evaluations, hashes, a rate of 0, and all of them in one run. */
static void test_events(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(methods); i++)
        for (int event = 0; event < 6; event++) {
            fixture_job job = fixture_defaults();
            job.method = methods[i];
            job.world = 3;
            if (tsan_skips(i, (size_t)event % 3, 3) || strstr(job.method, "none") != NULL)
                continue;
            if (event == 0 || event == 5) {
                job.nan_rank = 1;
                job.nan_step = 6;
            }
            if (event == 1 || event == 5)
                job.stop_at = 9;
            if (event == 2 || event == 5)
                job.eval_every = 3;
            if (event == 3)
                job.hash_every = 2;
            if (event == 4)
                job.rest_at = 4;
            all_same(job);
            assert_int_equal(plain[0].skipped, event == 0 || event == 5);
            assert_int_equal(plain[0].stopped_after, event == 1 || event == 5 ? 10 : 0);
        }
}

/* Parameters that nobody reads are updated when their gradients become ready again. (The gradients
 * do not depend on them here; weight decay does.) */
static void test_unread_parameters(void **state)
{
    (void)state;
    fixture_job job = fixture_defaults();
    job.dyadic = true;
    job.world = 2;
    job.optimizer = "sgd:lr=0.25,momentum=0.5,weight_decay=0.01";
    job.bucket_bytes = 1400;
    for (int i = 0; i < 2; i++) {
        job.method = i == 0 ? "dense" : "dgc:density=0.1,warmup=0";
        job.overlap = TG_OVERLAP_BACKWARD;
        job.blind = false;
        run(&job, plain);
        job.overlap = TG_OVERLAP_FULL;
        job.blind = true;
        same(&job);
    }
}

/* Saved with early parameters and resumed without, and the reverse. */
static void test_resume(void **state)
{
    (void)state;
    char dir[] = "/tmp/telegrad-overlap-XXXXXX", command[64];
    assert_non_null(mkdtemp(dir));
    for (size_t i = 0; i < 2 * COUNT(methods); i++) {
        fixture_job job = fixture_defaults();
        job.method = methods[i / 2];
        job.world = 2;
        if (tsan_skips(i / 2, i % 2, 2) || strstr(job.method, "none") != NULL)
            continue;
        job.bucket_bytes = 1400;
        job.nan_rank = 1;
        job.nan_step = 6;
        run(&job, plain);
        job.save_dir = dir;
        job.save_at = 7;
        job.overlap = i % 2 == 0 ? TG_OVERLAP_FULL : TG_OVERLAP_NONE;
        same(&job);
        job.save_dir = NULL;
        job.load_dir = dir;
        job.overlap = i % 2 == 0 ? TG_OVERLAP_BACKWARD : TG_OVERLAP_FULL;
        run(&job, result);
        assert_true(result[0].hash == plain[0].hash);
        snprintf(command, sizeof command, "rm -rf %s/*", dir);
        assert_int_equal(system(command), 0);
    }
    assert_int_equal(rmdir(dir), 0);
}

/* A step reports what was delivered since the one before: in the first step only the first layers'
 * bucket, then a whole model per step. */
static void test_figures(void **state)
{
    (void)state;
    fixture_job job = fixture_defaults();
    job.method = "topk:density=0.1";
    job.world = 2;
    job.bucket_bytes = 1400; /* buckets of 500, 20 and 340 */
    job.overlap = TG_OVERLAP_FULL;
    run(&job, result);
    for (int r = 0; r < job.world; r++) {
        const tg_step_info *first = &result[r].info[0];
        assert_int_equal(first->elements, 500);
        assert_int_equal(first->kept, 50);
        assert_true(first->density == 0.1);
        for (uint64_t t = 1; t < job.steps; t++) {
            const tg_step_info *info = &result[r].info[t];
            assert_int_equal(info->elements, FIXTURE_N);
            assert_int_equal(info->kept, 50 + 2 + 34);
            assert_int_equal(info->nmethods, 1);
            assert_int_equal(result[r].method[t].n, FIXTURE_N);
            assert_int_equal(result[r].method[t].bytes, info->coded_bytes);
            assert_true(info->density > 0.09999 && info->density < 0.10001);
            assert_true(info->grad_norm > 0 && info->residual_norm > 0);
        }
    }
}

static void fails(const fixture_job *job, tg_status status, const char *text)
{
    fixture_run(job, result);
    assert_int_equal(result[0].status, status);
    if (strstr(result[0].error, text) == NULL)
        fail_msg("\"%s\" lacks \"%s\"", result[0].error, text);
}

/* Buckets given by numbers of tensors equal those of the same tensors by bytes, also with rules. */
static void test_layout(void **state)
{
    (void)state;
    static const uint32_t three[] = {1, 1, 2}, other[] = {1, 2, 1}, five[] = {5}, none[] = {4, 0};
    static const char *const rules[] = {"*.bias=f32"};
    fixture_job job = fixture_defaults();
    job.method = "topk:density=0.05";
    job.world = 2;
    job.bucket_bytes = 1400;
    run(&job, plain);
    job.bucket_bytes = 0;
    run(&job, result);
    assert_true(result[0].hash != plain[0].hash);
    job.buckets = three;
    job.nbuckets = 3;
    all_same(job);
    same(&job);
    job.rules = rules;
    job.nrules = 1;
    run(&job, result); /* four buckets: the last two tensors have two methods */
    assert_int_equal(result[0].info[3].nmethods, 2);
    job.rules = NULL;
    job.nrules = 0;
    job.odd_rank = 1;
    job.odd_buckets = other;
    fails(&job, TG_E_MISMATCH, "buckets=1,1,2");
    job.odd_rank = -1;
    job.world = 1;
    job.nbuckets = 1;
    job.buckets = five;
    fails(&job, TG_E_ARG, "config->buckets has 5 tensors in all: allowed: 4");
    job.nbuckets = 2;
    job.buckets = none;
    fails(&job, TG_E_ARG, "tg_session_create: config->buckets[1]=0: allowed: at least 1");
}

static void test_refused(void **state)
{
    (void)state;
    tg_transport *t[1];
    tg_session *s;
    const tg_session_config config = {.struct_size = sizeof config, .overlap = (tg_overlap)3};
    assert_int_equal(tg_transport_inproc(1, t), TG_OK);
    assert_int_equal(tg_session_create(&config, t[0], &s), TG_E_ARG);
    assert_non_null(strstr(tg_error(), "overlap=3"));
    tg_transport_destroy(t[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_bits), cmocka_unit_test(test_optimizers),
        cmocka_unit_test(test_events),    cmocka_unit_test(test_unread_parameters),
        cmocka_unit_test(test_resume),    cmocka_unit_test(test_figures),
        cmocka_unit_test(test_layout),    cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
