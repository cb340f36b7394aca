/* Several reducers on one transport, started and finished in any order: the same bits as one after
 * another. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "channel_ranks.h"
#include "engine/hub.h"
#include "telegrad/clock.h"
#include "telegrad/random.h"

static uint64_t draw(job *j, uint64_t below)
{
    const tg_rng_key key = {.seed = 12, .purpose = TG_PURPOSE_TEST, .rank = (uint32_t)j->rank};
    return (uint64_t)(tg_rng_uniform(&key, j->flags++) * (double)below);
}

/* ---- two, waited for in opposite orders ------------------------------------------------------ */

static tg_status cross(job *j)
{
    tg_reducer *r[2] = {NULL};
    float g[2] = {(float)j->rank, 100 + (float)j->rank}, mean[2] = {0};
    tg_status status = TG_OK;
    for (int i = 0; status == TG_OK && i < 2; i++)
        status = make(j, "dense", 1, &r[i]);
    for (int i = 0; status == TG_OK && i < 2; i++)
        status = tg_reducer_start(r[i], &g[i], &mean[i], NULL, NULL);
    for (int i = 0; status == TG_OK && i < 2; i++)
        status = tg_reducer_wait(r[j->rank == 0 ? i : 1 - i]);
    if (status == TG_OK && (mean[0] != 0.5f || mean[1] != 100.5f))
        status = tg_fail(TG_E_STATE, "%g and %g", (double)mean[0], (double)mean[1]);
    for (int i = 0; i < 2; i++)
        tg_reducer_destroy(r[i]);
    return status;
}

static void test_cross(void **state)
{
    (void)state;
    job jobs[2];
    run_ranks(2, cross, NULL, -1, NULL, jobs);
    all_ok(jobs, 2);
}

/* ---- many methods, any order ----------------------------------------------------------------- */

enum { MANY = 20, MANY_STEPS = 6, MANY_N = 600 };

static const char *const many[MANY] = {"dense",
                                       "dgc:density=0.05,warmup=0",
                                       "powersgd:rank=2",
                                       "2bit",
                                       "csc:density=0.1,warmup=0",
                                       "dense:exchange=ring",
                                       "topk:density=0.1",
                                       "powersgd",
                                       "csc",
                                       "randomk:density=0.1",
                                       "cltk:density=0.1",
                                       "topk:density=0.1,exchange=gtopk",
                                       "qsgd",
                                       "signsgd",
                                       "1bit:twoway=yes",
                                       "int8",
                                       "dense",
                                       "terngrad",
                                       "dgc:density=0.05,warmup=0",
                                       "2bit:threshold=0.5"};

static size_t many_n(int i)
{
    return (size_t)(MANY_N - 8 * i);
}

typedef struct many_job {
    bool shuffle;
    float mean[4][MANY_STEPS][MANY][MANY_N];
} many_job;

typedef struct many_rank {
    tg_reducer *r[MANY];
    float g[MANY][MANY_N];
    bool started[MANY], done[MANY];
} many_rank;

/* Start the next one in this rank's order, or test another one, or (if all are started) wait for
 * it. */
static tg_status many_step(job *j, many_rank *m, float (*mean)[MANY_N], bool shuffle)
{
    int order[MANY], started = 0;
    for (int i = 0; i < MANY; i++) {
        const int k = shuffle ? (int)draw(j, (uint64_t)i + 1) : i;
        order[i] = order[k];
        order[k] = i;
        m->started[i] = m->done[i] = false;
    }
    for (int left = MANY; left > 0;) {
        const int i = shuffle ? (int)draw(j, MANY) : MANY - left;
        bool done = false;
        if (started < MANY && (!shuffle || draw(j, 3) > 0)) {
            const int k = order[started++];
            TG_TRY(tg_reducer_start(m->r[k], m->g[k], mean[k], NULL, NULL));
            m->started[k] = true;
            if (shuffle)
                continue;
        }
        if (!m->started[i] || m->done[i])
            continue;
        if (shuffle && (started < MANY || draw(j, 2) == 0)) {
            TG_TRY(tg_reducer_test(m->r[i], &done));
        } else {
            TG_TRY(tg_reducer_wait(m->r[i]));
            done = true;
        }
        m->done[i] = done;
        left -= done;
    }
    return TG_OK;
}

