#include "command/output/outfile.h"
#include "command/output/stop.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static tg_status name_option(tg_status status, const char *option)
{
    return status == TG_OK ? TG_OK : tg_fail(status, "%s: %s", option, tg_error());
}

tg_status outfile_open(const char *option, const char *path, tg_newfile **f_p)
{
    TG_TRY(name_option(tg_newfile_open(path, f_p), option));
    stop_guard_file(tg_newfile_aside(*f_p));
    return TG_OK;
}

tg_status outfile_open_growing(const char *option, const char *path, bool append, tg_newfile **f_p)
{
    return name_option(tg_newfile_open_growing(path, append, f_p), option);
}

tg_status outfile_check_growing(const char *option, const char *path)
{
    return name_option(tg_newfile_check_growing(path), option);
}

tg_status outfile_commit(tg_newfile *f, const char *option)
{
    stop_guard_file(NULL);
    return name_option(tg_newfile_commit(f), option);
}

void outfile_abandon(tg_newfile *f)
{
    stop_guard_file(NULL);
    tg_newfile_abandon(f);
}

tg_status outfile_check(const char *option, const char *path, bool alone)
{
    return name_option(tg_newfile_check(path, alone), option);
}

static bool same_inode(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

bool outfile_is_stdout(const char *path)
{
    return path && strcmp(path, "-") == 0;
}

bool outfile_ends_in(const char *path, const char *ending)
{
    const size_t len = strlen(path), n = strlen(ending);
    return len >= n && strcmp(path + len - n, ending) == 0;
}

tg_status outfile_check_old(const char *option, const char *path, size_t at, const char *begins,
                            const char *what)
{
    char text[64];
    struct stat own, old = {0};
    const char *why;
    const size_t len = strlen(begins) < sizeof text ? strlen(begins) : sizeof text;
    const int fd = tg_readfile_open(path, TG_READ_REGULAR, NULL, &why);
    if (fd < 0)
        return TG_OK;
    const ssize_t got = pread(fd, text, len, (off_t)at);
    const bool is_stdout = fstat(fd, &old) == 0 && fstat(STDOUT_FILENO, &own) == 0 &&
                           old.st_dev == own.st_dev && old.st_ino == own.st_ino;
    close(fd);
    if (is_stdout || (got == 0 && old.st_size == 0) ||
        (got > 0 && memcmp(text, begins, (size_t)got) == 0))
        return TG_OK;
    return tg_fail(TG_E_SPEC,
                   "%s %s: the file holds something other than %s, and would be replaced: choose "
                   "another name, or delete it",
                   option, path, what);
}

struct outfile_seen outfile_see(const char *path)
{
    struct stat s;
    if (stat(path, &s) != 0 || !S_ISREG(s.st_mode))
        return (struct outfile_seen){.regular = false};
    return (struct outfile_seen){true, s.st_dev, s.st_ino, s.st_size, s.st_mtim};
}

tg_status outfile_check_unchanged(const char *option, const char *path,
                                  const struct outfile_seen *seen)
{
    const struct outfile_seen now = outfile_see(path);
    const bool same = now.regular == seen->regular && now.device == seen->device &&
                      now.inode == seen->inode && now.size == seen->size &&
                      now.changed.tv_sec == seen->changed.tv_sec &&
                      now.changed.tv_nsec == seen->changed.tv_nsec;
    return same ? TG_OK
                : tg_fail(TG_E_IO,
                          "%s %s: another program has written this file since this run was "
                          "started: choose another file",
                          option, path);
}

tg_status outfile_check_ending(const char *option, const char *path, const char *ending,
                               const char *other)
{
    if (outfile_ends_in(path, ending) || (other && outfile_ends_in(path, other)))
        return TG_OK;
    return tg_fail(TG_E_SPEC, "%s \"%.64s\": allowed: a name that ends in %s%s%s", option, path,
                   ending, other ? " or " : "", other ? other : "");
}

tg_status outfile_check_plain(const char *option, const char *path)
{
    static const char *const endings[] = {".gz", ".xz", ".zst"};
    for (size_t i = 0; i < TG_COUNT(endings); i++)
        if (outfile_ends_in(path, endings[i]))
            return tg_fail(TG_E_SPEC,
                           "%s \"%.64s\": the file is not compressed: allowed: a name without %s "
                           "(compress it once it is complete)",
                           option, path, endings[i]);
    return TG_OK;
}

/* Split a path into its folder and its last part, without slashes at its end. */
static const char *split(const char *path, char folder[PATH_MAX], char name[PATH_MAX])
{
    size_t len = (size_t)snprintf(name, PATH_MAX, "%s", path);
    while (len > 1 && len < PATH_MAX && name[len - 1] == '/')
        name[--len] = '\0';
    const char *slash = strrchr(name, '/');
    snprintf(folder, PATH_MAX, "%.*s", slash ? (int)(slash - name) + 1 : 1, slash ? name : ".");
    return slash ? slash + 1 : name;
}

#define LINKS_MAX 40 /* the kernel's limit */

/* Follow the symbolic links at the end of path, even if the target does not exist. */
static void follow(const char *path, char at[PATH_MAX])
{
    snprintf(at, PATH_MAX, "%s", path);
    for (int links = 0; links < LINKS_MAX; links++) {
        char to[PATH_MAX], from[PATH_MAX];
        const ssize_t len = readlink(at, to, sizeof to - 1);
        if (len < 0)
            return;
        to[len] = '\0';
        memcpy(from, at, sizeof from);
        const char *slash = strrchr(from, '/');
        const int dir = slash && to[0] != '/' ? (int)(slash - from) + 1 : 0;
        if (dir + len >= PATH_MAX)
            return;
        memcpy(at + dir, to, (size_t)len + 1);
    }
}

static tg_status lock_fails(const char *option, const char *path, const char *why)
{
    return tg_fail(TG_E_IO, "%s: cannot open %s for writing: %s", option, path, why);
}

/* Lock the file that lock->path names. A run that ends may remove it between the opening and the
 * lock: *again_p is then set. */
static tg_status try_lock(const char *option, const char *path, struct outfile_lock *lock,
                          bool *again_p)
{
    struct stat own, named;
    const int flags = O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
    *again_p = false;
    lock->fd = open(lock->path, flags, 0666);
    if (lock->fd < 0)
        return lock_fails(option, lock->path, strerror(errno));
    if (flock(lock->fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
        close(lock->fd);
        lock->fd = -1;
        return lock_fails(option, path, "another run is writing it");
    }
    *again_p =
        fstat(lock->fd, &own) != 0 || stat(lock->path, &named) != 0 || !same_inode(&own, &named);
    if (*again_p) {
        close(lock->fd);
        lock->fd = -1;
    }
    return TG_OK;
}

tg_status outfile_lock(const char *option, const char *path, struct outfile_lock *lock)
{
    static const char ending[] = ".telegrad-lock";
    bool again = true;
    *lock = OUTFILE_UNLOCKED;
    follow(path, lock->path);
    if (strlen(lock->path) + sizeof ending > sizeof lock->path)
        return lock_fails(option, path, strerror(ENAMETOOLONG));
    strcat(lock->path, ending);
    for (int tries = 0; again; tries++) {
        TG_TRY(try_lock(option, path, lock, &again));
        if (again && tries == 100)
            return lock_fails(option, path, "another run is writing it");
    }
    return TG_OK;
}

void outfile_unlock(struct outfile_lock *lock)
{
    if (lock->fd < 0)
        return;
    (void)unlink(lock->path); /* before the lock is given up */
    close(lock->fd);
    *lock = OUTFILE_UNLOCKED;
}

bool outfile_same(const char *first, const char *second)
{
    struct stat x, y;
    char a[PATH_MAX], b[PATH_MAX];
    follow(first, a);
    follow(second, b);
    char folder[2][PATH_MAX], name[2][PATH_MAX];
    const bool is_a = stat(a, &x) == 0, is_b = stat(b, &y) == 0;
    if (is_a || is_b) /* a pipe or terminal may be shared */
        return is_a && is_b && same_inode(&x, &y) && (S_ISREG(x.st_mode) || S_ISDIR(x.st_mode));
    if (strcmp(split(a, folder[0], name[0]), split(b, folder[1], name[1])) != 0)
        return false;
    if (stat(folder[0], &x) == 0 && stat(folder[1], &y) == 0)
        return same_inode(&x, &y);
    return strcmp(a, b) == 0;
}
