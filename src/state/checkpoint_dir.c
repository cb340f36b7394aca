/* A folder of checkpoints. Everything is written to step-N.tmp; renaming it to step-N makes it a
 * checkpoint. A crash before that leaves a .tmp, which is never read and which the next commit
 * removes. */
#include "state/state.h"
#include "base/mem.h"
#include "state/file.h"
#include "state/weights_impl.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define STEP_DIGITS 12
#define STEP_LIMIT UINT64_C(1000000000000)
#define RANK_LIMIT 10000
#define KEEP 2 /* committed checkpoints */
#define WEIGHTS "model.safetensors"
#define MARK_BYTES 160 /* room for a COMMIT */

/* The kind of an entry of the folder. */
typedef enum kind { OTHER, DONE, ASIDE } kind;

static kind parse_name(const char *name, uint64_t *step_p)
{
    static const char head[] = "step-";
    const size_t head_len = sizeof head - 1;
    if (strncmp(name, head, head_len) != 0)
        return OTHER;
    uint64_t step = 0;
    const char *p = name + head_len;
    for (int i = 0; i < STEP_DIGITS; i++, p++) {
        if (*p < '0' || *p > '9')
            return OTHER;
        step = step * 10 + (uint64_t)(*p - '0');
    }
    *step_p = step;
    if (*p == '\0')
        return DONE;
    return strcmp(p, ".tmp") == 0 || strcmp(p, ".old") == 0 ? ASIDE : OTHER;
}

/* DIR/step-N followed by suffix */
static tg_status step_path(const char *dir, uint64_t step, const char *suffix, char *path,
                           size_t cap)
{
    if (step >= STEP_LIMIT)
        return tg_fail(TG_E_ARG, "checkpoint of step %" PRIu64 ": allowed: step < 10^%d", step,
                       STEP_DIGITS);
    int len = snprintf(path, cap, "%s/step-%012" PRIu64 "%s", dir, step, suffix);
    if (len < 0 || (size_t)len >= cap)
        return tg_fail(TG_E_SPACE, "checkpoint path of %d bytes: room for %zu", len, cap);
    return TG_OK;
}

static tg_status rank_path(const char *dir, uint64_t step, int rank, const char *suffix, char *path,
                           size_t cap)
{
    if (rank < 0 || rank >= RANK_LIMIT)
        return tg_fail(TG_E_ARG, "checkpoint of rank %d: allowed: 0 <= rank < %d", rank,
                       RANK_LIMIT);
    char tail[32];
    snprintf(tail, sizeof tail, "%s/rank-%04d.tg", suffix, rank);
    return step_path(dir, step, tail, path, cap);
}

static tg_status make_dir(const char *path)
{
    if (mkdir(path, 0777) == 0 || errno == EEXIST)
        return TG_OK; /* if a file is in the way, opening a file below it fails */
    return tg_fail(TG_E_IO, "cannot make folder %s: %s", path, strerror(errno));
}

static tg_status make_dirs(const char *path)
{
    char *copy = strdup(path);
    if (!copy)
        return tg_fail(TG_E_NOMEM, "out of memory: name of %s", path);
    tg_status status = TG_OK;
    for (char *slash = strchr(copy + (*copy == '/'), '/'); slash && status == TG_OK;
         slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        status = make_dir(copy);
        *slash = '/';
    }
    if (status == TG_OK)
        status = make_dir(copy);
    free(copy);
    return status;
}

static tg_status sync_dir(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    /* Some file systems refuse to sync a folder; that is not an error. */
    bool ok = fd >= 0 && (fsync(fd) == 0 || errno == EINVAL || errno == ENOTSUP);
    int error = errno;
    if (fd >= 0)
        close(fd);
    return ok ? TG_OK : tg_fail(TG_E_IO, "cannot sync folder %s: %s", path, strerror(error));
}

/* True if path is a checkpoint that was written completely. */
static bool holds_commit(const char *path)
{
    char commit[4096];
    struct stat info;
    const int len = snprintf(commit, sizeof commit, "%s/COMMIT", path);
    return len > 0 && (size_t)len < sizeof commit && stat(commit, &info) == 0 &&
           S_ISREG(info.st_mode);
}

