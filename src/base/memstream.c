#include "base/memstream.h"
#include "base/mem.h"
#include <stdlib.h>
#include <string.h>
/* MSan does not see what the C library writes into the buffer of a stream. */
#ifdef __has_feature
#if __has_feature(memory_sanitizer)
#include <sanitizer/msan_interface.h>
#define KNOW_BYTES(bytes, len) __msan_unpoison(bytes, len)
#endif
#endif
#ifndef KNOW_BYTES
#define KNOW_BYTES(bytes, len) (void)0
#endif

typedef struct sink {
    char **text_p;
    size_t *len_p;
    char *bytes; /* (cap), of which len are written */
    size_t len, cap;
    bool failed;
} sink;

/* Not tg__grow, which would replace the thread's message. */
static bool make_room(sink *s, size_t need)
{
    if (need <= s->cap)
        return true;
    const size_t cap = TG__MAX(2 * s->cap, need);
    char *bytes = realloc(s->bytes, cap);
    if (bytes == NULL)
        return false;
    s->bytes = bytes;
    s->cap = cap;
    return true;
}

static ssize_t sink_write(void *to, const char *bytes, size_t len)
{
    sink *s = to;
    s->failed = s->failed || !make_room(s, s->len + len + 1);
    if (s->failed)
        return 0;
    KNOW_BYTES(bytes, len);
    if (len > 0) /* musl flushes by writing nothing, from NULL */
        memcpy(s->bytes + s->len, bytes, len);
    s->len += len;
    return (ssize_t)len;
}

static int sink_close(void *to)
{
    sink *s = to;
    if (s->bytes == NULL) /* nothing was written: make room for the zero byte */
        (void)sink_write(s, "", 0);
    const bool ok = !s->failed;
    if (ok) {
        char *exact = realloc(s->bytes, s->len + 1); /* a large image keeps no room to grow */
        *s->text_p = exact != NULL ? exact : s->bytes;
        (*s->text_p)[s->len] = '\0';
        *s->len_p = s->len;
    } else {
        free(s->bytes);
    }
    free(s);
    return ok ? 0 : -1;
}

FILE *tg__memstream_open(char **text_p, size_t *len_p)
{
    static const cookie_io_functions_t functions = {.write = sink_write, .close = sink_close};
    *text_p = NULL;
    *len_p = 0;
    sink *s = malloc(sizeof *s);
    if (s == NULL)
        return NULL;
    *s = (sink){.text_p = text_p, .len_p = len_p};
    FILE *file = fopencookie(s, "wb", functions);
    if (file == NULL)
        free(s);
    return file;
}

tg_status tg__memstream_close(FILE *file, char **text_p)
{
    const bool failed = file == NULL || ferror(file) != 0;
    if ((file != NULL && fclose(file) != 0) || failed || *text_p == NULL) {
        free(*text_p);
        *text_p = NULL;
        return tg_fail(TG_E_NOMEM, "out of memory: a text");
    }
    return TG_OK;
}
