/* The pool: every task runs once, for any caller and any number of threads. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "base/mem.h"
#include "base/pool.h"
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

enum { TASKS = 1000 };

typedef struct marks {
    atomic_int count[TASKS];
    tg__pool *pool;
} marks;

static void mark(void *arg, size_t i)
{
    atomic_fetch_add(&((marks *)arg)->count[i], 1);
}

static tg__pool *create(unsigned threads)
{
    tg__pool *pool = NULL;
    assert_int_equal(tg__pool_create(threads, &pool), TG_OK);
    assert_int_equal(tg__pool_threads(pool), threads);
    return pool;
}

static void every_task_once(void **state)
{
    (void)state;
    static marks m;
    for (unsigned threads = 1; threads <= 5; threads++) {
        tg__pool *pool = create(threads);
        for (size_t tasks = 0; tasks <= TASKS; tasks += tasks < 10 ? 1 : 330) {
            memset(&m, 0, sizeof m);
            tg__pool_run(pool, tasks, mark, &m);
            for (size_t i = 0; i < TASKS; i++)
                assert_int_equal(m.count[i], i < tasks);
        }
        tg__pool_destroy(pool);
    }
}

/* Tasks so short that threads come late, loop after loop: each loop reads what the previous one
 * wrote. */
static void chain(void *arg, size_t i)
{
    ((uint32_t *)arg)[i] = ((uint32_t *)arg)[i] * 31 + (uint32_t)i;
}

static void many_short_loops(void **state)
{
    (void)state;
    enum { LOOPS = 20000 };
    uint32_t x[7] = {0}, want[7] = {0};
    tg__pool *pool = create(3);
    for (int loop = 0; loop < LOOPS; loop++) {
        tg__pool_run(pool, TG_COUNT(x), chain, x);
        for (size_t i = 0; i < TG_COUNT(want); i++)
            chain(want, i);
    }
    tg__pool_destroy(pool);
    assert_memory_equal(x, want, sizeof x);
}

static void one_thread_needs_no_pool(void **state)
{
    (void)state;
    assert_null(create(1));
    tg__pool_destroy(NULL);
    tg__pool_destroy(create(4)); /* before it was ever used */
}

static void numbers_of_threads_are_checked(void **state)
{
    (void)state;
    tg__pool *pool = NULL;
    assert_int_equal(tg__pool_create(0, &pool), TG_E_ARG);
    assert_int_equal(tg__pool_create(TG__POOL_MAX + 1, &pool), TG_E_ARG);
    assert_non_null(strstr(tg_error(), "threads=257: allowed: 1 to 256"));
    assert_null(pool);
}

/* ---- several callers ------------------------------------------------------------------------- */

static void *call_often(void *arg)
{
    marks *m = arg;
    for (int round = 0; round < 50; round++)
        tg__pool_run(m->pool, TASKS, mark, m);
    return NULL;
}

static void callers_share_a_pool(void **state)
{
    (void)state;
    static marks m[3];
    pthread_t thread[TG_COUNT(m)];
    tg__pool *pool = create(3);
    for (size_t t = 0; t < TG_COUNT(m); t++) {
        m[t].pool = pool;
        assert_int_equal(pthread_create(&thread[t], NULL, call_often, &m[t]), 0);
    }
    for (size_t t = 0; t < TG_COUNT(m); t++)
        pthread_join(thread[t], NULL);
    tg__pool_destroy(pool);
    for (size_t t = 0; t < TG_COUNT(m); t++)
        for (size_t i = 0; i < TASKS; i++)
            assert_int_equal(m[t].count[i], 50);
}

typedef struct nest {
    tg__pool *pool;
    marks inner[4];
} nest;

static void call_inside(void *arg, size_t i)
{
    nest *n = arg;
    tg__pool_run(n->pool, TASKS, mark, &n->inner[i]);
}

static void a_task_may_call(void **state)
{
    (void)state;
    static nest n;
    n.pool = create(2);
    tg__pool_run(n.pool, TG_COUNT(n.inner), call_inside, &n);
    tg__pool_destroy(n.pool);
    for (size_t t = 0; t < TG_COUNT(n.inner); t++)
        for (size_t i = 0; i < TASKS; i++)
            assert_int_equal(n.inner[t].count[i], 1);
}

/* ---- chunks ---------------------------------------------------------------------------------- */

enum { N = 5000 };

typedef struct cover {
    size_t n, chunk;
    atomic_int seen[N];
    atomic_int wrong, calls;
} cover;

static void cover_range(void *arg, size_t lo, size_t hi)
{
    cover *c = arg;
    atomic_fetch_add(&c->calls, 1);
    if (lo % c->chunk != 0 || (hi % c->chunk != 0 && hi != c->n) || lo >= hi)
        atomic_store(&c->wrong, 1);
    for (size_t i = lo; i < hi; i++)
        atomic_fetch_add(&c->seen[i], 1);
}

static void chunks_cover_all(void **state)
{
    (void)state;
    static const size_t ns[] = {0, 1, 15, 16, 17, 160, 1601, N};
    static cover c;
    for (unsigned threads = 1; threads <= 4; threads++) {
        tg__pool *pool = create(threads);
        for (size_t k = 0; k < TG_COUNT(ns); k++) {
            memset(&c, 0, sizeof c);
            c.n = ns[k];
            c.chunk = 16;
            tg__pool_chunks(pool, c.n, c.chunk, cover_range, &c);
            assert_int_equal(c.wrong, 0);
            for (size_t i = 0; i < N; i++)
                assert_int_equal(c.seen[i], i < c.n);
            if (c.n == 0 || threads == 1)
                assert_int_equal(c.calls, c.n > 0);
            if (c.n == N && threads > 1)
                assert_true(c.calls > (int)threads);
        }
        tg__pool_destroy(pool);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_task_once),
        cmocka_unit_test(many_short_loops),
        cmocka_unit_test(one_thread_needs_no_pool),
        cmocka_unit_test(numbers_of_threads_are_checked),
        cmocka_unit_test(callers_share_a_pool),
        cmocka_unit_test(a_task_may_call),
        cmocka_unit_test(chunks_cover_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
