/* Whole runs on sharded images and on texts: repeated, resumed in the middle of an epoch, with and
 * without evaluation, and with ranks that disagree. */
#include "trainer/loop/trainer_ranks.h"
#include "trainer/model/model.h"

static tg_status run_on(const train_job *job, int ranks, rank_run *run)
{
    witness w = {.steps = 0};
    const train_job *jobs[RANKS_MAX] = {job, job};
    run_jobs(jobs, ranks, &w, run);
    return run[0].status;
}

static uint64_t hash_of(const train_job *job, int ranks)
{
    rank_run run[RANKS_MAX];
    OK(run_on(job, ranks, run));
    assert_fine(run, ranks);
    return run[0].end.params_hash;
}

static void test_shard(void **state)
{
    (void)state;
    train_job job = basic();
    witness w = {.steps = 0};
    rank_run run[2];
    job.epochs = 2;
    const uint64_t iid = hash_of(&job, 2);
    job.shard = "iid";
    assert_true(hash_of(&job, 2) == iid);
    job.shard = "dirichlet:alpha=0.1";
    const uint64_t hash = hash_of(&job, 2);
    assert_true(hash != iid);
    assert_true(hash_of(&job, 2) == hash);
    train_job other = job;
    other.shard = "dirichlet:alpha=0.2";
    run_jobs((const train_job *const[]){&job, &other}, 2, &w, run);
    assert_int_equal(run[0].status, TG_E_MISMATCH);
    job.shard = "dirichlet:alpha=-1";
    assert_int_equal(run_on(&job, 2, run), TG_E_SPEC);
}

/* Run to step `at`, save, resume; returns the hash at the end. */
static uint64_t hash_resumed(train_job job, uint64_t at)
{
    char dir[] = "/tmp/telegrad-resume-XXXXXX";
    assert_non_null(mkdtemp(dir));
    train_job first = job;
    first.steps = at;
    first.save_dir = dir;
    hash_of(&first, 2);
    job.resume_dir = dir;
    const uint64_t hash = hash_of(&job, 2);
    remove_tree(dir);
    return hash;
}

static void test_shard_resumes(void **state)
{
    (void)state;
    train_job job = basic();
    job.shard = "label:classes=3";
    job.epochs = 0;
    job.steps = 47;
    job.evaluate = false;
    const uint64_t hash = hash_of(&job, 2);
    assert_true(hash_resumed(job, 3) == hash);
    assert_true(hash_resumed(job, 33) == hash);
}

/* ---- texts ----------------------------------------------------------------------------------- */

static char text_path[] = "/tmp/telegrad-text-XXXXXX";

/* Replace the group's glyphs by a text of 6,000 characters. */
static int open_text(void **state)
{
    (void)state;
    char spec[128];
    strcpy(text_path + strlen(text_path) - 6, "XXXXXX");
    const int file = mkstemp(text_path);
    uint32_t word[4];
    const tg_rng_key key = {.seed = 1, .purpose = TG_PURPOSE_TEST};
    for (uint64_t i = 0; file >= 0 && i < 1500; i++) {
        tg_rng_block(&key, i, word);
        const char part[4] = {'a', (char)('b' + word[0] % 2), (char)('d' + word[1] % 3), ' '};
        if (write(file, part, sizeof part) != sizeof part)
            return -1;
    }
    close(file);
    train_data_close(data);
    data = NULL;
    snprintf(spec, sizeof spec, "text:%s,split=0.8", text_path);
    return file >= 0 && train_data_open(spec, 0, &data) == TG_OK ? 0 : -1;
}

static int close_text(void **state)
{
    unlink(text_path);
    train_data_close(data);
    data = NULL;
    return open_data(state);
}

static bool there_is(const char *spec_text)
{
    tg_spec *spec;
    if (model_parse(spec_text, &spec) != TG_OK) {
        print_message("SKIP: no such model as %s\n", spec_text);
        return false;
    }
    tg_spec_free(spec);
    return true;
}

