/* Status names and error text, the log, the clock. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "base/mem.h"
#include "base/thread.h"
#include "comma_locale.h"
#include "telegrad/clock.h"
#include <errno.h>
#include <string.h>

static void names(void **state)
{
    (void)state;
    assert_string_equal(tg_status_name(TG_OK), "TG_OK");
    assert_string_equal(tg_status_name(TG_E_PEER), "TG_E_PEER");
    assert_string_equal(tg_status_name(TG_E_UNSUPPORTED), "TG_E_UNSUPPORTED");
    assert_string_equal(tg_status_name(TG_E_STOPPED), "TG_E_STOPPED");
    assert_string_equal(tg_status_name((tg_status)14), "TG_E_?");
    for (int i = 1; i <= 13; i++)
        for (int j = 0; j < i; j++)
            assert_string_not_equal(tg_status_name((tg_status)i), tg_status_name((tg_status)j));
}

static void version(void **state)
{
    (void)state;
    char want[32];
    snprintf(want, sizeof want, "%d.%d.%d", TG_VERSION_MAJOR, TG_VERSION_MINOR, TG_VERSION_PATCH);
    assert_string_equal(tg_version(), want);
}

static tg_status forward(void)
{
    TG_TRY(TG_OK);
    TG_TRY(tg_fail(TG_E_SPACE, "first"));
    return tg_fail(TG_E_ARG, "never reached");
}

static void error_text(void **state)
{
    (void)state;
    assert_int_equal(tg_fail(TG_E_IO, "x=%d: allowed: %s", 7, "y"), TG_E_IO);
    assert_string_equal(tg_error(), "x=7: allowed: y");
    (void)tg_fail(TG_E_PEER, "rank 3: %s", tg_error());
    assert_string_equal(tg_error(), "rank 3: x=7: allowed: y");
    assert_int_equal(forward(), TG_E_SPACE);
    assert_string_equal(tg_error(), "first");
    char big[5000];
    memset(big, 'a', sizeof big - 1);
    big[sizeof big - 1] = '\0';
    (void)tg_fail(TG_E_ARG, "%s", big);
    size_t len = strlen(tg_error());
    assert_true(len > 500 && len < sizeof big);
    assert_string_equal(tg_error() + len - 4, "a...");
}

static void *other_thread(void *arg)
{
    bool *ok = arg;
    *ok = tg_error()[0] == '\0';
    (void)tg_fail(TG_E_ARG, "of the other thread");
    return NULL;
}

static void error_per_thread(void **state)
{
    (void)state;
    bool ok = false;
    pthread_t thread;
    (void)tg_fail(TG_E_ARG, "mine");
    assert_int_equal(tg__thread_start("other", other_thread, &ok, &thread), TG_OK);
    pthread_join(thread, NULL);
    assert_true(ok);
    assert_string_equal(tg_error(), "mine");
}

typedef struct seen {
    int calls;
    tg_log_level level;
    char text[64];
} seen;

static void keep(void *arg, tg_log_level level, const char *message)
{
    seen *s = arg;
    s->calls++;
    s->level = level;
    snprintf(s->text, sizeof s->text, "%s", message);
    tg_log(TG_LOG_ERROR, "from inside"); /* dropped, no deadlock */
}

static void log_messages(void **state)
{
    (void)state;
    seen s = {0};
    tg_log(TG_LOG_INFO, "nobody listens");
    tg_log_set(keep, &s);
    tg_log(TG_LOG_WARN, "step %d", 5);
    assert_int_equal(s.calls, 1);
    assert_int_equal(s.level, TG_LOG_WARN);
    assert_string_equal(s.text, "step 5");
    tg_log(TG_LOG_INFO, "next");
    assert_int_equal(s.calls, 2);
    tg_log_set(NULL, NULL);
    tg_log(TG_LOG_ERROR, "dropped");
    assert_int_equal(s.calls, 2);
}

static void *log_often(void *arg)
{
    (void)arg;
    for (int i = 0; i < 500; i++)
        tg_log(TG_LOG_INFO, "%d", i);
    return NULL;
}

static void log_from_threads(void **state)
{
    (void)state;
    seen s = {0};
    pthread_t threads[3];
    tg_log_set(keep, &s); /* counts without a lock: calls are promised to be serialised */
    for (size_t i = 0; i < TG_COUNT(threads); i++)
        assert_int_equal(tg__thread_start("log", log_often, NULL, &threads[i]), TG_OK);
    for (size_t i = 0; i < TG_COUNT(threads); i++)
        pthread_join(threads[i], NULL);
    tg_log_set(NULL, NULL);
    assert_int_equal(s.calls, 1500);
}

/* Messages have decimal points in every locale, which is the same afterwards, and so is errno. */
static void numbers_in_messages(void **state)
{
    (void)state;
    seen s = {0};
    char own[16];
    if (!comma_locale_enter())
        skip();
    errno = ENOSPC;
    assert_int_equal(tg_fail(TG_E_ARG, "%g, %.2f", 0.5, 1.25), TG_E_ARG);
    assert_int_equal(errno, ENOSPC);
    assert_string_equal(tg_error(), "0.5, 1.25");
    tg_log_set(keep, &s);
    tg_log(TG_LOG_WARN, "%.1f s", 0.5);
    tg_log_set(NULL, NULL);
    assert_int_equal(errno, ENOSPC);
    assert_string_equal(s.text, "0.5 s");
    snprintf(own, sizeof own, "%g", 0.5);
    assert_string_equal(own, "0,5");
    comma_locale_leave();
}

static void clock_moves(void **state)
{
    (void)state;
    const tg_clock *clock = tg_clock_monotonic();
    assert_int_equal(clock->struct_size, sizeof *clock);
    int64_t t0 = tg_now_ns(clock), until = t0 + 2000000;
    assert_true(t0 > 0);
    clock->sleep_until_ns(clock->arg, until);
    assert_true(tg_now_ns(clock) >= until);
    clock->sleep_until_ns(clock->arg, t0); /* in the past: returns at once */
    clock->sleep_until_ns(clock->arg, -5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names),        cmocka_unit_test(version),
        cmocka_unit_test(error_text),   cmocka_unit_test(error_per_thread),
        cmocka_unit_test(log_messages), cmocka_unit_test(log_from_threads),
        cmocka_unit_test(clock_moves),  cmocka_unit_test(numbers_in_messages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