static tg_status many_run(job *j, many_rank *m)
{
    many_job *all = (many_job *)(uintptr_t)j->arg;
    for (int i = 0; i < MANY; i++)
        TG_TRY(make(j, many[i], many_n(i), &m->r[i]));
    for (uint64_t step = 0; step < MANY_STEPS; step++) {
        for (int i = 0; i < MANY; i++) {
            const tg_rng_key key = {.seed = (uint64_t)i,
                                    .purpose = TG_PURPOSE_TEST,
                                    .rank = (uint32_t)j->rank,
                                    .step = step};
            for (size_t k = 0; k < many_n(i); k++)
                m->g[i][k] = (float)tg_rng_normal(&key, k);
        }
        TG_TRY(many_step(j, m, all->mean[j->rank][step], all->shuffle));
    }
    return TG_OK;
}

static tg_status run_many(job *j)
{
    many_rank *m = calloc(1, sizeof *m);
    tg_status status = many_run(j, m);
    if (status != TG_OK)
        (void)j->t->ops->shut(j->t); /* while other ranks may still copy from its buffers */
    for (int i = 0; i < MANY; i++)   /* in a different order on each rank */
        tg_reducer_destroy(m->r[j->rank % 2 ? i : MANY - 1 - i]);
    free(m);
    return status;
}

static void check_many(int size, const char *link)
{
    static many_job want, got;
    job jobs[4];
    memset(&want, 0, sizeof want);
    memset(&got, 0, sizeof got);
    got.shuffle = true;
    run_ranks(size, run_many, &want, -1, NULL, jobs);
    all_ok(jobs, size);
    run_ranks(size, run_many, &got, -1, link, jobs);
    all_ok(jobs, size);
    for (int r = 0; r < size; r++)
        for (int s = 0; s < MANY_STEPS; s++)
            for (int i = 0; i < MANY; i++)
                if (memcmp(got.mean[r][s][i], want.mean[0][s][i], many_n(i) * sizeof(float)) != 0)
                    fail_msg("%d ranks: rank %d, step %d, %s (%d): other bits", size, r, s, many[i],
                             i);
}

static void test_orders(void **state)
{
    (void)state;
    check_many(2, NULL);
    check_many(3, NULL);
    check_many(4, NULL);
    check_many(4, "1gbit,200us");
}

/* ---- large messages, which a transport may hold until they are received ---------------------- */

enum { LARGE_N = 3000000 };

static tg_status large(job *j)
{
    tg_reducer *r[2] = {NULL};
    float *v[2] = {malloc(LARGE_N * sizeof(float)), malloc(LARGE_N * sizeof(float))};
    tg_status status = TG_OK;
    for (int i = 0; i < 2; i++)
        for (size_t k = 0; k < LARGE_N; k++)
            v[i][k] = (float)(k % 1000) + 10000 * (float)i + (float)j->rank;
    for (int i = 0; status == TG_OK && i < 2; i++)
        status = make(j, j->arg, LARGE_N, &r[i]);
    /* Rank 1 starts one when the other is complete; rank 0 waits for that one first. */
    if (status == TG_OK && j->rank == 0)
        status = tg_reducer_start(r[0], v[0], v[0], NULL, NULL);
    if (status == TG_OK)
        status = tg_reducer_start(r[1], v[1], v[1], NULL, NULL);
    if (status == TG_OK)
        status = tg_reducer_wait(r[j->rank == 0 ? 0 : 1]);
    if (status == TG_OK && j->rank != 0)
        status = tg_reducer_start(r[0], v[0], v[0], NULL, NULL);
    if (status == TG_OK)
        status = tg_reducer_wait(r[j->rank == 0 ? 1 : 0]);
    for (int i = 0; status == TG_OK && i < 2; i++)
        for (size_t k = 0; k < LARGE_N; k++)
            if (v[i][k] != (float)(k % 1000) + 10000 * (float)i + 0.5f) {
                status = tg_fail(TG_E_STATE, "vector %d, element %zu: %g", i, k, (double)v[i][k]);
                break;
            }
    if (status != TG_OK)
        (void)j->t->ops->shut(j->t);
    for (int i = 0; i < 2; i++) {
        tg_reducer_destroy(r[i]);
        free(v[i]);
    }
    return status;
}

static void test_large(void **state)
{
    static const char *const methods[] = {"dense", "dense:exchange=allgather"};
    (void)state;
    job jobs[2];
    for (size_t m = 0; m < TG_COUNT(methods); m++) {
        run_ranks(2, large, methods[m], -1, NULL, jobs);
        all_ok(jobs, 2);
        run_ranks(2, large, methods[m], -1, "10gbit,1ms", jobs);
        all_ok(jobs, 2);
    }
}

/* ---- creating -------------------------------------------------------------------------------- */

static tg_status one_mean(tg_reducer *r, float own, float want)
{
    float mean;
    TG_TRY(tg_reducer_mean(r, &own, &mean));
    return mean == want ? TG_OK : tg_fail(TG_E_STATE, "%g, not %g", (double)mean, (double)want);
}

