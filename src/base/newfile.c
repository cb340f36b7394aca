/* A file appears under its name only when it is complete and on the disk. */
#include "base/mem.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void release(tg__newfile *f)
{
    free(f->path);
    free(f->tmp);
    *f = (tg__newfile){0};
}

/* The new name is durable once its directory is. Best effort: some file systems refuse to sync a
 * directory, and the file itself is whole already. */
static void sync_directory(const char *path)
{
    const char *slash = strrchr(path, '/');
    char *dir = slash == path ? strdup("/")
                : slash       ? strndup(path, (size_t)(slash - path))
                              : strdup(".");
    int fd = dir ? open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (fd >= 0) {
        (void)fsync(fd);
        close(fd);
    }
    free(dir);
}

tg_status tg__newfile_open(tg__newfile *f, const char *path)
{
    *f = (tg__newfile){0};
    size_t len = strlen(path);
    f->path = strdup(path);
    f->tmp = malloc(len + sizeof ".tmp");
    if (!f->path || !f->tmp) {
        release(f);
        return tg_fail(TG_E_NOMEM, "out of memory: name of %s", path);
    }
    memcpy(f->tmp, path, len);
    memcpy(f->tmp + len, ".tmp", sizeof ".tmp");
    f->file = fopen(f->tmp, "wbe");
    if (!f->file) {
        tg_status status =
            tg_fail(TG_E_IO, "cannot open %s for writing: %s", f->tmp, strerror(errno));
        release(f);
        return status;
    }
    return TG_OK;
}

tg_status tg__newfile_commit(tg__newfile *f)
{
    const char *step = "write", *target = f->tmp;
    /* A write that failed earlier left its mark, but maybe not its errno. */
    int error = ferror(f->file) ? EIO : 0;
    if (fflush(f->file) != 0)
        error = errno;
    if (!error && fsync(fileno(f->file)) != 0) {
        step = "sync";
        error = errno;
    }
    if (fclose(f->file) != 0 && !error)
        error = errno;
    if (!error && rename(f->tmp, f->path) != 0) {
        step = "rename the new file to";
        target = f->path;
        error = errno;
    }
    tg_status status = TG_OK;
    if (error) {
        unlink(f->tmp);
        status = tg_fail(TG_E_IO, "cannot %s %s: %s", step, target, strerror(error));
    } else {
        sync_directory(f->path);
    }
    release(f);
    return status;
}

void tg__newfile_abandon(tg__newfile *f)
{
    if (f->file) {
        fclose(f->file);
        unlink(f->tmp);
    }
    release(f);
}
