/* A disk that loses what was not synced: the calls of the library that change files below a disk's
 * folder are wrapped by the linker (--wrap, cmake/tests.cmake). The files are real ones; what would
 * be left of them after a power failure is kept beside. One thread at a time. */
#ifndef TESTS_CHAOS_DISK_H
#define TESTS_CHAOS_DISK_H

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DISKS = 4, FILES = 128, NAME = 40, SECTOR = 512, FDS = 1024 };

/* A file, whatever its names are. */
typedef struct file {
    int fd;        /* to read it with; 0: not in use */
    uint8_t *safe; /* (len) what is on disk for certain */
    size_t len;
} file;

typedef struct name_of {
    char name[NAME]; /* "": not in use */
    int file;
} name_of;

/* A change of the folder that is not on disk for certain. */
typedef struct change {
    char gone[NAME], name[NAME]; /* "": none */
    int file;
} change;

typedef struct disk {
    char folder[64];
    file file[FILES];
    name_of now[FILES], safe[FILES];
    change change[FILES];
    size_t changes;
    bool dead; /* its server has died: nothing is written any more */
    bool full;
    long dies_in; /* so many calls; 0: it does not */
    uint64_t syncs;
    unsigned (*draw)(unsigned below);
    void (*on_death)(void *arg);
    void *arg;
} disk;

static disk *the_disks[DISKS];
static struct {
    disk *disk;
    int file; /* -1: the folder */
} of_fd[FDS];

/* ---- names ----------------------------------------------------------------------------------- */

static disk *disk_of(const char *path, const char **name_p)
{
    for (int i = 0; i < DISKS; i++) {
        const size_t len = the_disks[i] == NULL ? 0 : strlen(the_disks[i]->folder);
        if (len == 0 || strncmp(path, the_disks[i]->folder, len) != 0)
            continue;
        *name_p = path[len] == '/' ? path + len + 1 : "";
        if ((path[len] == '/' || path[len] == '\0') && strcmp(*name_p, "..") != 0)
            return the_disks[i];
    }
    return NULL;
}

static name_of *find_name(name_of *in, const char *name)
{
    for (int i = 0; i < FILES; i++)
        if (strcmp(in[i].name, name) == 0)
            return &in[i];
    return NULL;
}

static void set_name(name_of *in, const char *name, int to)
{
    name_of *n = find_name(in, name);
    n = n == NULL ? find_name(in, "") : n;
    if (n == NULL)
        abort();
    snprintf(n->name, sizeof n->name, "%s", name);
    n->file = to;
}

static void forget_name(name_of *in, const char *name)
{
    name_of *n = find_name(in, name);
    if (n != NULL)
        n->name[0] = '\0';
}

static void apply(name_of *in, const change *c)
{
    if (*c->gone != '\0')
        forget_name(in, c->gone);
    if (*c->name != '\0')
        set_name(in, c->name, c->file);
}

static bool is_named(const name_of *in, int number)
{
    for (int i = 0; i < FILES; i++)
        if (in[i].name[0] != '\0' && in[i].file == number)
            return true;
    return false;
}

static void end_file(file *f)
{
    if (f->fd > 0)
        close(f->fd);
    free(f->safe);
    *f = (file){.fd = 0};
}

/* Files that no name leads to, and that nobody has open. */
static void collect(disk *d)
{
    for (int i = 0; i < FILES; i++) {
        bool used = is_named(d->now, i) || is_named(d->safe, i);
        for (size_t k = 0; k < d->changes; k++)
            used |= d->change[k].name[0] != '\0' && d->change[k].file == i;
        for (int fd = 0; fd < FDS; fd++)
            used |= of_fd[fd].disk == d && of_fd[fd].file == i;
        if (!used)
            end_file(&d->file[i]);
    }
}

static void note_change(disk *d, const char *gone, const char *name, int to)
{
    if (d->changes == FILES)
        abort();
    change *c = &d->change[d->changes++];
    *c = (change){.file = to};
    snprintf(c->gone, sizeof c->gone, "%s", gone);
    snprintf(c->name, sizeof c->name, "%s", name);
    apply(d->now, c);
}

/* ---- what is wrapped ------------------------------------------------------------------------- */

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
int __real_close(int fd);
int __wrap_close(int fd);
ssize_t __real_write(int fd, const void *bytes, size_t len);
ssize_t __wrap_write(int fd, const void *bytes, size_t len);
ssize_t __real_pwrite(int fd, const void *bytes, size_t len, off_t at);
ssize_t __wrap_pwrite(int fd, const void *bytes, size_t len, off_t at);
int __real_ftruncate(int fd, off_t len);
int __wrap_ftruncate(int fd, off_t len);
int __real_fsync(int fd);
int __wrap_fsync(int fd);
int __wrap_fdatasync(int fd);
int __real_fdatasync(int fd);
int __real_rename(const char *from, const char *to);
int __wrap_rename(const char *from, const char *to);
int __real_unlink(const char *path);
int __wrap_unlink(const char *path);
int __real_unlinkat(int folder, const char *name, int flags);
int __wrap_unlinkat(int folder, const char *name, int flags);
DIR *__real_opendir(const char *path);
DIR *__wrap_opendir(const char *path);
int __real_closedir(DIR *d);
int __wrap_closedir(DIR *d);