/* Ranks that create two in different orders get an error, and may continue. */
static tg_status other_order(job *j)
{
    tg_reducer *before = NULL, *a = NULL, *b = NULL;
    const bool odd = j->rank == 1;
    tg_status status = make(j, "dense", 1, &before);
    if (status == TG_OK && make(j, odd ? "fp16" : "dense", 10, &a) != TG_E_MISMATCH)
        status = tg_fail(TG_E_STATE, "not noticed");
    if (status == TG_OK && (!strstr(tg_error(), "has reducer=dense") ||
                            !strstr(tg_error(), "rank 1 has reducer=fp16")))
        status = tg_fail(TG_E_STATE, "not named: %s", tg_error());
    if (status == TG_OK && make(j, "dense", odd ? 20 : 10, &b) != TG_E_MISMATCH)
        status = tg_fail(TG_E_STATE, "not noticed");
    if (status == TG_OK && (!strstr(tg_error(), "n=10") || !strstr(tg_error(), "rank 1 has n=20")))
        status = tg_fail(TG_E_STATE, "not named: %s", tg_error());
    if (status == TG_OK)
        status = one_mean(before, (float)j->rank, 1);
    if (status == TG_OK)
        status = make(j, "dense", 1, &a);
    if (status == TG_OK)
        status = one_mean(a, (float)j->rank, 1);
    tg_reducer_destroy(a);
    tg_reducer_destroy(before);
    return status;
}

static void test_other_order(void **state)
{
    (void)state;
    job jobs[3];
    run_ranks(3, other_order, NULL, -1, NULL, jobs);
    all_ok(jobs, 3);
}

/* Thousands, one after another, destroyed in different orders; one exists throughout. */
static tg_status churn(job *j)
{
    enum { ROUNDS = 3000, KEPT = 7 };
    tg_reducer *old = NULL, *kept[KEPT] = {NULL};
    tg_status status = make(j, "dense", 1, &old);
    for (int i = 0; status == TG_OK && i < ROUNDS; i++) {
        tg_reducer **r = &kept[draw(j, j->rank == 0 ? 1 : KEPT)];
        tg_reducer_destroy(*r);
        *r = NULL;
        status = make(j, "dense", 1, r);
        if (status == TG_OK)
            status = one_mean(*r, (float)(2 * i + j->rank), (float)(2 * i) + 0.5f);
        if (status == TG_OK && i % 100 == 0)
            status = one_mean(old, (float)j->rank, 0.5f);
    }
    for (int k = 0; k < KEPT; k++)
        tg_reducer_destroy(kept[k]);
    tg_reducer_destroy(old);
    return status;
}

static void test_churn(void **state)
{
    (void)state;
    job jobs[2];
    run_ranks(2, churn, NULL, -1, NULL, jobs);
    all_ok(jobs, 2);
}

/* As many as there are tags, all started before any is waited for. */
static tg_status crowd(job *j)
{
    enum { MOST = TG__BLOCKS - 1 };
    static tg_reducer *made[2][MOST + 1];
    static float v[2][MOST];
    tg_reducer **r = made[j->rank];
    tg_status status = TG_OK;
    for (int i = 0; status == TG_OK && i < MOST; i++)
        status = make(j, "dense", 1, &r[i]);
    if (status == TG_OK && make(j, "dense", 1, &r[MOST]) != TG_E_STATE)
        status = tg_fail(TG_E_STATE, "one too many");
    if (status == TG_OK && !strstr(tg_error(), "1023"))
        status = tg_fail(TG_E_STATE, "not said: %s", tg_error());
    for (int i = 0; status == TG_OK && i < MOST; i++) {
        v[j->rank][i] = (float)(2 * i + j->rank);
        status = tg_reducer_start(r[i], &v[j->rank][i], &v[j->rank][i], NULL, NULL);
    }
    for (int i = 0; status == TG_OK && i < MOST; i++) {
        const int k = j->rank == 0 ? i : MOST - 1 - i;
        status = tg_reducer_wait(r[k]);
        if (status == TG_OK && v[j->rank][k] != (float)(2 * k) + 0.5f)
            status = tg_fail(TG_E_STATE, "%d: %g", k, (double)v[j->rank][k]);
    }
    tg_reducer_destroy(r[17]);
    r[17] = NULL;
    if (status == TG_OK)
        status = make(j, "dense", 1, &r[17]);
    if (status == TG_OK)
        status = one_mean(r[17], (float)j->rank, 0.5f);
    for (int i = 0; i < MOST; i++)
        tg_reducer_destroy(r[i]);
    return status;
}

