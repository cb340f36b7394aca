#include "server/journal.h"
#include "base/filesize.h"
#include "kernel/kernel.h"
#include "state/file.h"
#include "telegrad/clock.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LOG_MAGIC "TGLOG\r\n"
#define LOG_VERSION 4u
#define LOG_HEAD 32u
#define LOG_MARK 16u /* where the head says how far the disk has it */
#define RECORD_HEAD 40u
#define LOG_ASIDE "log.tmp" /* a log that is not whole yet */

static uint32_t crc(const void *bytes, size_t len)
{
    return tg__kernel()->crc32c(0, bytes, len);
}

static char *path_of(const tg__journal *j, const char *stem, uint64_t number, const char *end)
{
    char *path = NULL;
    if (asprintf(&path, "%s/%s-%012llu%s", j->dir, stem, (unsigned long long)number, end) < 0)
        return NULL;
    return path;
}

char *tg__journal_snapshot(const tg__journal *j, uint64_t number)
{
    return path_of(j, "state", number, ".tg");
}

static char *log_of(const tg__journal *j, uint64_t number)
{
    return path_of(j, "log", number, "");
}

/* ---- the folder ------------------------------------------------------------------------------ */

/* The number of a file "STEM-<12 digits>END". Returns false if it is none. */
static bool read_name(const char *name, const char *stem, const char *end, uint64_t *number_p)
{
    char expected[64];
    const size_t len = strlen(stem);
    if (strncmp(name, stem, len) != 0 || name[len] != '-')
        return false;
    const unsigned long long number = strtoull(name + len + 1, NULL, 10);
    snprintf(expected, sizeof expected, "%s-%012llu%s", stem, number, end);
    *number_p = number;
    return strcmp(name, expected) == 0;
}

/* Whether a log has no records: it was begun, but its snapshot was never written. */
static bool is_bare(int folder, const char *name)
{
    struct stat info;
    return fstatat(folder, name, &info, AT_SYMLINK_NOFOLLOW) == 0 && info.st_size == LOG_HEAD;
}

/* Find the newest snapshot; or, with `below`, delete snapshots and logs of lower numbers. */
static tg_status look(tg__journal *j, uint64_t below, bool *found_p)
{
    bool logs = false, others = false;
    DIR *d = opendir(j->dir);
    if (d == NULL)
        return tg_fail(TG_E_IO, "cannot read folder %s: %s", j->dir, strerror(errno));
    for (const struct dirent *e; errno = 0, (e = readdir(d)) != NULL;) {
        uint64_t number;
        const bool snapshot = read_name(e->d_name, "state", ".tg", &number);
        if (!snapshot && !read_name(e->d_name, "log", "", &number)) {
            others |= e->d_name[0] != '.' && strcmp(e->d_name, "lock") != 0 &&
                      strncmp(e->d_name, "state-", strlen("state-")) != 0 &&
                      strcmp(e->d_name, LOG_ASIDE) != 0;
            continue;
        }
        if (number < below)
            (void)unlinkat(dirfd(d), e->d_name, 0); /* files that remain are not read */
        logs |= !snapshot && (number > 0 || !is_bare(dirfd(d), e->d_name));
        if (found_p != NULL && snapshot && (!*found_p || number > j->number)) {
            *found_p = true;
            j->number = number;
        }
    }
    const int error = errno;
    closedir(d);
    if (found_p != NULL && error != 0) /* else a journal would be taken for none, or an older one */
        return tg_fail(TG_E_IO, "cannot read folder %s: %s", j->dir, strerror(error));
    if (found_p != NULL && logs && !*found_p)
        return tg_fail(TG_E_CORRUPT, "journal %s has a log, but not the snapshot that it follows",
                       j->dir);
    if (found_p != NULL && others && !*found_p)
        return tg_fail(TG_E_IO,
                       "journal %s: this folder holds other files: allowed: a new or empty folder, "
                       "or one with a journal",
                       j->dir);
    return TG_OK;
}

/* Sync the parent folder, so that a new folder survives a power failure. */
static tg_status sync_parent(const char *dir)
{
    TG__FREED char *parent = NULL;
    if (asprintf(&parent, "%s/..", dir) < 0) {
        parent = NULL;
        return tg_fail(TG_E_NOMEM, "out of memory: journal");
    }
    return tg__folder_sync(parent);
}