static bool refuses(disk *d)
{
    if (!d->dead && d->dies_in > 0 && --d->dies_in == 0) {
        d->dead = true;
        d->on_death(d->arg);
    }
    errno = EIO;
    return d->dead;
}

static disk *fd_disk(int fd)
{
    return fd >= 0 && fd < FDS ? of_fd[fd].disk : NULL;
}

static int watch(int fd, disk *d, int number)
{
    if (fd >= FDS)
        abort();
    if (fd >= 0) {
        of_fd[fd].disk = d;
        of_fd[fd].file = number;
    }
    return fd;
}

/* A file that has just been made. */
static int add_file(disk *d, const char *name)
{
    char path[2 * NAME + 64];
    collect(d);
    int number = 0;
    while (number < FILES && d->file[number].fd > 0)
        number++;
    if (number == FILES)
        abort();
    snprintf(path, sizeof path, "%s/%s", d->folder, name);
    d->file[number] = (file){.fd = __real_open(path, O_RDONLY | O_CLOEXEC)};
    return number;
}

int __wrap_open(const char *path, int flags, ...)
{
    const char *name;
    disk *d = disk_of(path, &name);
    va_list more;
    va_start(more, flags);
    const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(more, mode_t) : 0;
    va_end(more);
    if (d == NULL)
        return __real_open(path, flags, mode);
    if (refuses(d))
        return -1;
    const int fd = __real_open(path, flags, mode);
    if (fd < 0 || *name == '\0')
        return watch(fd, d, -1);
    if (find_name(d->now, name) == NULL)
        note_change(d, "", name, add_file(d, name));
    return watch(fd, d, find_name(d->now, name)->file);
}

int __wrap_close(int fd)
{
    if (fd_disk(fd) != NULL)
        of_fd[fd].disk = NULL;
    return __real_close(fd);
}

/* How much of a write reaches the file. */
static size_t share(disk *d, size_t len)
{
    const bool was_dead = d->dead, dies = refuses(d);
    if (dies || d->full)
        return was_dead ? 0 : len * d->draw(4) / 4;
    return len;
}

ssize_t __wrap_write(int fd, const void *bytes, size_t len)
{
    disk *d = fd_disk(fd);
    const size_t some = d == NULL ? len : share(d, len);
    if (some > 0 || len == 0)
        return __real_write(fd, bytes, some);
    errno = d->full && !d->dead ? ENOSPC : EIO;
    return -1;
}

ssize_t __wrap_pwrite(int fd, const void *bytes, size_t len, off_t at)
{
    disk *d = fd_disk(fd);
    if (d != NULL && refuses(d))
        return -1;
    return __real_pwrite(fd, bytes, len, at);
}

int __wrap_ftruncate(int fd, off_t len)
{
    disk *d = fd_disk(fd);
    return d != NULL && refuses(d) ? -1 : __real_ftruncate(fd, len);
}

/* A full disk may find out only now that there is no room. */
static int sync_all(disk *d, int fd)
{
    if (refuses(d) || (d->full && d->draw(2) == 0))
        return -1;
    d->syncs++;
    if (of_fd[fd].file < 0) {
        memcpy(d->safe, d->now, sizeof d->safe);
        d->changes = 0;
        return 0;
    }
    file *f = &d->file[of_fd[fd].file];
    struct stat info;
    if (fstat(f->fd, &info) != 0)
        abort();
    f->len = (size_t)info.st_size;
    f->safe = realloc(f->safe, f->len + 1);
    if (f->safe == NULL || pread(f->fd, f->safe, f->len, 0) != (ssize_t)f->len)
        abort();
    return 0;
}

int __wrap_fsync(int fd)
{
    disk *d = fd_disk(fd);
    return d == NULL ? __real_fsync(fd) : sync_all(d, fd);
}

int __wrap_fdatasync(int fd)
{
    disk *d = fd_disk(fd);
    return d == NULL ? __real_fdatasync(fd) : sync_all(d, fd);
}

int __wrap_rename(const char *from, const char *to)
{
    const char *name, *target;
    disk *d = disk_of(from, &name);
    if (d == NULL || disk_of(to, &target) != d)
        return __real_rename(from, to);
    if (refuses(d) || __real_rename(from, to) != 0)
        return -1;
    note_change(d, name, target, find_name(d->now, name)->file);
    return 0;
}

