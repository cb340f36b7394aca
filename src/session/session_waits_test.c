/* Which ranks a rank waits for: reported during the wait, and counted. Rank SLOW computes longer
 * than the others; on the virtual clock the counts are exact. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "one_tensor.h"

#include "base/virtual_clock.h"
#include "telegrad/telegrad.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { P = 4, SLOW = 2, N = 64, STEPS = 5 };
static const int64_t ms = 1000000;

typedef struct job {
    const char *method, *strategy;
    const int *nodes;
    tg_driver driver;
    int64_t slow_ns;  /* of SLOW in each step; the others take 0 */
    int64_t pause_ns; /* of SLOW before step 2 */
    bool logs;        /* no on_wait: check the log */
} job;

typedef struct rank {
    const job *job;
    tg_transport *t;
    tg_clock_thread *thread;
    tg_status status;
    char error[256];
    int64_t waited[P], wait_ns;
    tg_wait told[8];
    int tells;
} rank;

static const int nodes[] = {0, 0, 1, 1};
static rank ranks[P];
static char heard[P][256];

static void on_wait(void *arg, const tg_wait *wait)
{
    rank *r = arg;
    if (r->tells < 8)
        r->told[r->tells] = *wait;
    r->tells++;
}

static tg_status train(rank *r, tg_session *s)
{
    float w[N] = {0}, g[N];
    uint32_t id;
    int64_t before[P];
    const tg_clock *clock = r->t->clock;
    const bool slow = r->t->rank == SLOW;
    TG_TRY(one_tensor_begin(s, w, g, N, &id));
    TG_TRY(tg_session_waited(s, before));
    for (int step = 0; step < STEPS; step++) {
        tg_step_info info = {.struct_size = sizeof info};
        const int64_t away = slow ? r->job->slow_ns + (step == 2 ? r->job->pause_ns : 0) : 0;
        TG_TRY(tg_session_grad_wait(s, id));
        if (away > 0)
            clock->sleep_until_ns(clock->arg, tg_now_ns(clock) + away);
        for (int i = 0; i < N; i++)
            g[i] = (float)(i + r->t->rank);
        TG_TRY(tg_session_grad_ready(s, id));
        TG_TRY(tg_session_step(s, &info));
        r->wait_ns += info.wait_ns;
    }
    TG_TRY(tg_session_finish(s));
    TG_TRY(tg_session_waited(s, r->waited));
    for (int i = 0; i < P; i++)
        r->waited[i] -= before[i];
    return TG_OK;
}

static void *run_rank(void *arg)
{
    rank *r = arg;
    const job *j = r->job;
    const tg_session_config config = {.struct_size = sizeof config,
                                      .method = j->method,
                                      .strategy = j->strategy,
                                      .nodes = j->nodes,
                                      .driver = j->driver,
                                      .on_wait = j->logs ? NULL : on_wait,
                                      .on_wait_arg = r};
    tg_session *s = NULL;
    r->status = tg_session_create(&config, r->t, &s);
    if (r->status == TG_OK)
        r->status = train(r, s);
    snprintf(r->error, sizeof r->error, "%s", tg_error());
    tg_session_destroy(s);
    return NULL;
}

static void run(const job *j, bool real)
{
    tg_transport *t[P];
    tg_clock *made = NULL;
    memset(ranks, 0, sizeof ranks);
    if (!real)
        assert_int_equal(tg_clock_virtual_create(1000, &made), TG_OK);
    const tg_clock *clock = real ? tg_clock_monotonic() : made;
    assert_int_equal(tg_transport_inproc_clock(P, clock, t), TG_OK);
    assert_int_equal(tg_clock_enter(clock, 2 * P), TG_OK);
    for (int i = 0; i < P; i++) {
        ranks[i] = (rank){.job = j, .t = t[i]};
        assert_int_equal(tg_clock_thread_start(clock, 2 * (uint64_t)i, "rank", run_rank, &ranks[i],
                                               &ranks[i].thread),
                         TG_OK);
    }
    tg_clock_leave(clock);
    for (int i = 0; i < P; i++)
        tg_clock_thread_join(clock, ranks[i].thread);
    for (int i = 0; i < P; i++) {
        if (ranks[i].status != TG_OK)
            fail_msg("rank %d: %s", i, ranks[i].error);
        assert_int_equal(ranks[i].waited[i], 0);
        tg_transport_destroy(t[i]);
    }
    tg_clock_virtual_destroy(made);
}

/* waited (P): of rank r. */
static void expect_waited(int r, const int64_t *want)
{
    for (int i = 0; i < P; i++)
        if (ranks[r].waited[i] != want[i])
            fail_msg("rank %d waited for rank %d for %lld ns, not %lld", r, i,
                     (long long)ranks[r].waited[i], (long long)want[i]);
}

/* All ranks wait for the slow one, which waits for none; the same holds with rounds, and with
 * messages that arrive only via other ranks. */