tg_status tg__journal_open(tg__journal *j, const char *dir, bool *found_p)
{
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    *j = (tg__journal){.lock = -1, .fd = -1};
    *found_p = false;
    j->dir = strdup(dir);
    if (j->dir == NULL)
        return tg_fail(TG_E_NOMEM, "out of memory: journal");
    TG_TRY(tg_alloc(TG__JOURNAL_OUT, 1, &j->out));
    TG_TRY(tg__folder_make(dir));
    struct stat info;
    if (stat(dir, &info) != 0 || !S_ISDIR(info.st_mode))
        return tg_fail(TG_E_IO, "journal %s: it is not a folder", dir);
    TG_TRY(sync_parent(dir));
    bool found = false;
    TG_TRY(look(j, 0, &found)); /* before a lock is put there */
    TG__FREED char *lock = NULL;
    if (asprintf(&lock, "%s/lock", dir) < 0) {
        lock = NULL;
        return tg_fail(TG_E_NOMEM, "out of memory: journal");
    }
    j->lock = open(lock, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666);
    if (j->lock < 0)
        return tg_fail(TG_E_IO, "cannot open %s: %s", lock, strerror(errno));
    if (fcntl(j->lock, F_OFD_SETLK, &whole) != 0)
        return tg_fail(TG_E_IO, "journal %s: %s", dir,
                       errno == EAGAIN || errno == EACCES ? "another server uses it"
                                                          : strerror(errno));
    return look(j, 0, found_p);
}

void tg__journal_close(tg__journal *j)
{
    if (j->dir == NULL)
        return;
    if (j->fd >= 0)
        close(j->fd);
    if (j->lock >= 0)
        close(j->lock);
    free(j->out);
    free(j->dir);
    *j = (tg__journal){.lock = -1, .fd = -1};
}

/* ---- writing --------------------------------------------------------------------------------- */

static tg_status write_all(tg__journal *j, const uint8_t *bytes, size_t len)
{
    while (len > 0) {
        const ssize_t n = tg__write(j->fd, bytes, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            j->broken = true;
            return tg_fail(TG_E_IO,
                           "cannot write log %llu of journal %s: %s: gradients that come now are "
                           "lost, but none that was answered",
                           (unsigned long long)j->number, j->dir,
                           n < 0 ? strerror(errno) : "nothing was written");
        }
        bytes += n;
        len -= (size_t)n;
    }
    return TG_OK;
}

static tg_status flush(tg__journal *j)
{
    const size_t len = j->out_len;
    if (j->broken)
        return tg_fail(TG_E_IO, "journal %s: writing has failed before", j->dir);
    j->out_len = 0;
    return write_all(j, j->out, len);
}

static tg_status append(tg__journal *j, const void *bytes, size_t len)
{
    if (len > TG__JOURNAL_OUT - j->out_len)
        TG_TRY(flush(j));
    j->len += len;
    j->dirty = true;
    if (len > TG__JOURNAL_OUT)
        return write_all(j, bytes, len);
    if (len > 0) /* a record may have no body */
        memcpy(j->out + j->out_len, bytes, len);
    j->out_len += len;
    return TG_OK;
}

tg_status tg__journal_add(tg__journal *j, const tg__journal_record *record, const uint8_t *body)
{
    uint8_t head[RECORD_HEAD] = {0};
    tg__put32(head, record->kind);
    tg__put32(head + 4, record->rank);
    tg__put32(head + 8, record->tag);
    tg__put32(head + 12, crc(body, (size_t)record->len));
    tg__put64(head + 16, record->len);
    tg__put32(head + 24, record->worker);
    tg__put64(head + 28, record->number);
    tg__put32(head + 36, crc(head, 36));
    j->records++;
    TG_TRY(append(j, head, sizeof head));
    return append(j, body, (size_t)record->len);
}

/* Write to the head that all of the log is on disk. If this is lost, the older mark is still
 * valid. */
static tg_status write_mark(tg__journal *j)
{
    uint8_t mark[LOG_HEAD - LOG_MARK] = {0};
    tg__put64(mark, j->len);
    tg__put32(mark + 8, crc(mark, 8));
    if (pwrite(j->fd, mark, sizeof mark, LOG_MARK) == (ssize_t)sizeof mark)
        return TG_OK;
    j->broken = true;
    return tg_fail(TG_E_IO, "cannot write log %llu of journal %s: %s",
                   (unsigned long long)j->number, j->dir, strerror(errno));
}