static bool is_committed(const char *dir, uint64_t step)
{
    char path[4000];
    return step_path(dir, step, "", path, sizeof path) == TG_OK && holds_commit(path);
}

/* An existing entry of this name in a checkpoint that is being written must be a folder or a file
 * itself: a link would lead out of the checkpoint. */
static tg_status check_own(const char *path, bool folder)
{
    struct stat info;
    if (lstat(path, &info) != 0)
        return errno == ENOENT ? TG_OK
                               : tg_fail(TG_E_IO, "cannot look at %s: %s", path, strerror(errno));
    if (folder ? S_ISDIR(info.st_mode) : S_ISREG(info.st_mode))
        return TG_OK;
    return tg_fail(TG_E_IO, "%s is %s, not a %s: remove it", path,
                   S_ISLNK(info.st_mode) ? "a symbolic link" : "something else",
                   folder ? "folder" : "regular file");
}

/* ---- scanning the folder --------------------------------------------------------------------- */

typedef struct found {
    uint64_t newest[KEEP]; /* committed, newest first */
    size_t committed, aside;
    char example[256]; /* an entry that is not a checkpoint */
} found;

static void note_committed(found *f, uint64_t step)
{
    if (f->committed == 0 || step > f->newest[0]) {
        f->newest[1] = f->newest[0];
        f->newest[0] = step;
    } else if (f->committed == 1 || step > f->newest[1]) {
        f->newest[1] = step;
    }
    f->committed++;
}

static tg_status look(const char *dir, found *f_p)
{
    DIR *d = opendir(dir);
    if (!d)
        return tg_fail(TG_E_IO, "cannot open checkpoint folder %s: %s", dir, strerror(errno));
    found f = {0};
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        uint64_t step = 0;
        kind what = parse_name(e->d_name, &step);
        if (what == DONE && is_committed(dir, step)) {
            note_committed(&f, step);
        } else if (e->d_name[0] != '.') {
            f.aside += what == ASIDE;
            snprintf(f.example, sizeof f.example, "%s", e->d_name);
        }
    }
    closedir(d);
    *f_p = f;
    return TG_OK;
}

tg_status tg__ckpt_dir_latest(const char *dir, uint64_t *step_p)
{
    found f;
    TG_TRY(look(dir, &f));
    if (f.committed == 0 && holds_commit(dir))
        return tg_fail(
            TG_E_IO, "%s is one checkpoint: allowed: the folder of checkpoints that it is in", dir);
    if (f.committed == 0)
        return tg_fail(TG_E_IO, "no finished checkpoint in %s: found %s%s%s", dir,
                       f.example[0] ? "only others, such as " : "nothing", f.example,
                       f.aside ? " (unfinished)" : "");
    *step_p = f.newest[0];
    return TG_OK;
}

tg_status tg__ckpt_dir_path(const char *dir, uint64_t step, int rank, char *path, size_t cap)
{
    return rank_path(dir, step, rank, "", path, cap);
}

tg_status tg__ckpt_dir_weights(const char *dir, uint64_t step, char *path, size_t cap)
{
    return step_path(dir, step, "/" WEIGHTS, path, cap);
}

tg_status tg__ckpt_dir_weights_aside(const char *dir, uint64_t step, char *path, size_t cap)
{
    TG_TRY(step_path(dir, step, ".tmp/" WEIGHTS, path, cap));
    return check_own(path, false);
}

/* ---- writing --------------------------------------------------------------------------------- */

tg_status tg__ckpt_dir_prepare(const char *dir, uint64_t step, int rank, char *path, size_t cap)
{
    char file[4096], *slash;
    TG_TRY(rank_path(dir, step, rank, ".tmp", file, TG__MIN(sizeof file, cap)));
    TG_TRY(make_dirs(dir));
    found f;
    TG_TRY(look(dir, &f));
    if (f.committed && f.newest[0] > step)
        return tg_fail(TG_E_STATE,
                       "%s holds a checkpoint of step %" PRIu64 ", beyond step %" PRIu64
                       ": it is another run's: choose another folder, or resume that run",
                       dir, f.newest[0], step);
    slash = strrchr(file, '/');
    *slash = '\0';
    TG_TRY(make_dir(file));
    TG_TRY(check_own(file, true));
    *slash = '/';
    TG_TRY(check_own(file, false));
    memcpy(path, file, strlen(file) + 1);
    return TG_OK;
}

