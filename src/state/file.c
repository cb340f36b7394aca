#include "state/file.h"
#include "telegrad/tools.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

tg_status tg__file_open(const char *path, const char *what, tg__file *f)
{
    uint64_t size;
    const char *why;
    const int fd = tg_read_open(path, TG_READ_REGULAR, &size, &why);
    if (fd < 0)
        return tg_fail(TG_E_IO, "cannot open %s %s: %s", what, path, why);
    *f = (tg__file){.fd = fd, .len = (size_t)size, .path = path, .what = what};
    return TG_OK;
}

void tg__file_close(const tg__file *f)
{
    close(f->fd);
}

tg_status tg__file_get(const tg__file *f, size_t at, void *bytes, size_t len)
{
    uint8_t *to = bytes;
    while (len > 0) {
        const ssize_t got = pread(f->fd, to, len, (off_t)at);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return tg_fail(TG_E_IO, "cannot read %s %s: %s", f->what, f->path,
                           got < 0 ? strerror(errno) : "it became shorter");
        to += got;
        at += (size_t)got;
        len -= (size_t)got;
    }
    return TG_OK;
}

tg_status tg__file_read(const tg__file *f, uint8_t **bytes_p)
{
    uint8_t *bytes;
    TG_TRY(tg_alloc(f->len, 1, &bytes));
    const tg_status status = tg__file_get(f, 0, bytes, f->len);
    if (status == TG_OK)
        *bytes_p = bytes;
    else
        free(bytes);
    return status;
}
