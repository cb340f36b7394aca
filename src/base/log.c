#include "base/c_locale.h"
#include "telegrad/base.h"
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static pthread_mutex_t log_mutex = PTHREAD_MUTEX_INITIALIZER;
static void (*log_fn)(void *arg, tg_log_level level, const char *message);
static void *log_arg;

/* Messages logged by fn itself on this thread are dropped: they could only deadlock. */
static _Thread_local bool inside_fn;

void tg_log_set(void (*fn)(void *arg, tg_log_level level, const char *message), void *arg)
{
    pthread_mutex_lock(&log_mutex);
    log_fn = fn;
    log_arg = arg;
    pthread_mutex_unlock(&log_mutex);
}

void tg_log(tg_log_level level, const char *format, ...)
{
    if (!format || inside_fn)
        return;
    pthread_mutex_lock(&log_mutex);
    if (log_fn) {
        char text[2048];
        va_list args;
        va_start(args, format);
        int len = tg__vsnprintf(text, sizeof text, format, args);
        va_end(args);
        if (len < 0)
            text[0] = '\0';
        else if ((size_t)len >= sizeof text)
            memcpy(text + sizeof text - 4, "...", 4);
        inside_fn = true;
        log_fn(log_arg, level, text);
        inside_fn = false;
    }
    pthread_mutex_unlock(&log_mutex);
}