/* Print the contents of COMMIT. */
static int print_mark(char text[MARK_BYTES], uint64_t step, const tg__weights_mark *mark)
{
    return snprintf(text, MARK_BYTES,
                    "telegrad checkpoint 2\nstep %" PRIu64 "\n" WEIGHTS " %" PRIu64
                    " bytes, crc32c %08" PRIx32 "\n",
                    step, mark->bytes, mark->crc);
}

static tg_status write_commit(const char *tmp, uint64_t step, const tg__weights_mark *mark)
{
    char path[4096], text[MARK_BYTES];
    int len = snprintf(path, sizeof path, "%s/COMMIT", tmp);
    if (len < 0 || (size_t)len >= sizeof path)
        return tg_fail(TG_E_SPACE, "checkpoint path of %d bytes: room for %zu", len, sizeof path);
    tg_newfile *f;
    TG_TRY(check_own(path, false));
    TG_TRY(tg_newfile_open(path, &f));
    print_mark(text, step, mark);
    fputs(text, tg_newfile_stream(f));
    return tg_newfile_commit(f);
}

/* The text must be exactly what is written for its numbers, so that no damage goes unnoticed. */
static bool read_mark(const char *bytes, size_t len, uint64_t step, tg__weights_mark *mark_p)
{
    char text[MARK_BYTES];
    tg__weights_mark mark = {0};
    if (len >= sizeof text)
        return false;
    memcpy(text, bytes, len);
    text[len] = '\0';
    if (sscanf(text,
               "telegrad checkpoint 2 step %*u " WEIGHTS " %" SCNu64 " bytes, crc32c %" SCNx32,
               &mark.bytes, &mark.crc) != 2)
        return false;
    if (print_mark(text, step, &mark) != (int)len || memcmp(text, bytes, len) != 0)
        return false;
    *mark_p = mark;
    return true;
}

tg_status tg__ckpt_dir_mark(const char *dir, uint64_t step, tg__weights_mark *mark_p)
{
    char path[4096], old[64];
    char bytes[MARK_BYTES];
    tg__file f;
    TG_TRY(step_path(dir, step, "/COMMIT", path, sizeof path));
    TG_TRY(tg__file_open(path, "checkpoint", &f));
    const size_t len = TG__MIN(f.len, sizeof bytes); /* a COMMIT is shorter */
    tg_status status = tg__file_get(&f, 0, bytes, len);
    tg__file_close(&f);
    TG_TRY(status);
    const int old_len = snprintf(old, sizeof old, "step %" PRIu64 "\n", step);
    if (len == (size_t)old_len && memcmp(bytes, old, len) == 0)
        status = tg_fail(TG_E_VERSION,
                         "checkpoint %s has format 1, without " WEIGHTS ": allowed: format 2; "
                         "resume with the telegrad that saved it",
                         path);
    else if (!read_mark(bytes, len, step, mark_p))
        status = tg_fail(TG_E_CORRUPT, "checkpoint %s is damaged", path);
    return status;
}

/* Give tmp its final name. If there is a checkpoint of the same step (saved again at the end of a
 * run), exchange the two, so that one is present at every moment; without that system call, rename
 * the old one aside first. */
static tg_status put_in_place(const char *tmp, const char *path, const char *old)
{
    if (rename(tmp, path) == 0)
        return TG_OK;
    bool taken = errno == ENOTEMPTY || errno == EEXIST;
#ifdef RENAME_EXCHANGE
    if (taken && renameat2(AT_FDCWD, tmp, AT_FDCWD, path, RENAME_EXCHANGE) == 0)
        return TG_OK;
#endif
    if (taken && rename(path, old) == 0 && rename(tmp, path) == 0)
        return TG_OK;
    return tg_fail(TG_E_IO, "cannot rename %s to %s: %s", tmp, path, strerror(errno));
}

