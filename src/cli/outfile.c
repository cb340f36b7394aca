#include "cli/outfile.h"
#include "cli/stop.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LINKS_MAX 40 /* as the kernel's */

struct target {
    char *path;   /* where the links at the end of the name lead; owned */
    bool aside;   /* a regular file, or nothing yet: to be replaced by a new one */
    int standard; /* the standard output or error if it is that, else -1 */
};

/* Whether or not anything is there. NULL: no memory */
static char *follow(const char *path)
{
    char *at = strdup(path);
    for (int links = 0; at && links < LINKS_MAX; links++) {
        char to[PATH_MAX], *next = NULL;
        ssize_t len = readlink(at, to, sizeof to - 1);
        if (len < 0)
            break;
        to[len] = '\0';
        const char *slash = strrchr(at, '/');
        int dir = slash && to[0] != '/' ? (int)(slash - at) + 1 : 0;
        if (asprintf(&next, "%.*s%s", dir, at, to) < 0)
            next = NULL;
        free(at);
        at = next;
    }
    return at;
}

static bool same_file(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

static int standard_fd(const struct stat *info)
{
    struct stat own;
    for (int fd = STDOUT_FILENO; fd <= STDERR_FILENO; fd++)
        if (fstat(fd, &own) == 0 && same_file(info, &own))
            return fd;
    return -1;
}

/* On success t->path is to be freed. */
static tg_status find(const char *option, const char *path, struct target *t)
{
    struct stat info, found;
    bool exists = stat(path, &info) == 0;
    if (!exists && errno != ENOENT)
        return tg_fail(TG_E_IO, "%s %s: cannot open %s for writing: %s", option, path, path,
                       strerror(errno));
    if (exists && S_ISDIR(info.st_mode))
        return tg_fail(TG_E_IO, "%s %s: is a directory: allowed: a file", option, path);
    *t = (struct target){.path = follow(path), .standard = exists ? standard_fd(&info) : -1};
    if (!t->path)
        return tg_fail(TG_E_NOMEM, "out of memory: name of %s", path);
    /* Names under /proc/self/fd lead to a text that need not be the file's name any more. */
    t->aside = !exists || (S_ISREG(info.st_mode) && t->standard < 0 && stat(t->path, &found) == 0 &&
                           same_file(&info, &found));
    return TG_OK;
}

/* Through a copy of the descriptor if there is one: one offset, so nothing is overwritten. */
static FILE *open_as_it_is(const char *path, int standard)
{
    if (standard < 0)
        return fopen(path, "we");
    int fd = fcntl(standard, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    FILE *file = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (!file && fd >= 0) {
        int error = errno;
        close(fd);
        errno = error;
    }
    return file;
}

static void release(struct outfile *f)
{
    free(f->path);
    free(f->tmp);
    *f = (struct outfile){0};
    stop_guard_file(NULL);
}

tg_status outfile_open(struct outfile *f, const char *option, const char *path)
{
    struct target t;
    *f = (struct outfile){0};
    TG_TRY(find(option, path, &t));
    f->path = t.path;
    if (t.aside && asprintf(&f->tmp, "%s.tmp", t.path) < 0) {
        f->tmp = NULL;
        release(f);
        return tg_fail(TG_E_NOMEM, "out of memory: name of %s", path);
    }
    f->file = t.aside ? fopen(f->tmp, "we") : open_as_it_is(path, t.standard);
    if (!f->file) {
        tg_status status = tg_fail(TG_E_IO, "%s %s: cannot open %s for writing: %s", option, path,
                                   t.aside ? f->tmp : path, strerror(errno));
        release(f);
        return status;
    }
    stop_guard_file(f->tmp);
    return TG_OK;
}

tg_status outfile_commit(struct outfile *f, const char *option)
{
    tg_status status = TG_OK;
    int error = ferror(f->file) ? EIO : 0;
    if (fclose(f->file) != 0 && !error)
        error = errno;
    if (f->tmp && !error && rename(f->tmp, f->path) != 0)
        error = errno;
    if (f->tmp && error)
        (void)unlink(f->tmp);
    if (error)
        status = tg_fail(TG_E_IO, "%s %s: cannot be written: %s", option, f->path, strerror(error));
    release(f);
    return status;
}

void outfile_abandon(struct outfile *f)
{
    (void)fclose(f->file);
    if (f->tmp)
        (void)unlink(f->tmp);
    release(f);
}

/* The folder that the file at `path` is in; cuts the name off. */
static const char *folder(char *path)
{
    char *slash = strrchr(path, '/');
    if (!slash)
        return ".";
    slash[slash == path ? 1 : 0] = '\0';
    return path;
}

tg_status outfile_check(const char *option, const char *path, bool alone)
{
    struct target t;
    tg_status status = TG_OK;
    TG_TRY(find(option, path, &t));
    const char *dir = t.aside ? folder(t.path) : NULL;
    if (alone && !t.aside)
        status = tg_fail(TG_E_IO,
                         "%s %s: is no regular file: allowed: a name that each process "
                         "adds its rank to",
                         option, path);
    else if (dir && access(dir, W_OK) != 0)
        status =
            tg_fail(TG_E_IO, "%s %s: cannot write in %s: %s", option, path, dir, strerror(errno));
    else if (!dir && t.standard < 0 && access(path, W_OK) != 0)
        status = tg_fail(TG_E_IO, "%s %s: cannot be written: %s", option, path, strerror(errno));
    free(t.path);
    return status;
}
