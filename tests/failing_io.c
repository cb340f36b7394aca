/* Preloaded into a program (LD_PRELOAD), this makes one system call fail on files of one name.
 *
 *     FAILING_IO=fsync:5:step-000000000004.tmp/rank    CALL:ERRNO:PART, part of the path
 *
 * CALL is write, fsync, close, rename, mkdir or readdir; for rename either path may match. With
 * FAILING_IO_AFTER=N the first N of these calls succeed. */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

/* Whether calls that match still succeed. */
static bool spared(void)
{
    static atomic_long matched;
    const char *after = getenv("FAILING_IO_AFTER");
    return after && atomic_fetch_add(&matched, 1) < atol(after);
}

/* The errno with which `call` fails on path; 0: it may proceed. */
static int failure(const char *call, const char *path)
{
    const char *wanted = getenv("FAILING_IO");
    const size_t len = strlen(call);
    char *end;
    if (!wanted || strncmp(wanted, call, len) != 0 || wanted[len] != ':')
        return 0;
    const long error = strtol(wanted + len + 1, &end, 10);
    return *end == ':' && strstr(path, end + 1) && !spared() ? (int)error : 0;
}

static int failure_of(const char *call, int fd)
{
    char link[64], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    const ssize_t len = readlink(link, path, sizeof path - 1);
    if (len < 0)
        return 0;
    path[len] = '\0';
    return failure(call, path);
}

static int fail_with(int error)
{
    errno = error;
    return -1;
}

/* Find the next function of that name, which this file overrides. */
static void behind(const char *name, void *function_p)
{
    void *found = dlsym(RTLD_NEXT, name);
    if (!found)
        abort();
    memcpy(function_p, &found, sizeof found);
}

EXPORT ssize_t write(int fd, const void *bytes, size_t len)
{
    ssize_t (*next)(int, const void *, size_t);
    const int error = failure_of("write", fd);
    behind("write", &next);
    return error ? fail_with(error) : next(fd, bytes, len);
}

EXPORT int fsync(int fd)
{
    int (*next)(int);
    const int error = failure_of("fsync", fd);
    behind("fsync", &next);
    return error ? fail_with(error) : next(fd);
}

/* As in the kernel, the descriptor is closed even if close fails. */
EXPORT int close(int fd)
{
    int (*next)(int);
    const int error = failure_of("close", fd);
    behind("close", &next);
    const int result = next(fd);
    return error ? fail_with(error) : result;
}

EXPORT int rename(const char *from, const char *to)
{
    int (*next)(const char *, const char *);
    const int a = failure("rename", from), b = failure("rename", to);
    behind("rename", &next);
    return a || b ? fail_with(a ? a : b) : next(from, to);
}

EXPORT int mkdir(const char *path, mode_t mode)
{
    int (*next)(const char *, mode_t);
    const int error = failure("mkdir", path);
    behind("mkdir", &next);
    return error ? fail_with(error) : next(path, mode);
}

EXPORT struct dirent *readdir(DIR *dir)
{
    struct dirent *(*next)(DIR *);
    const int error = failure_of("readdir", dirfd(dir));
    behind("readdir", &next);
    if (!error)
        return next(dir);
    errno = error;
    return NULL;
}
