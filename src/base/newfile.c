/* A file appears under its name only when it is complete and on disk. A target that is not a
 * regular file, or is this process's own output, has no such moment and is written directly. */
#include "base/arg.h"
#include "telegrad/tools.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define LINKS_MAX 40 /* the kernel's limit */
#define BUFFER_BYTES ((size_t)1 << 16)

typedef struct sink {
    int fd, *error_p;
} sink;

static ssize_t sink_write(void *to, const char *bytes, size_t len)
{
    const sink *s = to;
    size_t done = 0;
    while (done < len) {
        const ssize_t n = write(s->fd, bytes + done, len - done);
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

struct tg_newfile {
    FILE *file;
    char *path, *aside;
    bool growing; /* a regular file, written directly under its own name */
    int fd, error;
};

/* Takes ownership of fd, even on failure. */
static bool open_stream(tg_newfile *f, int fd)
{
    if (fd < 0)
        return false;
    f->fd = fd;
    f->file = tg_stream_open(fd, &f->error);
    if (!f->file) {
        close(fd);
        errno = ENOMEM;
        return false;
    }
    (void)setvbuf(f->file, NULL, _IOFBF, BUFFER_BYTES);
    return true;
}

FILE *tg_newfile_stream(const tg_newfile *f)
{
    return f ? f->file : NULL;
}

const char *tg_newfile_path(const tg_newfile *f)
{
    return f ? f->path : NULL;
}

const char *tg_newfile_aside(const tg_newfile *f)
{
    return f ? f->aside : NULL;
}

static void release(tg_newfile *f)
{
    free(f->path);
    free(f->aside);
    free(f);
}

/* The new name is durable once its directory is synced. Best effort: some file systems refuse to
 * sync a directory, and the file itself is complete already. */
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

/* Follow the symbolic links at the end of path, even if the target does not exist. NULL: out of
 * memory */
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

/* The descriptor of standard output or error if it is this file, else -1. */
static int standard_fd(const struct stat *info)
{
    struct stat own;
    for (int fd = STDOUT_FILENO; fd <= STDERR_FILENO; fd++)
        if (fstat(fd, &own) == 0 && same_file(info, &own))
            return fd;
    return -1;
}

/* Open the file directly; if it is a standard descriptor, duplicate that, so that both share one
 * offset and nothing is overwritten. */
static int open_as_it_is(const char *path, int standard)
{
    return standard < 0 ? open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)
                        : fcntl(standard, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
}

/* Create a new file. A leftover of a crash under that name is removed, and a link is not
 * followed. */
static int open_aside(const char *tmp)
{
    (void)unlink(tmp);
    return open(tmp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
}

typedef struct target {
    char *path;   /* the target of the links at the end of the name; owned */
    bool aside;   /* a regular file, or not existing: it is replaced by a new one */
    int standard; /* the descriptor if it is the standard output or error, else -1 */
} target;

/* On success, the caller frees t->path. */
static tg_status find(const char *path, target *t)
{
    struct stat info, found;
    bool exists = stat(path, &info) == 0;
    if (!exists && errno != ENOENT)
        return tg_fail(TG_E_IO, "cannot open %s for writing: %s", path, strerror(errno));
    if (exists && S_ISDIR(info.st_mode))
        return tg_fail(TG_E_IO, "cannot open %s for writing: it is a directory", path);
    *t = (target){.path = follow(path), .standard = exists ? standard_fd(&info) : -1};
    if (!t->path)
        return tg_fail(TG_E_NOMEM, "out of memory: name of %s", path);
    /* Links under /proc/self/fd give a text that may no longer be the file's name. */
    t->aside = !exists || (S_ISREG(info.st_mode) && t->standard < 0 && stat(t->path, &found) == 0 &&
                           same_file(&info, &found));
    return TG_OK;
}

/* Takes ownership of t->path, even on failure. */
static tg_newfile *make(target *t)
{
    tg_newfile *f = calloc(1, sizeof *f);
    if (!f)
        free(t->path);
    else
        f->path = t->path;
    return f;
}

tg_status tg_newfile_open(const char *path, tg_newfile **f_p)
{
    TG__ARG(path);
    TG__ARG(f_p);
    target t;
    TG_TRY(find(path, &t));
    tg_newfile *f = make(&t);
    if (f && t.aside && asprintf(&f->aside, "%s.tmp", f->path) < 0) {
        f->aside = NULL;
        release(f);
        f = NULL;
    }
    if (!f)
        return tg_fail(TG_E_NOMEM, "out of memory: name of %s", path);
    if (open_stream(f, t.aside ? open_aside(f->aside) : open_as_it_is(path, t.standard))) {
        *f_p = f;
        return TG_OK;
    }
    tg_status status = tg_fail(TG_E_IO, "cannot open %s for writing: %s", t.aside ? f->aside : path,
                               strerror(errno));
    release(f);
    return status;
}

/* The folder that holds the file at `path`; cuts off the name. */
static const char *folder(char *path)
{
    char *slash = strrchr(path, '/');
    if (!slash)
        return ".";
    slash[slash == path ? 1 : 0] = '\0';
    return path;
}

tg_status tg_newfile_check(const char *path, bool alone)
{
    TG__ARG(path);
    target t;
    tg_status status = TG_OK;
    TG_TRY(find(path, &t));
    const char *dir = t.aside ? folder(t.path) : NULL;
    if (alone && !t.aside)
        status = tg_fail(TG_E_IO, "%s is no regular file: several processes cannot share it", path);
    else if (dir && access(dir, W_OK) != 0)
        status = tg_fail(TG_E_IO, "cannot write in %s: %s", dir, strerror(errno));
    else if (!dir && t.standard < 0 && access(path, W_OK) != 0)
        status = tg_fail(TG_E_IO, "cannot open %s for writing: %s", path, strerror(errno));
    free(t.path);
    return status;
}

/* Cut off an incomplete last line. */
static tg_status cut_half_line(int fd, const char *path)
{
    char block[4096];
    struct stat info;
    if (fstat(fd, &info) != 0)
        return tg_fail(TG_E_IO, "cannot read %s: %s", path, strerror(errno));
    off_t end = info.st_size;
    while (end > 0) {
        const off_t from = end > (off_t)sizeof block ? end - (off_t)sizeof block : 0;
        const ssize_t got = pread(fd, block, (size_t)(end - from), from);
        if (got != end - from)
            return tg_fail(TG_E_IO, "cannot read %s: %s", path, strerror(got < 0 ? errno : EIO));
        const char *last = memrchr(block, '\n', (size_t)got);
        end = last ? from + (last - block) + 1 : from;
        if (last)
            break;
    }
    if (end != info.st_size && ftruncate(fd, end) != 0)
        return tg_fail(TG_E_IO, "cannot cut the half line at the end of %s: %s", path,
                       strerror(errno));
    return TG_OK;
}

/* Two writers of one file would replace each other's text. The lock belongs to the descriptor; on a
 * file system without locks, nothing is locked. */
static tg_status lock(int fd, int how, const char *path)
{
    if (flock(fd, how | LOCK_NB) != 0 && errno == EWOULDBLOCK)
        return tg_fail(TG_E_IO, "cannot open %s for writing: another run is writing it", path);
    return TG_OK;
}

/* The old contents are removed only if nobody else writes the file. */
static tg_status begin_growing(int fd, const char *path, bool append)
{
    TG_TRY(lock(fd, LOCK_EX, path));
    if (append)
        return cut_half_line(fd, path);
    if (ftruncate(fd, 0) != 0)
        return tg_fail(TG_E_IO, "cannot empty %s: %s", path, strerror(errno));
    return TG_OK;
}

tg_status tg_newfile_open_growing(const char *path, bool append, tg_newfile **f_p)
{
    TG__ARG(path);
    TG__ARG(f_p);
    target t;
    TG_TRY(find(path, &t));
    tg_newfile *f = make(&t);
    if (!f)
        return tg_fail(TG_E_NOMEM, "out of memory: name of %s", path);
    f->growing = t.aside;
    const int flags = O_RDWR | O_CREAT | O_CLOEXEC | (append ? O_APPEND : 0);
    tg_status status =
        open_stream(f, t.aside ? open(f->path, flags, 0666) : open_as_it_is(path, t.standard))
            ? TG_OK
            : tg_fail(TG_E_IO, "cannot open %s for writing: %s", path, strerror(errno));
    if (f->file && t.aside)
        status = begin_growing(f->fd, path, append);
    if (status != TG_OK)
        tg_newfile_abandon(f);
    else
        *f_p = f;
    return status;
}

/* name: the caller's name for the file. */
static tg_status check_unlocked(const char *path, const char *name)
{
    const int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) /* the attempt to write it reports why */
        return TG_OK;
    const tg_status status = lock(fd, LOCK_SH, name);
    close(fd);
    return status;
}

tg_status tg_newfile_check_growing(const char *path)
{
    TG__ARG(path);
    target t;
    TG_TRY(find(path, &t));
    const bool exists = access(t.path, F_OK) == 0;
    tg_status status = TG_OK;
    if (exists && t.aside)
        status = check_unlocked(t.path, path);
    if (status == TG_OK && t.standard < 0 && access(exists ? t.path : folder(t.path), W_OK) != 0)
        status = tg_fail(TG_E_IO, "cannot open %s for writing: %s", path, strerror(errno));
    free(t.path);
    return status;
}

tg_status tg_newfile_commit(tg_newfile *f)
{
    TG__ARG(f);
    const char *step = "write", *written = f->aside ? f->aside : f->path;
    int error = fflush(f->file) != 0 || ferror(f->file) ? EIO : 0;
    if (f->error)
        error = f->error;
    if ((f->aside || f->growing) && !error && fsync(f->fd) != 0) {
        step = "sync";
        error = errno;
    }
    if (fclose(f->file) != 0 && !error)
        error = errno;
    if (f->aside && !error && rename(f->aside, f->path) != 0) {
        step = "rename the new file to";
        written = f->path;
        error = errno;
    }
    tg_status status = TG_OK;
    if (error) {
        if (f->aside)
            unlink(f->aside);
        status = tg_fail(TG_E_IO, "cannot %s %s: %s", step, written, strerror(error));
    } else if (f->aside) {
        sync_directory(f->path);
    }
    release(f);
    return status;
}

void tg_newfile_abandon(tg_newfile *f)
{
    if (!f)
        return;
    if (f->file) {
        fclose(f->file);
        if (f->aside)
            unlink(f->aside);
    }
    release(f);
}
