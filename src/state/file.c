#include "state/file.h"
#include "telegrad/tools.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

tg_status tg__file_open(const char *path, const char *what, tg__file *f)
{
    uint64_t size;
    const char *why;
    const int fd = tg_readfile_open(path, TG_READ_REGULAR, &size, &why);
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
    TG__FREED uint8_t *bytes = NULL;
    TG_TRY(tg_alloc(f->len, 1, &bytes));
    TG_TRY(tg__file_get(f, 0, bytes, f->len));
    *bytes_p = bytes;
    bytes = NULL; /* it is the caller's */
    return TG_OK;
}

static tg_status make_dir(const char *path)
{
    if (mkdir(path, 0777) == 0 || errno == EEXIST)
        return TG_OK; /* if a file is in the way, opening a file below it fails */
    return tg_fail(TG_E_IO, "cannot make folder %s: %s", path, strerror(errno));
}

tg_status tg__folder_make(const char *path)
{
    TG__FREED char *copy = strdup(path);
    if (!copy)
        return tg_fail(TG_E_NOMEM, "out of memory: name of %s", path);
    for (char *slash = strchr(copy + (*copy == '/'), '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        TG_TRY(make_dir(copy));
        *slash = '/';
    }
    return make_dir(copy);
}

tg_status tg__folder_sync(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    /* Some file systems refuse to sync a folder; that is not an error. */
    bool ok = fd >= 0 && (fsync(fd) == 0 || errno == EINVAL || errno == ENOTSUP);
    int error = errno;
    if (fd >= 0)
        close(fd);
    return ok ? TG_OK : tg_fail(TG_E_IO, "cannot sync folder %s: %s", path, strerror(error));
}