/* 4,799 labels, two ranks, batches of 4 rows of 12 tokens: 49 steps per epoch. */
static train_job text_job(const char *spec_text)
{
    train_job job = basic();
    job.model = spec_text;
    job.batch = 4;
    job.context = 12;
    job.epochs = 0;
    job.steps = 120;
    job.optimizer = "sgd:lr=1,momentum=0.9";
    job.method = "dgc:density=0.05,warmup=0,lookahead=0"; /* learns more here than with 2 */
    return job;
}

static void test_state(void **state)
{
    (void)state;
    rank_run run[2];
    train_job job = text_job("lstm:layers=2,hidden=16,embed=16");
    if (!there_is(job.model))
        skip();
    const uint64_t hash = hash_of(&job, 2);
    OK(run_on(&job, 2, run));
    assert_true(run[0].end.test_loss < 1.4); /* without learning it would be log 7 = 1.95 */
    job.evaluate = false;                    /* an evaluation does not change the state */
    assert_true(hash_of(&job, 2) == hash);
    assert_true(hash_resumed(job, 1) == hash);
    assert_true(hash_resumed(job, 48) == hash); /* just before an epoch's end, at it, after */
    assert_true(hash_resumed(job, 49) == hash);
    assert_true(hash_resumed(job, 77) == hash);
    job.strategy = "cd:k=3,warmup=20";
    assert_true(hash_resumed(job, 50) == hash_of(&job, 2));
    job.method = "dgc:density=0.05,warmup=0";
    assert_true(hash_resumed(job, 50) == hash_of(&job, 2));
    job.strategy = "ssgd";
    assert_true(hash_resumed(job, 77) == hash_of(&job, 2));
}

/* Without state, the pieces of a text are the same for any number of ranks. */
static void test_stateless(void **state)
{
    (void)state;
    rank_run one[2], two[2];
    train_job job = text_job("gpt:layers=1,heads=2,embed=16");
    if (!there_is(job.model))
        skip();
    assert_true(hash_resumed(job, 31) == hash_of(&job, 2));
    job.steps = 1;
    job.optimizer = "sgd:lr=1e-20"; /* the parameters keep their initial values */
    OK(run_on(&job, 1, one));
    OK(run_on(&job, 2, two));
    assert_true(fabs(one[0].end.test_loss - two[0].end.test_loss) < 1e-6);
    assert_true(one[0].end.test_accuracy == two[0].end.test_accuracy);
}

static void refused(const train_job *job, tg_status status, const char *says)
{
    rank_run run[2];
    assert_int_equal(run_on(job, 2, run), status);
    if (!strstr(run[0].message, says))
        fail_msg("\"%s\" does not say \"%s\"", run[0].message, says);
}

static void test_refused(void **state)
{
    (void)state;
    train_job job = text_job("mlp");
    refused(&job, TG_E_ARG, "model mlp reads images, the data are a text: allowed: --data mnist,");
    job.model = "lstm:hidden=4,embed=4";
    job.context = 300;
    job.batch = 8;
    refused(&job, TG_E_ARG, "--batch 8: allowed: 1 to 7 (4800 training tokens over 2 ranks)");
    job.context = 0; /* 35 */
    job.batch = 69;
    refused(&job, TG_E_ARG, "--batch 69: allowed: 1 to 68");
}

static void test_context_of_images(void **state)
{
    (void)state;
    train_job job = basic();
    job.context = 5;
    refused(&job, TG_E_ARG, "--context 5: allowed with texts only");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shard),
        cmocka_unit_test(test_shard_resumes),
        cmocka_unit_test(test_context_of_images),
        cmocka_unit_test_setup_teardown(test_state, open_text, close_text),
        cmocka_unit_test_setup_teardown(test_stateless, open_text, close_text),
        cmocka_unit_test_setup_teardown(test_refused, open_text, close_text),
    };
    return cmocka_run_group_tests(tests, open_data, close_data);
}
