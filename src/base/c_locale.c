#include "base/c_locale.h"
#include <errno.h>
#include <pthread.h>
#include <stdio.h>

/* Created once and never freed. */
static locale_t c_locale;
static pthread_once_t c_locale_once = PTHREAD_ONCE_INIT;

static void make_c_locale(void)
{
    c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

locale_t tg__c_locale_enter(void)
{
    const int error = errno;
    pthread_once(&c_locale_once, make_c_locale);
    const locale_t before = uselocale(c_locale);
    errno = error;
    return before;
}

void tg__c_locale_leave(locale_t before)
{
    const int error = errno;
    uselocale(before);
    errno = error;
}

int tg__vsnprintf(char *text, size_t room, const char *format, va_list args)
{
    const int error = errno;
    const locale_t before = tg__c_locale_enter();
    const int len = vsnprintf(text, room, format, args);
    tg__c_locale_leave(before);
    errno = error;
    return len;
}

int tg__snprintf(char *text, size_t room, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const int len = tg__vsnprintf(text, room, format, args);
    va_end(args);
    return len;
}