/* Somebody may have deleted the folder: then nothing of the log can be found again. */
static tg_status check_linked(tg__journal *j)
{
    struct stat info;
    if (fstat(j->fd, &info) != 0 || info.st_nlink > 0)
        return TG_OK;
    j->broken = true;
    return tg_fail(TG_E_IO, "log %llu of journal %s was deleted while the server was using it",
                   (unsigned long long)j->number, j->dir);
}

tg_status tg__journal_sync(tg__journal *j)
{
    if (!j->dirty)
        return TG_OK;
    const int64_t begin = tg_now_ns(tg_clock_monotonic());
    TG_TRY(flush(j));
    if (fdatasync(j->fd) != 0) {
        j->broken = true;
        return tg_fail(TG_E_IO, "cannot sync log %llu of journal %s: %s",
                       (unsigned long long)j->number, j->dir, strerror(errno));
    }
    TG_TRY(write_mark(j));
    TG_TRY(check_linked(j));
    j->dirty = false;
    j->syncs++;
    j->sync_ns += tg_now_ns(tg_clock_monotonic()) - begin;
    return TG_OK;
}

/* Write to a file from now on.
 * path    the log; or the name under which it is begun, then `len` is 0
 * number  of the log
 * len     what follows its first bytes of this number is cut off */
static tg_status open_log(tg__journal *j, const char *path, uint64_t number, uint64_t len)
{
    const int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666);
    if (fd < 0 || ftruncate(fd, (off_t)len) != 0 || lseek(fd, 0, SEEK_END) < 0) {
        const int error = errno;
        if (fd >= 0)
            close(fd);
        return tg_fail(TG_E_IO, "cannot open %s: %s", path, strerror(error));
    }
    if (j->fd >= 0)
        close(j->fd);
    j->fd = fd;
    j->number = number;
    j->len = len;
    j->records = 0;
    j->out_len = 0;
    j->dirty = true;
    return TG_OK;
}

static tg_status begin(tg__journal *j, uint64_t number, const char *aside, const char *path)
{
    uint8_t head[LOG_HEAD] = LOG_MAGIC;
    TG_TRY(open_log(j, aside, number, 0));
    tg__put32(head + 8, LOG_VERSION);
    tg__put32(head + 12, crc(head, 12));
    TG_TRY(append(j, head, sizeof head));
    TG_TRY(tg__journal_sync(j));
    if (fdatasync(j->fd) != 0 || rename(aside, path) != 0)
        return tg_fail(TG_E_IO, "cannot begin log %s: %s", path, strerror(errno));
    return tg__folder_sync(j->dir);
}

tg_status tg__journal_begin(tg__journal *j, uint64_t number)
{
    TG__FREED char *path = log_of(j, number);
    TG__FREED char *aside = NULL;
    if (asprintf(&aside, "%s/" LOG_ASIDE, j->dir) < 0)
        aside = NULL;
    const tg_status status = path != NULL && aside != NULL
                                 ? begin(j, number, aside, path)
                                 : tg_fail(TG_E_NOMEM, "out of memory: journal");
    if (status != TG_OK)
        j->broken = true; /* the older log is no longer written to */
    return status;
}

tg_status tg__journal_forget(tg__journal *j)
{
    return look(j, j->number, NULL);
}

/* ---- reading --------------------------------------------------------------------------------- */

static bool is_zero(const uint8_t *bytes, size_t len)
{
    while (len > 0 && bytes[len - 1] == 0)
        len--;
    return len == 0;
}

static tg_status fail_at(const tg__file *f, size_t at, const char *what)
{
    return tg_fail(TG_E_CORRUPT, "journal %s is damaged at byte %zu: %s", f->path, at, what);
}

/* A log has its name only once its head is on disk. */
static tg_status check_head(const tg__file *f, const uint8_t *bytes)
{
    if (f->len < LOG_HEAD)
        return tg_fail(TG_E_CORRUPT, "journal %s is damaged: it has %zu bytes, but its head %u",
                       f->path, f->len, LOG_HEAD);
    if (is_zero(bytes, f->len))
        return fail_at(f, 0, "all bytes are zero");
    if (memcmp(bytes, LOG_MAGIC, 8) != 0)
        return fail_at(f, 0, "this is no log of a server");
    if (tg__get32(bytes + 8) != LOG_VERSION)
        return tg_fail(TG_E_VERSION,
                       "journal %s has version %u: this library reads version %u: go on with the "
                       "version that wrote it, or begin a journal in another folder",
                       f->path, tg__get32(bytes + 8), LOG_VERSION);
    return tg__get32(bytes + 12) == crc(bytes, 12) ? TG_OK : fail_at(f, 8, "its head");
}

