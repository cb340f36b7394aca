/* The effect on a run, with each strategy, of a rank that is slow, away for a while, gone, or that
 * repeats earlier messages. The result is the same bits, or an error on every rank that names the
 * faulty one; never a mean that is applied twice or in another order. All strategies run at once,
 * because most of the time is spent waiting. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "session_fixture.h"

enum { WORLD = 3, ODD = 2, STEPS = 14 };

/* streaming: two fragments, or one if there is one bucket. */
static const char *const strategies[] = {"ssgd",
                                         "od:warmup=2",
                                         "cd:k=2,warmup=2",
                                         "pipe:width=3",
                                         "dga:delay=3",
                                         "dga:delay=4,every=2",
                                         "local:every=3,after=2",
                                         "fedavg:every=3,clients=0.67",
                                         "diloco:every=3",
                                         "streaming:every=4,overlap=2",
                                         "eager:every=3",
                                         "sparseloco:every=3",
                                         "demo",
                                         "gossip:mean=4",
                                         "gossip:overlap=2,mean=7"};
enum { STRATEGIES = sizeof strategies / sizeof *strategies };

typedef struct job_thread {
    fixture_job job;
    fixture_result result[WORLD];
    pthread_t thread;
} job_thread;

static job_thread clean[STRATEGIES], harmed[STRATEGIES];

static void *run_job(void *arg)
{
    job_thread *j = arg;
    fixture_run(&j->job, j->result);
    return NULL;
}

/* Run with every strategy; harm: changes the job of the faulty run. */
static void run_all(job_thread *list, void (*harm)(fixture_job *job))
{
    for (int i = 0; i < STRATEGIES; i++) {
        fixture_job *job = &list[i].job;
        *job = fixture_defaults();
        job->strategy = strategies[i];
        job->world = WORLD;
        job->steps = STEPS;
        job->bucket_bytes = 1400; /* three buckets */
        job->driver = i % 2 == 0 ? TG_DRIVER_THREAD : TG_DRIVER_INLINE;
        if (harm != NULL)
            harm(job);
        assert_int_equal(pthread_create(&list[i].thread, NULL, run_job, &list[i]), 0);
    }
    for (int i = 0; i < STRATEGIES; i++)
        pthread_join(list[i].thread, NULL);
}

static int run_clean(void **state)
{
    (void)state;
    run_all(clean, NULL);
    for (int i = 0; i < STRATEGIES; i++)
        for (int r = 0; r < WORLD; r++)
            if (clean[i].result[r].status != TG_OK)
                fail_msg("%s: %s", strategies[i], clean[i].result[r].error);
    return 0;
}

static void assert_unharmed(void)
{
    for (int i = 0; i < STRATEGIES; i++)
        for (int r = 0; r < WORLD; r++) {
            if (harmed[i].result[r].status != TG_OK)
                fail_msg("%s: %s", strategies[i], harmed[i].result[r].error);
            if (harmed[i].result[r].hash != clean[i].result[r].hash)
                fail_msg("%s: other parameters", strategies[i]);
        }
}

/* Every rank ends with an error; the errors of the others name the faulty rank. */
static void assert_named(const char *what)
{
    char name[16];
    snprintf(name, sizeof name, "rank %d", ODD);
    for (int i = 0; i < STRATEGIES; i++)
        for (int r = 0; r < WORLD; r++) {
            const fixture_result *result = &harmed[i].result[r];
            if (result->status == TG_OK || (r != ODD && strstr(result->error, name) == NULL))
                fail_msg("%s, %s, rank %d: %d %s", strategies[i], what, r, result->status,
                         result->error);
        }
}

static void slow(fixture_job *job)
{
    job->odd_rank = ODD;
    job->fault = "fault:delay=2ms";
}

static void away(fixture_job *job)
{
    job->odd_rank = ODD;
    job->pause_step = 5;
    job->pause_ms = 300;
}

/* The run only takes longer. */
static void a_slow_rank_is_waited_for(void **state)
{
    (void)state;
    run_all(harmed, slow);
    assert_unharmed();
    run_all(harmed, away);
    assert_unharmed();
}

static void away_for_long(fixture_job *job)
{
    away(job);
    job->pause_ms = 4000;
    job->timeout_ms = 1000;
}

/* The others have ended when it returns: it ends as well, and no rank continues without it. */
static void a_rank_that_returns_too_late_ends(void **state)
{
    (void)state;
    run_all(harmed, away_for_long);
    assert_named("away for long");
}

static void gone(fixture_job *job)
{
    job->odd_rank = ODD;
    job->fault = "fault:kill=20";
    job->steps = 60;
    job->timeout_ms = 5000;
}

static void a_dead_rank_is_named(void **state)
{
    (void)state;
    run_all(harmed, gone);
    assert_named("gone");
}

/* One bucket: each message follows the same part of another step, and differs from it only by the
 * step. */
static void of_one_bucket(fixture_job *job)
{
    job->bucket_bytes = 0;
    job->steps = 60;
    job->timeout_ms = 5000;
}

/* The first of rank ODD's sends to be drawn is number 43; 8 are for setup, then up to 4 per
 * exchange. */
static void says_it_again(fixture_job *job)
{
    of_one_bucket(job);
    job->odd_rank = ODD;
    job->fault = "fault:replay=0.02,seed=125";
}

/* True if a rank refused a message because it belongs to an earlier step, one that it has received
 * since it began. */
static bool knows_the_step(const fixture_result *result)
{
    char words[64];
    unsigned long long said = 0, expected = 0;
    snprintf(words, sizeof words, "message from rank %d: step=", ODD);
    const char *at = strstr(result->error, words);
    return at != NULL && sscanf(at + strlen(words), "%llu: expected %llu", &said, &expected) == 2 &&
           said < expected && expected <= result->steps;
}

/* A repeated message belongs to another step: it is recognised by that, and not applied. Until then
 * each rank has the same state as without faults. */
static void a_mean_is_not_applied_twice(void **state)
{
    (void)state;
    run_all(clean, of_one_bucket);
    run_all(harmed, says_it_again);
    assert_named("replay");
    for (int i = 0; i < STRATEGIES; i++) {
        const fixture_result *result = harmed[i].result;
        if (!knows_the_step(&result[0]) && !knows_the_step(&result[1]))
            fail_msg("%s: %s; %s", strategies[i], result[0].error, result[1].error);
        for (int r = 0; r < WORLD; r++)
            for (uint64_t t = 0; t < result[r].steps; t++)
                if (memcmp(result[r].trail[t], clean[i].result[r].trail[t],
                           sizeof result[r].trail[t]) != 0)
                    fail_msg("%s, rank %d: other parameters after step %d", strategies[i], r,
                             (int)t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_slow_rank_is_waited_for),
        cmocka_unit_test(a_rank_that_returns_too_late_ends),
        cmocka_unit_test(a_dead_rank_is_named),
        cmocka_unit_test(a_mean_is_not_applied_twice),
    };
    return cmocka_run_group_tests(tests, run_clean, NULL);
}