static int remove_name(disk *d, const char *name, int done)
{
    if (done == 0 && find_name(d->now, name) != NULL)
        note_change(d, name, "", -1);
    return done;
}

int __wrap_unlink(const char *path)
{
    const char *name;
    disk *d = disk_of(path, &name);
    if (d == NULL)
        return __real_unlink(path);
    return refuses(d) ? -1 : remove_name(d, name, __real_unlink(path));
}

int __wrap_unlinkat(int folder, const char *name, int flags)
{
    disk *d = fd_disk(folder);
    if (d == NULL)
        return __real_unlinkat(folder, name, flags);
    return refuses(d) ? -1 : remove_name(d, name, __real_unlinkat(folder, name, flags));
}

DIR *__wrap_opendir(const char *path)
{
    const char *name;
    disk *d = disk_of(path, &name);
    DIR *opened = __real_opendir(path);
    if (d != NULL && opened != NULL)
        (void)watch(dirfd(opened), d, -1);
    return opened;
}

int __wrap_closedir(DIR *d)
{
    const int fd = dirfd(d);
    if (fd_disk(fd) != NULL)
        of_fd[fd].disk = NULL;
    return __real_closedir(d);
}

/* ---- a power failure ------------------------------------------------------------------------- */

/* What a file has afterwards: of each sector, what is certain or what was written last. */
static uint8_t *leftover(const disk *d, const file *f, size_t *len_p)
{
    struct stat info;
    if (fstat(f->fd, &info) != 0)
        abort();
    const size_t last = (size_t)info.st_size, most = f->len > last ? f->len : last,
                 least = f->len < last ? f->len : last;
    uint8_t *is = calloc(most + 1, 1), *was = calloc(most + 1, 1);
    if (is == NULL || was == NULL || pread(f->fd, is, last, 0) != (ssize_t)last)
        abort();
    if (f->len > 0)
        memcpy(was, f->safe, f->len);
    const unsigned how = d->draw(3); /* all, nothing, or some of it */
    for (size_t at = 0; at < most; at += SECTOR)
        if (how == 1 || (how == 2 && d->draw(2) == 0))
            memcpy(is + at, was + at, most - at < SECTOR ? most - at : SECTOR);
    *len_p = how == 0 ? last : how == 1 ? f->len : least + d->draw((unsigned)(most - least) + 1);
    free(was);
    return is;
}

static void begin_disk(disk *d, const char *folder)
{
    snprintf(d->folder, sizeof d->folder, "%s", folder);
    for (int i = 0; i < DISKS; i++)
        if (the_disks[i] == NULL) {
            the_disks[i] = d;
            return;
        }
    abort();
}

static void end_disk(disk *d)
{
    for (int i = 0; i < DISKS; i++)
        if (the_disks[i] == d)
            the_disks[i] = NULL;
    for (int i = 0; i < FILES; i++)
        end_file(&d->file[i]);
}

/* The server has no file open. */
static void fail_power(disk *d)
{
    char path[2 * NAME + 64];
    const unsigned how = d->draw(3);
    for (size_t i = 0; i < d->changes; i++)
        if (how == 0 || (how == 1 && d->draw(2) == 0))
            apply(d->safe, &d->change[i]);
    for (int i = 0; i < FILES; i++) /* their files stay open here */
        if (d->now[i].name[0] != '\0') {
            snprintf(path, sizeof path, "%s/%s", d->folder, d->now[i].name);
            (void)__real_unlink(path);
        }
    for (int i = 0; i < FILES; i++) {
        if (d->safe[i].name[0] == '\0')
            continue;
        size_t len;
        uint8_t *bytes = leftover(d, &d->file[d->safe[i].file], &len);
        snprintf(path, sizeof path, "%s/%s", d->folder, d->safe[i].name);
        const int fd = __real_open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
        if (fd < 0 || __real_write(fd, bytes, len) != (ssize_t)len || __real_close(fd) != 0)
            abort();
        free(bytes);
    }
    memcpy(d->now, d->safe, sizeof d->now);
    d->changes = 0;
    for (int i = 0; i < FILES; i++)
        end_file(&d->file[i]);
    for (int i = 0; i < FILES; i++) { /* what is there now, is there for certain */
        if (d->safe[i].name[0] == '\0')
            continue;
        int number = 0;
        while (d->file[number].fd > 0)
            number++;
        snprintf(path, sizeof path, "%s/%s", d->folder, d->safe[i].name);
        file *f = &d->file[number];
        struct stat info;
        f->fd = __real_open(path, O_RDONLY | O_CLOEXEC);
        if (f->fd <= 0 || fstat(f->fd, &info) != 0)
            abort();
        f->len = (size_t)info.st_size;
        f->safe = malloc(f->len + 1);
        if (f->safe == NULL || pread(f->fd, f->safe, f->len, 0) != (ssize_t)f->len)
            abort();
        d->safe[i].file = d->now[i].file = number;
    }
}

#endif
