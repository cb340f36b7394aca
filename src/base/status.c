#include "telegrad/base.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define ERROR_BYTES 1024
#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)

static _Thread_local char error_text[ERROR_BYTES];

const char *tg_status_name(tg_status status)
{
    switch (status) {
    case TG_OK:
        return "TG_OK";
    case TG_E_ARG:
        return "TG_E_ARG";
    case TG_E_SPEC:
        return "TG_E_SPEC";
    case TG_E_NOMEM:
        return "TG_E_NOMEM";
    case TG_E_SPACE:
        return "TG_E_SPACE";
    case TG_E_CORRUPT:
        return "TG_E_CORRUPT";
    case TG_E_VERSION:
        return "TG_E_VERSION";
    case TG_E_MISMATCH:
        return "TG_E_MISMATCH";
    case TG_E_PEER:
        return "TG_E_PEER";
    case TG_E_NONFINITE:
        return "TG_E_NONFINITE";
    case TG_E_STATE:
        return "TG_E_STATE";
    case TG_E_IO:
        return "TG_E_IO";
    case TG_E_UNSUPPORTED:
        return "TG_E_UNSUPPORTED";
    case TG_E_STOPPED:
        return "TG_E_STOPPED";
    }
    return "TG_E_?";
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
    int len = vsnprintf(text, sizeof text, format ? format : tg_status_name(status), args);
    va_end(args);
    if (len < 0)
        text[0] = '\0';
    else if ((size_t)len >= sizeof text)
        memcpy(text + sizeof text - 4, "...", 4);
    memcpy(error_text, text, sizeof text);
    return status;
}

const char *tg_version(void)
{
    return TEXT(TG_VERSION_MAJOR) "." TEXT(TG_VERSION_MINOR) "." TEXT(TG_VERSION_PATCH);
}
