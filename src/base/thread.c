#include "base/thread.h"
#include "base/floats.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

tg_status tg__thread_start(const char *name, void *(*run)(void *), void *arg, pthread_t *thread_p)
{
    TG__OWN_FLOATS; /* the new thread inherits them, and the mask */
    const sigset_t blocked = tg__thread_signals();
    sigset_t old;
    pthread_sigmask(SIG_SETMASK, &blocked, &old);
    pthread_t thread;
    int error = pthread_create(&thread, NULL, run, arg);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (error)
        return tg_fail(TG_E_NOMEM, "cannot start thread \"%s\": %s", name, strerror(error));
    char shown[16]; /* the kernel's limit */
    snprintf(shown, sizeof shown, "%.15s", name);
    (void)pthread_setname_np(thread, shown);
    *thread_p = thread;
    return TG_OK;
}

tg_status tg__cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t attr;
    int error = pthread_condattr_init(&attr);
    if (!error) {
        error = pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
        if (!error)
            error = pthread_cond_init(cond, &attr);
        pthread_condattr_destroy(&attr);
    }
    if (error)
        return tg_fail(TG_E_NOMEM, "cannot make a condition variable: %s", strerror(error));
    return TG_OK;
}

bool tg__cond_wait_until(pthread_cond_t *cond, pthread_mutex_t *mutex, int64_t when_ns)
{
    if (when_ns < 0)
        when_ns = 0;
    struct timespec t = {.tv_sec = (time_t)(when_ns / 1000000000),
                         .tv_nsec = (long)(when_ns % 1000000000)};
    return pthread_cond_timedwait(cond, mutex, &t) != ETIMEDOUT;
}
