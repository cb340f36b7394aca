/* Threads' signal masks and names, waiting with a deadline. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "base/thread.h"
#include "telegrad/clock.h"
#include <signal.h>
#include <string.h>

static void *read_mask(void *arg)
{
    pthread_sigmask(SIG_SETMASK, NULL, arg);
    return arg;
}

static void signals_are_blocked(void **state)
{
    (void)state;
    sigset_t before, after, inside;
    pthread_t thread;
    void *result;
    pthread_sigmask(SIG_SETMASK, NULL, &before);
    assert_int_equal(tg__thread_start("a name that is too long", read_mask, &inside, &thread),
                     TG_OK);
    pthread_join(thread, &result);
    pthread_sigmask(SIG_SETMASK, NULL, &after);
    assert_ptr_equal(result, &inside);
    assert_true(sigismember(&inside, SIGINT) == 1 && sigismember(&inside, SIGTERM) == 1 &&
                sigismember(&inside, SIGUSR1) == 1);
    assert_int_equal(sigismember(&inside, SIGSEGV), 0);
    for (int s = 1; s < 32; s++)
        assert_int_equal(sigismember(&before, s), sigismember(&after, s));
}

typedef struct gate {
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    bool open;
} gate;

static void *open_gate(void *arg)
{
    gate *g = arg;
    pthread_mutex_lock(&g->mutex);
    g->open = true;
    pthread_cond_signal(&g->cond);
    pthread_mutex_unlock(&g->mutex);
    return NULL;
}

static void waits(void **state)
{
    (void)state;
    const tg_clock *clock = tg_clock_monotonic();
    gate g = {.mutex = PTHREAD_MUTEX_INITIALIZER};
    assert_int_equal(tg__cond_init(&g.cond), TG_OK);

    pthread_mutex_lock(&g.mutex);
    assert_false(tg__cond_wait_until(&g.cond, &g.mutex, -1));
    int64_t until = tg_now_ns(clock) + 2000000;
    while (tg__cond_wait_until(&g.cond, &g.mutex, until))
        continue; /* a spurious wakeup */
    assert_true(tg_now_ns(clock) >= until);

    pthread_t thread;
    assert_int_equal(tg__thread_start("gate", open_gate, &g, &thread), TG_OK);
    while (!g.open)
        assert_true(tg__cond_wait_until(&g.cond, &g.mutex, INT64_MAX));
    pthread_mutex_unlock(&g.mutex);
    pthread_join(thread, NULL);
    pthread_cond_destroy(&g.cond);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(signals_are_blocked),
        cmocka_unit_test(waits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
