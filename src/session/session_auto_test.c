/* exchange=auto in sessions over emulated links: the choice fits the link, is the same on all
 * ranks, and is restored from a checkpoint. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "session_fixture.h"
#include <unistd.h>

static fixture_result result[8], again[8];
static int choices; /* number logged */
static double mbit; /* of the last one logged */

static void count_choices(void *arg, tg_log_level level, const char *text)
{
    (void)arg;
    (void)level;
    if (strstr(text, "exchange=auto") == NULL)
        return;
    choices++;
    const char *rate = strstr(text, " ms, "), *next;
    while (rate != NULL && (next = strstr(rate + 1, " ms, ")) != NULL)
        rate = next;
    mbit = rate == NULL ? 0 : strtod(rate + strlen(" ms, "), NULL);
}

static fixture_job job_of(const char *method, int world, const char *link)
{
    fixture_job job = fixture_defaults();
    job.method = method;
    job.world = world;
    job.link = link;
    job.steps = 2;
    return job;
}

static void run(const fixture_job *job, fixture_result *r)
{
    choices = 0;
    fixture_run(job, r);
    for (int i = 0; i < job->world; i++) {
        if (r[i].status != TG_OK)
            fail_msg("%s, rank %d: %s", job->method, i, r[i].error);
        assert_true(r[i].hash == r[0].hash);
        assert_string_equal(r[i].methods, r[0].methods);
    }
}

static void expect(const fixture_result *r, const char *exchange)
{
    if (strstr(r->methods, exchange) == NULL)
        fail_msg("%s is not in %s", exchange, r->methods);
}

/* The links differ so much that other work on this machine cannot change the choice. */
static void the_link_decides(void **state)
{
    static const struct {
        const char *method;
        int world;
        const char *link, *choice;
    } cases[] = {
        {"dense:exchange=auto", 4, "5ms", "exchange=allgather\n"},
        {"dense:exchange=auto", 4, "2mbit", "exchange=direct\n"},
        {"topk:density=0.3,exchange=auto", 8, "1mbit", "exchange=reducescatter\n"},
        {"topk:density=0.3,exchange=auto", 3, "5ms", "exchange=allgather\n"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fixture_job job = job_of(cases[i].method, cases[i].world, cases[i].link);
        run(&job, result);
        assert_int_equal(choices, 1);
        expect(&result[0], cases[i].choice);
        /* the same bits as with the chosen exchange */
        char text[128];
        snprintf(text, sizeof text, "%s", cases[i].method);
        snprintf(strstr(text, "exchange="), 32, "%.*s", (int)strlen(cases[i].choice) - 1,
                 cases[i].choice);
        job.method = text;
        job.link = NULL;
        run(&job, again);
        assert_int_equal(choices, 0);
        assert_true(again[0].hash == result[0].hash);
    }
}

/* With two nodes, two ranks communicate, however many ranks the nodes have: the link's rate is
 * theirs. */
static void nodes_are_what_counts(void **state)
{
    static const int pair[] = {0, 0, 0, 0, 1, 1, 1, 1}, one[] = {0, 0, 0, 0, 0, 0, 0, 0};
    (void)state;
    fixture_job job = job_of("topk:density=0.3,exchange=auto", 8, "1mbit");
    job.nodes = pair;
    run(&job, result);
    assert_int_equal(choices, 1);
    expect(&result[0], "exchange=allgather\n");
    assert_true(mbit > 0.75 && mbit < 1.25);
    job.nodes = one;
    run(&job, result);
    assert_int_equal(choices, 0);
}

/* Each bucket has its own choice: the large one the fewest bytes, the small one the fewest
 * delays. */
static void by_bucket(void **state)
{
    static const uint32_t buckets[] = {1, 3};
    static const char *const rules[] = {"fc.bias=dense"};
    (void)state;
    fixture_job job = job_of("dense:exchange=auto", 4, "500kbit,5ms");
    static const char *const other[] = {"fc.weight=topk:density=0.1", "conv.weight=fp16"};
    job.rules = other;
    job.nrules = 2;
    run(&job, result);
    assert_int_equal(choices, 1); /* of biases, 27 elements */
    expect(&result[0], "dense:exchange=allgather\n");
    expect(&result[0], "fp16:feedback=none,rescale=no,exchange=allgather\n");
    job.rules = rules;
    job.nrules = 1;
    job.buckets = buckets;
    job.nbuckets = 2;
    run(&job, result);
    assert_int_equal(choices, 2); /* and one with a fixed exchange */
    expect(&result[0], "dense:exchange=direct\n");
}

/* With one rank, or without auto, nothing is measured. */
static void nothing_to_choose(void **state)
{
    (void)state;
    fixture_job job = job_of("dense:exchange=auto", 1, NULL);
    run(&job, result);
    assert_int_equal(choices, 0);
    expect(&result[0], "dense:exchange=direct\n");
    assert_true(result[0].bytes == 0);
}

/* A resumed run uses the checkpoint's exchanges, whatever its link is. */
static void resumed(void **state)
{
    (void)state;
    char dir[] = "/tmp/telegrad-auto-XXXXXX", command[64];
    assert_non_null(mkdtemp(dir));
    fixture_job job = job_of("topk:density=0.3,exchange=auto", 8, "1mbit");
    job.steps = 4;
    job.save_dir = dir;
    job.save_at = 2;
    run(&job, result);
    expect(&result[0], "exchange=reducescatter\n");
    job.save_dir = NULL;
    job.load_dir = dir;
    job.link = "5ms"; /* an all-gather would be chosen */
    run(&job, again);
    assert_int_equal(choices, 0);
    expect(&again[0], "exchange=reducescatter\n");
    assert_true(again[0].hash == result[0].hash);
    assert_memory_equal(again[0].w, result[0].w, sizeof result[0].w);
    /* another spec is another job */
    job.method = "topk:density=0.3,exchange=reducescatter";
    job.link = NULL;
    fixture_run(&job, again);
    assert_int_equal(again[0].status, TG_E_MISMATCH);
    assert_non_null(strstr(again[0].error, "exchange=auto"));
    snprintf(command, sizeof command, "rm -r %s", dir);
    assert_int_equal(system(command), 0);
}

/* All ranks must use auto, and a rank that dies during the measurement is named. */
static void failures(void **state)
{
    (void)state;
    fixture_job job = job_of("dense:exchange=auto", 3, NULL);
    job.odd_rank = 1;
    job.odd_method = "dense";
    fixture_run(&job, result);
    for (int r = 0; r < 3; r++) {
        assert_int_equal(result[r].status, TG_E_MISMATCH);
        assert_non_null(strstr(result[r].error, "exchange=auto"));
    }
    job.odd_method = NULL;
    job.fault = "fault:kill=6"; /* after the handshake's two */
    fixture_run(&job, result);
    assert_int_equal(result[0].status, TG_E_PEER);
    assert_int_equal(result[2].status, TG_E_PEER);
    /* the first rank to notice names it, and gives up */
    assert_true(strstr(result[0].error, "rank 1") != NULL ||
                strstr(result[2].error, "rank 1") != NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_link_decides), cmocka_unit_test(nodes_are_what_counts),
        cmocka_unit_test(by_bucket),        cmocka_unit_test(nothing_to_choose),
        cmocka_unit_test(resumed),          cmocka_unit_test(failures),
    };
    tg_log_set(count_choices, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
