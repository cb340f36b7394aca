#include "base/arg.h"
#include "base/c_locale.h"
#include "telegrad/tools.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define ERROR_BYTES 1024
#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)

static _Thread_local char error_text[ERROR_BYTES];

const char *tg_status_name(tg_status status)
{
    static const char *const names[] = {
        /* by value */
        "TG_OK",        "TG_E_ARG",     "TG_E_SPEC",        "TG_E_NOMEM",  "TG_E_SPACE",
        "TG_E_CORRUPT", "TG_E_VERSION", "TG_E_MISMATCH",    "TG_E_PEER",   "TG_E_NONFINITE",
        "TG_E_STATE",   "TG_E_IO",      "TG_E_UNSUPPORTED", "TG_E_STOPPED"};
    return (size_t)status < TG_COUNT(names) ? names[status] : "TG_E_?";
}

const char *tg_error(void)
{
    return error_text;
}

tg_status tg_fail(tg_status status, const char *format, ...)
{
    /* Format into a buffer first: an argument may be tg_error() itself ("rank 3: <the text so
     * far>"). */
    char text[ERROR_BYTES];
    va_list args;
    va_start(args, format);
    int len = tg__vsnprintf(text, sizeof text, format ? format : tg_status_name(status), args);
    va_end(args);
    if (len < 0)
        text[0] = '\0';
    else if ((size_t)len >= sizeof text)
        memcpy(text + sizeof text - 4, "...", 4);
    memcpy(error_text, text, sizeof text);
    return status;
}

tg_status tg__check_args(const char *call, const char *names, const void *const *ptr)
{
    for (size_t len; *names != '\0'; names += len + strspn(names + len, ", "), ptr++) {
        len = strcspn(names, ",");
        if (*ptr == NULL)
            return tg_fail(TG_E_ARG, "%s: %.*s is NULL", call, (int)len, names);
    }
    return TG_OK;
}

const char *tg_version(void)
{
    return TEXT(TG_VERSION_MAJOR) "." TEXT(TG_VERSION_MINOR) "." TEXT(TG_VERSION_PATCH);
}
