/* Preloaded into a program (LD_PRELOAD), this makes the system's time jump from a day ahead to a
 * day behind and back, every three times that it is read. The monotonic clock stays as it is. */
#include <stdatomic.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

enum { DAY = 86400, READS = 3 };

static void jump(struct timespec *t)
{
    static atomic_uint reads;
    t->tv_sec += atomic_fetch_add(&reads, 1) / READS % 2 == 0 ? DAY : -DAY;
}

EXPORT int clock_gettime(clockid_t id, struct timespec *t)
{
    const int failed = (int)syscall(SYS_clock_gettime, id, t);
    if (failed == 0 && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE))
        jump(t);
    return failed;
}

EXPORT int timespec_get(struct timespec *t, int base)
{
    return base == TIME_UTC && clock_gettime(CLOCK_REALTIME, t) == 0 ? base : 0;
}

EXPORT int gettimeofday(struct timeval *restrict t, void *restrict zone)
{
    struct timespec now;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &now) != 0)
        return -1;
    t->tv_sec = now.tv_sec;
    t->tv_usec = now.tv_nsec / 1000;
    return 0;
}

EXPORT time_t time(time_t *t)
{
    struct timespec now;
    if (clock_gettime(CLOCK_REALTIME, &now) != 0)
        return -1;
    if (t != NULL)
        *t = now.tv_sec;
    return now.tv_sec;
}
