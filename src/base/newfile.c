/* A file appears under its name only when it is complete and on disk. A target that is not a
 * regular file, or is this process's own output, has no such moment and is written directly. */
#include "base/arg.h"
#include "base/mem.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LINKS_MAX 40 /* the kernel's limit */
#define BUFFER_BYTES ((size_t)1 << 16)

struct tg_newfile {
    FILE *file;
    char *path, *aside;
    bool growing; /* a regular file, written directly under its own name */
    int fd, error;
};

/* Takes ownership of fd, even on failure, and of the file aside, which is new. */
static bool open_stream(tg_newfile *f, int fd)
{
    if (fd < 0)
        return false;
    f->fd = fd;
    f->file = tg_stream_open(fd, &f->error);
    if (!f->file) {
        if (f->aside)
            (void)unlink(f->aside);
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

/* The folder that holds the file at `path`; cuts off the name. */
static const char *folder(char *path)
{
    char *slash = strrchr(path, '/');
    if (!slash)
        return ".";
    slash[slash == path ? 1 : 0] = '\0';
    return path;
}

/* The new name is durable once its directory is synced. Best effort: some file systems refuse to
 * sync a directory, and the file itself is complete already. */
static void sync_directory(const char *path)
{
    TG__FREED char *copy = strdup(path);
    const int fd = copy ? open(folder(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (fd >= 0) {
        (void)fsync(fd);
        close(fd);
    }
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
 * offset and nothing is overwritten. Opening a FIFO without a reader fails, where it would
 * otherwise wait, perhaps for ever; writing to it waits as usual. */
static int open_as_it_is(const char *path, int standard)
{
    if (standard >= 0)
        return fcntl(standard, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NONBLOCK, 0666);
    if (fd >= 0)
        (void)fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
    return fd;
}

static const char *why_not_opened(int error)
{
    return error == ENXIO ? "it is a FIFO that no process reads" : strerror(error);
}

static tg_status busy(const char *path)
{
    return tg_fail(TG_E_IO, "cannot open %s for writing: another run is writing it", path);
}

/* The lock of a file's writer belongs to the open file, so that it holds within one process too.
 * On a file system without locks, nothing is locked. */
static bool lock(int fd)
{
    struct flock all = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    return fcntl(fd, F_OFD_SETLK, &all) == 0 || (errno != EAGAIN && errno != EACCES);
}

/* Look without locking: a lock held for an instant would refuse another writer. */
static bool is_locked(int fd)
{
    struct flock all = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    return fcntl(fd, F_OFD_GETLK, &all) == 0 && all.l_type != F_UNLCK;
}

static bool is_written(const char *path)
{
    const int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
    const bool locked = fd >= 0 && is_locked(fd);
    if (fd >= 0)
        close(fd);
    return locked;
}

/* Create a new file. A leftover of a crash under that name is removed, and a link is not
 * followed. */
static int open_aside(const char *tmp)
{
    (void)unlink(tmp);
    const int fd = open(tmp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (fd >= 0)
        (void)lock(fd); /* nobody else has it: it is new */
    return fd;
}

/* True if the temporary file is still the one that f has open. */
static bool is_own(const tg_newfile *f)
{
    struct stat open_one, named;
    return fstat(f->fd, &open_one) == 0 && lstat(f->aside, &named) == 0 &&
           same_file(&open_one, &named);
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

tg_status tg_newfile_check(const char *path, bool alone)
{
    TG__ARG(path);
    target t;
    tg_status status = TG_OK;
    TG_TRY(find(path, &t));
    const char *dir = t.aside ? folder(t.path) : NULL;
    if (alone && !t.aside)
        status = tg_fail(TG_E_IO,
                         "%s is not a regular file, which a complete new one could replace", path);
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

/* If another program empties the file, which rotates it, the next line is the first. */
static int open_growing(const char *path)
{
    return open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_APPEND, 0666);
}

/* The old contents are removed only if nobody else writes the file. */
static tg_status begin_growing(int fd, const char *path, bool append)
{
    if (!lock(fd))
        return busy(path);
    if (append)
        return cut_half_line(fd, path);
    if (ftruncate(fd, 0) != 0)
        return tg_fail(TG_E_IO, "cannot empty %s: %s", path, strerror(errno));
    return TG_OK;
}

/* growing: write a regular file under its own name */
static tg_status open_file(const char *path, bool growing, bool append, tg_newfile **f_p)
{
    target t;
    TG_TRY(find(path, &t));
    tg_newfile *f = calloc(1, sizeof *f);
    if (!f) {
        free(t.path);
        return tg_fail(TG_E_NOMEM, "out of memory: name of %s", path);
    }
    f->path = t.path;
    f->growing = growing && t.aside;
    tg_status status = TG_OK;
    if (t.aside && !growing && asprintf(&f->aside, "%s.tmp", f->path) < 0) {
        f->aside = NULL;
        status = tg_fail(TG_E_NOMEM, "out of memory: name of %s", path);
    } else if (f->aside && is_written(f->aside)) {
        status = busy(path);
    } else if (!open_stream(f, f->aside     ? open_aside(f->aside)
                               : f->growing ? open_growing(f->path)
                                            : open_as_it_is(path, t.standard))) {
        status = tg_fail(TG_E_IO, "cannot open %s for writing: %s", f->aside ? f->aside : path,
                         why_not_opened(errno));
    } else if (f->growing) {
        status = begin_growing(f->fd, path, append);
    }
    if (status != TG_OK)
        tg_newfile_abandon(f);
    else
        *f_p = f;
    return status;
}

tg_status tg_newfile_open(const char *path, tg_newfile **f_p)
{
    TG__ARGS(path, f_p);
    return open_file(path, false, false, f_p);
}

tg_status tg_newfile_open_growing(const char *path, bool append, tg_newfile **f_p)
{
    TG__ARGS(path, f_p);
    return open_file(path, true, append, f_p);
}

/* Another run may still begin to write the file between this check and the opening, which then
 * fails; nothing is emptied before the file is locked. */
tg_status tg_newfile_check_growing(const char *path)
{
    TG__ARG(path);
    target t;
    TG_TRY(find(path, &t));
    const bool exists = access(t.path, F_OK) == 0;
    tg_status status = TG_OK;
    if (exists && t.aside && is_written(t.path)) /* if it cannot be opened, access says why */
        status = busy(path);
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
    /* A second descriptor keeps the lock: no other writer may come between the closing, which may
     * fail, and the new name. */
    const int held = f->aside ? fcntl(f->fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1) : -1;
    const bool own = !f->aside || is_own(f);
    if (fclose(f->file) != 0 && !error)
        error = errno;
    if (f->aside && own && !error && rename(f->aside, f->path) != 0) {
        step = "rename the new file to";
        written = f->path;
        error = errno;
    }
    tg_status status = TG_OK;
    if (!own) {
        status = busy(f->path);
    } else if (error) {
        if (f->aside)
            unlink(f->aside);
        status = tg_fail(TG_E_IO, "cannot %s %s: %s", step, written, strerror(error));
    } else if (f->aside) {
        sync_directory(f->path);
    }
    if (held >= 0)
        close(held);
    release(f);
    return status;
}

void tg_newfile_abandon(tg_newfile *f)
{
    if (!f)
        return;
    if (f->file) {
        if (f->aside && is_own(f))
            unlink(f->aside);
        fclose(f->file);
    }
    release(f);
}
