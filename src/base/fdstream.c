/* A stream that writes to a file descriptor and keeps the reason of the first failed write. */
#include "base/filesize.h"
#include "telegrad/tools.h"
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

typedef struct sink {
    int fd, *error_p;
} sink;

static ssize_t sink_write(void *to, const char *bytes, size_t len)
{
    const sink *s = to;
    size_t done = 0;
    while (done < len) {
        const ssize_t n = tg__write(s->fd, bytes + done, len - done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            *s->error_p = *s->error_p ? *s->error_p : errno;
            break;
        }
        done += (size_t)n;
    }
    return (ssize_t)done;
}

static int sink_seek(void *to, off64_t *at, int whence)
{
    const sink *s = to;
    const off_t now = lseek(s->fd, *at, whence);
    *at = now;
    return now < 0 ? -1 : 0;
}

static int sink_close(void *to)
{
    sink *s = to;
    const int failed = close(s->fd);
    free(s);
    return failed;
}

FILE *tg_stream_open(int fd, int *error_p)
{
    static const cookie_io_functions_t functions = {
        .write = sink_write, .seek = sink_seek, .close = sink_close};
    sink *s = error_p ? malloc(sizeof *s) : NULL;
    if (!s)
        return NULL;
    *s = (sink){fd, error_p};
    *error_p = 0;
    FILE *file = fopencookie(s, "wb", functions);
    if (!file)
        free(s);
    return file;
}