/* True if a file in a step's folder is one of ours and may be removed. */
static bool is_our_file(const char *name)
{
    return strncmp(name, "rank-", 5) == 0 || strcmp(name, "COMMIT") == 0 ||
           strcmp(name, "COMMIT.tmp") == 0 || strcmp(name, WEIGHTS) == 0 ||
           strcmp(name, WEIGHTS ".tmp") == 0;
}

/* Remove DIR/name and our files in it. COMMIT is removed first, so that a partial checkpoint never
 * looks complete. */
static void drop(const char *dir, const char *name)
{
    char path[4096];
    if (snprintf(path, sizeof path, "%s/%s", dir, name) >= (int)sizeof path)
        return;
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
    if (d) {
        (void)unlinkat(fd, "COMMIT", 0);
        for (struct dirent *e; (e = readdir(d)) != NULL;)
            if (is_our_file(e->d_name))
                (void)unlinkat(fd, e->d_name, 0);
        closedir(d);
    } else if (fd >= 0) {
        close(fd);
    }
    if (rmdir(path) != 0 && errno != ENOENT)
        tg_log(TG_LOG_WARN, "cannot remove old checkpoint %s: %s", path, strerror(errno));
}

/* True if a file in a step's folder has the name of a rank's file, but not of one of these
 * `ranks`. */
static bool is_stray(const char *name, int ranks)
{
    char own[32];
    if (strncmp(name, "rank-", 5) != 0)
        return false;
    const long rank = strtol(name + 5, NULL, 10);
    if (rank < 0 || rank >= ranks)
        return true;
    snprintf(own, sizeof own, "rank-%04ld.tg", rank);
    return strcmp(name, own) != 0;
}

/* Remove the files that a failed save with more ranks left in tmp: a later run with as many ranks
 * would take them for a part of this checkpoint. */
static tg_status remove_strays(const char *tmp, int ranks)
{
    tg_status status = TG_OK;
    DIR *d = opendir(tmp);
    if (!d)
        return tg_fail(TG_E_IO, "cannot open checkpoint folder %s: %s", tmp, strerror(errno));
    for (struct dirent *e; status == TG_OK && (e = readdir(d)) != NULL;)
        if (is_stray(e->d_name, ranks) && unlinkat(dirfd(d), e->d_name, 0) != 0)
            status = tg_fail(TG_E_IO, "cannot remove %s/%s, which an unfinished save left: %s", tmp,
                             e->d_name, strerror(errno));
    closedir(d);
    return status;
}

/* After the commit of `step`, the newest: remove all but the last two checkpoints, and
 * leftovers. */
static void prune(const char *dir, uint64_t step)
{
    found f;
    DIR *d = look(dir, &f) == TG_OK ? opendir(dir) : NULL;
    if (!d) {
        tg_log(TG_LOG_WARN, "old checkpoints stay: %s", tg_error());
        return;
    }
    uint64_t oldest = f.newest[f.committed >= KEEP ? KEEP - 1 : 0];
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        uint64_t other = 0;
        kind what = parse_name(e->d_name, &other);
        if ((what == ASIDE && other <= step) || (what == DONE && other < oldest))
            drop(dir, e->d_name);
    }
    closedir(d);
}

tg_status tg__ckpt_dir_commit(const char *dir, uint64_t step, int ranks,
                              const tg__weights_mark *mark)
{
    char tmp[4096], path[4096], old[4096];
    TG_TRY(step_path(dir, step, ".tmp", tmp, sizeof tmp));
    TG_TRY(step_path(dir, step, ".old", old, sizeof old));
    TG_TRY(step_path(dir, step, "", path, sizeof path));
    TG_TRY(remove_strays(tmp, ranks));
    TG_TRY(write_commit(tmp, step, mark));
    TG_TRY(sync_dir(tmp));
    TG_TRY(put_in_place(tmp, path, old));
    TG_TRY(sync_dir(dir));
    prune(dir, step);
    return TG_OK;
}