static void counted_exactly(void **state)
{
    static const tg_driver drivers[] = {TG_DRIVER_THREAD, TG_DRIVER_INLINE};
    static const struct {
        const char *method, *strategy;
        int64_t steps; /* steps in which SLOW is waited for, separately or together */
    } cases[] = {{"dense:exchange=allgather", "ssgd", STEPS},
                 {"dense:exchange=direct", "ssgd", STEPS},
                 {"topk:density=0.5", "ssgd", STEPS},
                 {"csc:density=0.5,warmup=1", "ssgd", STEPS},
                 {"powersgd:rank=1", "ssgd", STEPS},
                 {"dense:exchange=allgather", "local:every=5", 5}};
    const int64_t none[P] = {0}, all = STEPS * 7 * ms;
    (void)state;
    for (size_t d = 0; d < 2; d++) {
        for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
            const job j = {.method = cases[c].method,
                           .strategy = cases[c].strategy,
                           .driver = drivers[d],
                           .slow_ns = 7 * ms};
            const int64_t slow[P] = {[SLOW] = cases[c].steps * 7 * ms};
            run(&j, false);
            for (int r = 0; r < P; r++) {
                expect_waited(r, r == SLOW ? none : slow);
                assert_int_equal(ranks[r].tells, 0); /* no person is waiting */
            }
        }
        /* In a ring each rank hears from the one before it, or cannot pass messages to the one
         * after it; with nodes it hears from its node's lowest rank. */
        run(&(job){"dense:exchange=ring", "ssgd", .driver = drivers[d], .slow_ns = 7 * ms}, false);
        for (int r = 0; r < P; r++) {
            int64_t ring[P] = {0};
            ring[r == 0 ? P - 1 : SLOW] = all;
            expect_waited(r, r == SLOW ? none : ring);
        }
        run(&(job){"dense", "ssgd", nodes, drivers[d], .slow_ns = 7 * ms}, false);
        expect_waited(0, (const int64_t[P]){[2] = all});
        expect_waited(1, (const int64_t[P]){[0] = all});
        expect_waited(2, none);
        expect_waited(3, (const int64_t[P]){[2] = all});
    }
}

/* Exchanges that overlap a rank's own work make no rank wait. */
static void overlapped_is_free(void **state)
{
    (void)state;
    const int64_t none[P] = {0};
    const job j = {
        .method = "dense:exchange=allgather", .strategy = "ssgd", .driver = TG_DRIVER_THREAD};
    run(&j, false);
    for (int r = 0; r < P; r++)
        expect_waited(r, none);
}

/* The other ranks are told of the one that is away, after one second and then every second; the
 * rank itself is not. A rank that hears of it via others is told about those. */
static void told_while_it_lasts(void **state)
{
    const job jobs[] = {
        {"dense:exchange=allgather", "ssgd", NULL, TG_DRIVER_THREAD, .pause_ns = 3500 * ms},
        {"dense:exchange=ring", "ssgd", NULL, TG_DRIVER_INLINE, .pause_ns = 3500 * ms},
        {"dense", "ssgd", nodes, TG_DRIVER_THREAD, .pause_ns = 3500 * ms}};
    const int by_ring[P] = {3, 2, -1, 2}, by_node[P] = {2, 0, -1, 2};
    (void)state;
    for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++) {
        run(&jobs[i], true);
        for (int r = 0; r < P; r++) {
            const rank *k = &ranks[r];
            const int of = i == 1 ? by_ring[r] : i == 2 ? by_node[r] : SLOW;
            if (r == SLOW)
                continue;
            if (k->tells < 2)
                fail_msg("job %zu: rank %d was told %d times", i, r, k->tells);
            /* On a busy machine another rank may be late as well, before or after. */
            bool found = false;
            for (int n = 1; n < k->tells && n < 8; n++) {
                const tg_wait *w = &k->told[n];
                found = found || (w->rank == of && w->for_ns >= 2000 * ms &&
                                  w->for_ns > k->told[n - 1].for_ns && w->step == 2 &&
                                  w->indirect == (i == 1 ? r == 0 : i == 2 && r != 3));
            }
            if (!found)
                fail_msg("job %zu: rank %d was told of rank %d, %.3f s, step %d, indirect %d", i, r,
                         k->told[1].rank, (double)k->told[1].for_ns * 1e-9, (int)k->told[1].step,
                         k->told[1].indirect);
            assert_true(k->waited[of] >= 3000 * ms);
        }
    }
}

static void hear(void *arg, tg_log_level level, const char *message)
{
    int r;
    (void)arg;
    if (level == TG_LOG_WARN && sscanf(message, "rank %d has been waiting for", &r) == 1 &&
        r >= 0 && r < P)
        snprintf(heard[r], sizeof heard[r], "%s", message);
}

/* Without on_wait the wait is logged, after ten seconds. */
static void logged(void **state)
{
    (void)state;
    tg_log_set(hear, NULL);
    run(&(job){"dense:exchange=allgather", "ssgd", .pause_ns = 13000 * ms, .logs = true}, true);
    tg_log_set(NULL, NULL);
    for (int r = 0; r < P; r++) {
        int seconds = 0;
        if (r == SLOW)
            continue;
        const char *at = strstr(heard[r], " for rank 2"), *last = strrchr(heard[r], 'r');
        if (at == NULL || sscanf(last, "r %d s (step 2)", &seconds) != 1 || seconds < 10 ||
            seconds > 19)
            fail_msg("rank %d: %s", r, heard[r]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counted_exactly), cmocka_unit_test(overlapped_is_free),
        cmocka_unit_test(told_while_it_lasts), cmocka_unit_test(logged)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