/* Read the record at *at_p, and advance *at_p past it.
 * *why_p  set to what is wrong if there is no whole record */
static bool next_record(const tg__file *f, const uint8_t *bytes, size_t *at_p,
                        tg__journal_record *record, const char **why_p)
{
    const uint8_t *head = bytes + *at_p;
    const size_t left = f->len - *at_p;
    *why_p = "a record is missing";
    if (left < RECORD_HEAD)
        return false;
    *why_p = "the head of a record";
    if (tg__get32(head + 36) != crc(head, 36))
        return false;
    *record = (tg__journal_record){.kind = tg__get32(head),
                                   .rank = tg__get32(head + 4),
                                   .tag = tg__get32(head + 8),
                                   .len = tg__get64(head + 16),
                                   .worker = tg__get32(head + 24),
                                   .number = tg__get64(head + 28)};
    *why_p = "the body of a record";
    if (record->len > left - RECORD_HEAD ||
        tg__get32(head + 12) != crc(head + RECORD_HEAD, (size_t)record->len))
        return false;
    *at_p += RECORD_HEAD + (size_t)record->len;
    return true;
}

/* Bodies are not aligned in the log, but messages must be, so copy them. */
static tg_status replay_all(tg__journal *j, const tg__file *f, const uint8_t *bytes, size_t *at_p,
                            uint64_t *records_p,
                            tg_status (*replay)(void *arg, const tg__journal_record *record,
                                                const uint8_t *body),
                            void *arg)
{
    TG__FREED uint8_t *body = NULL;
    size_t room = 0;
    const char *why;
    tg__journal_record record;
    j->to_read = f->len;
    for (size_t at = *at_p; next_record(f, bytes, at_p, &record, &why); at = *at_p) {
        TG_TRY(tg__grow(&body, &room, (size_t)record.len + 1, 1, "a record"));
        memcpy(body, bytes + at + RECORD_HEAD, (size_t)record.len);
        j->read = *at_p;
        const tg_status status = replay(arg, &record, body);
        if (status != TG_OK)
            return tg_fail(status, "journal %s, record at byte %zu: %s", f->path, at, tg_error());
        ++*records_p;
    }
    const uint8_t *mark = bytes + LOG_MARK;
    const bool known = tg__get32(mark + 8) == crc(mark, 8);
    return known && *at_p < tg__get64(mark) ? fail_at(f, *at_p, why) : TG_OK;
}

tg_status tg__journal_replay(tg__journal *j,
                             tg_status (*replay)(void *arg, const tg__journal_record *record,
                                                 const uint8_t *body),
                             void *arg)
{
    TG__FREED char *path = log_of(j, j->number);
    TG__FREED uint8_t *bytes = NULL;
    tg__file f;
    size_t at = LOG_HEAD;
    uint64_t records = 0;
    if (path == NULL)
        return tg_fail(TG_E_NOMEM, "out of memory: journal");
    if (access(path, F_OK) != 0 && errno == ENOENT) {
        tg_log(TG_LOG_WARN, "journal %s is not there: what came after the snapshot is lost", path);
        TG_TRY(tg__journal_begin(j, j->number));
        return tg__journal_forget(j);
    }
    TG_TRY(tg__file_open(path, "log", &f));
    tg_status status = tg__file_read(&f, &bytes);
    if (status == TG_OK)
        status = check_head(&f, bytes);
    if (status == TG_OK)
        status = replay_all(j, &f, bytes, &at, &records, replay, arg);
    tg__file_close(&f);
    TG_TRY(status);
    if (at < f.len)
        tg_log(TG_LOG_WARN,
               "journal %s: its last %zu bytes are an incomplete record, which nobody was told of: "
               "they are cut off",
               path, f.len - at);
    TG_TRY(open_log(j, path, j->number, at));
    j->records = records;
    TG_TRY(tg__journal_sync(j));
    return tg__journal_forget(j);
}
