#include "base/sized.h"
#include "base/virtual_clock.h"
#include <errno.h>
#include <time.h>

#define NS_PER_S INT64_C(1000000000)

static int64_t monotonic_now_ns(void *arg)
{
    (void)arg;
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * NS_PER_S + t.tv_nsec;
}

static void monotonic_sleep_until_ns(void *arg, int64_t when_ns)
{
    (void)arg;
    if (when_ns <= 0)
        return;
    struct timespec t = {.tv_sec = (time_t)(when_ns / NS_PER_S),
                         .tv_nsec = (long)(when_ns % NS_PER_S)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR)
        continue;
}

tg_status tg__clock_check(const char *what, const tg_clock *clock)
{
    TG_TRY(tg__sized_check(what, clock, sizeof *clock, TG__FIRST_SIZE(tg_clock, work)));
    if (!clock->now_ns || !clock->sleep_until_ns)
        return tg_fail(TG_E_ARG, "%s: %s is NULL", what,
                       clock->now_ns ? "sleep_until_ns" : "now_ns");
    return TG_OK;
}

const tg_clock *tg_clock_monotonic(void)
{
    static const tg_clock clock = {
        .struct_size = sizeof(tg_clock),
        .now_ns = monotonic_now_ns,
        .sleep_until_ns = monotonic_sleep_until_ns,
    };
    return &clock;
}