static void test_crowd(void **state)
{
    (void)state;
    job jobs[2];
    run_ranks(2, crowd, NULL, -1, NULL, jobs);
    all_ok(jobs, 2);
}

/* ---- threads --------------------------------------------------------------------------------- */

enum { THREADS = 4, THREAD_STEPS = 60 };

typedef struct user { /* a thread of a rank, with its own reducer */
    tg_reducer *r;
    int rank, number;
    tg_status status;
    char error[512];
    pthread_t thread;
} user;

static void *use(void *arg)
{
    user *u = arg;
    for (int i = 0; u->status == TG_OK && i < THREAD_STEPS; i++) {
        const float base = (float)(1000 * u->number + 2 * i);
        u->status = one_mean(u->r, base + (float)u->rank, base + 0.5f);
    }
    snprintf(u->error, sizeof u->error, "%s", tg_error());
    return NULL;
}

static tg_status with_threads(job *j)
{
    user u[THREADS] = {{.r = NULL}};
    tg_status status = TG_OK;
    for (int i = 0; status == TG_OK && i < THREADS; i++) {
        u[i].rank = j->rank;
        u[i].number = i;
        status = make(j, "dense", 1, &u[i].r);
    }
    for (int i = 0; status == TG_OK && i < THREADS; i++)
        status = tg__thread_start("user", use, &u[i], &u[i].thread);
    for (int i = 0; status == TG_OK && i < THREADS; i++)
        (void)pthread_join(u[i].thread, NULL);
    for (int i = 0; i < THREADS; i++) {
        tg_reducer_destroy(u[i].r);
        if (u[i].status != TG_OK)
            status = tg_fail(u[i].status, "%s", u[i].error);
    }
    return status;
}

static void test_threads(void **state)
{
    (void)state;
    job jobs[2];
    run_ranks(2, with_threads, NULL, -1, NULL, jobs);
    all_ok(jobs, 2);
    run_ranks(2, with_threads, NULL, -1, "1gbit,100us", jobs);
    all_ok(jobs, 2);
}

/* A transport that is bound to a thread cannot be driven by another thread. */
static void test_bound(void **state)
{
    (void)state;
    job j = {.rank = 0};
    user u = {.number = 0};
    assert_int_equal(tg_transport_inproc(1, &j.t), TG_OK);
    j.t->any_thread = false;
    assert_int_equal(make(&j, "dense", 1, &u.r), TG_OK);
    assert_int_equal(one_mean(u.r, 2, 2), TG_OK);
    assert_int_equal(tg__thread_start("user", use, &u, &u.thread), TG_OK);
    (void)pthread_join(u.thread, NULL);
    assert_int_equal(u.status, TG_E_STATE);
    assert_non_null(strstr(u.error, "bound to a thread"));
    assert_int_equal(one_mean(u.r, 2, 2), TG_OK);
    tg_reducer_destroy(u.r);
    tg_transport_destroy(j.t);
}

/* ---- tags ------------------------------------------------------------------------------------ */

static void test_claims(void **state)
{
    (void)state;
    uint8_t a[TG__CLAIM_BYTES] = {0}, b[TG__CLAIM_BYTES] = {0};
    uint32_t first;
    tg__claim_mark(a, 0, 1, true);
    assert_int_equal(tg__claim_find(a, 128, &first), 128);
    assert_int_equal(first, 128);
    tg__claim_mark(a, 128, 128, true);
    assert_int_equal(tg__claim_find(a, 1, &first), 1);
    assert_int_equal(first, 1);
    tg__claim_mark(b, 1, 1, true);
    tg__put32(b, 7);
    tg__claim_merge(a, b);
    assert_int_equal(tg__get32(a), 7);
    assert_int_equal(tg__claim_find(a, 1, &first), 1);
    assert_int_equal(first, 2);
    tg__claim_mark(a, 0, TG__BLOCKS, true);
    assert_int_equal(tg__claim_find(a, 128, &first), 0);
    tg__claim_mark(a, 500, 2, false);
    assert_int_equal(tg__claim_find(a, 128, &first), 2);
    assert_int_equal(first, 500);
    tg__claim_mark(a, 500, 1, true);
    assert_int_equal(tg__claim_find(a, 128, &first), 1);
    assert_int_equal(first, 501);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cross),   cmocka_unit_test(test_orders),
        cmocka_unit_test(test_large),   cmocka_unit_test(test_other_order),
        cmocka_unit_test(test_churn),   cmocka_unit_test(test_crowd),
        cmocka_unit_test(test_threads), cmocka_unit_test(test_bound),
        cmocka_unit_test(test_claims)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
