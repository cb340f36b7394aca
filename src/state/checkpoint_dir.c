/* A folder of checkpoints. Everything is written to step-N.tmp; renaming it to step-N makes it a
 * checkpoint. A crash before that leaves a .tmp, which is never read and which the next commit
 * removes. */
#include "state/checkpoint_dir.h"
#include "base/mem.h"
#include "state/file.h"
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

tg_status tg__ckpt_check_folder(const char *dir)
{
    return *dir ? TG_OK
                : tg_fail(TG_E_ARG, "the name of the folder of checkpoints is \"\": allowed: \".\" "
                                    "for the current folder, or another name");
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
        return tg_fail(TG_E_ARG,
                       "the folder of checkpoints has a name of %zu bytes: allowed: at most %zu",
                       strlen(dir), cap - 1 - ((size_t)len - strlen(dir)));
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

/* True if path is a checkpoint that was written completely. */
static bool holds_commit(const char *path)
{
    char commit[4096];
    struct stat info;
    const int len = snprintf(commit, sizeof commit, "%s/COMMIT", path);
    return len > 0 && (size_t)len < sizeof commit && stat(commit, &info) == 0 &&
           S_ISREG(info.st_mode);
}

bool tg__ckpt_is_committed(const char *dir, uint64_t step)
{
    char path[4000];
    return step_path(dir, step, "", path, sizeof path) == TG_OK && holds_commit(path);
}

tg_status tg__ckpt_check_own(const char *path, bool folder)
{
    struct stat info;
    if (lstat(path, &info) != 0)
        return errno == ENOENT ? TG_OK
                               : tg_fail(TG_E_IO, "cannot inspect %s: %s", path, strerror(errno));
    if (folder ? S_ISDIR(info.st_mode) : S_ISREG(info.st_mode))
        return TG_OK;
    return tg_fail(TG_E_IO, "%s is %s, not a %s: remove it", path,
                   S_ISLNK(info.st_mode) ? "a symbolic link" : "something else",
                   folder ? "folder" : "regular file");
}

/* ---- scanning the folder --------------------------------------------------------------------- */

typedef struct found {
    uint64_t newest[TG__CKPT_STEPS]; /* committed, newest first */
    size_t committed, aside;
    uint64_t broken;   /* 1 + the newest step whose folder has no COMMIT; 0: none */
    uint64_t unsaved;  /* 1 + the newest step of a save that did not end; 0: none */
    char example[256]; /* an entry that is not a checkpoint */
} found;

static void note_committed(found *f, uint64_t step)
{
    const size_t listed = TG__MIN(f->committed, (size_t)TG__CKPT_STEPS);
    size_t at = listed;
    while (at > 0 && f->newest[at - 1] < step)
        at--;
    for (size_t i = TG__MIN(listed, (size_t)TG__CKPT_STEPS - 1); i > at; i--)
        f->newest[i] = f->newest[i - 1];
    if (at < TG__CKPT_STEPS)
        f->newest[at] = step;
    f->committed++;
}

static tg_status look(const char *dir, found *f_p)
{
    TG_TRY(tg__ckpt_check_folder(dir));
    DIR *d = opendir(dir);
    if (!d)
        return tg_fail(TG_E_IO, "cannot open checkpoint folder %s: %s", dir, strerror(errno));
    found f = {0};
    for (struct dirent *e; errno = 0, (e = readdir(d)) != NULL;) {
        uint64_t step = 0;
        kind what = parse_name(e->d_name, &step);
        if (what == DONE && tg__ckpt_is_committed(dir, step)) {
            note_committed(&f, step);
        } else if (e->d_name[0] != '.') {
            f.aside += what == ASIDE;
            if (what == DONE)
                f.broken = TG__MAX(f.broken, step + 1);
            if (what == ASIDE)
                f.unsaved = TG__MAX(f.unsaved, step + 1);
            snprintf(f.example, sizeof f.example, "%s", e->d_name);
        }
    }
    const int error = errno;
    closedir(d);
    if (error != 0) /* a part of the list is not all of it */
        return tg_fail(TG_E_IO, "cannot read checkpoint folder %s: %s", dir, strerror(error));
    *f_p = f;
    return TG_OK;
}

/* Say which newer folders are not read. A save that was killed leaves a .tmp; that is no damage. */
static void tell_skipped(const char *dir, const found *f)
{
    const unsigned long long newest = f->newest[0];
    if (f->broken > newest + 1)
        tg_log(TG_LOG_WARN,
               "%s/step-%012llu is skipped: it has no COMMIT, so it was written or copied only in "
               "part; the newest complete checkpoint is of step %llu",
               dir, (unsigned long long)f->broken - 1, newest);
    if (f->unsaved > newest + 1)
        tg_log(TG_LOG_INFO,
               "%s: the save of step %llu did not end; the newest complete checkpoint is of step "
               "%llu",
               dir, (unsigned long long)f->unsaved - 1, newest);
}

tg_status tg__ckpt_dir_steps(const char *dir, bool tells, uint64_t steps[TG__CKPT_STEPS],
                             size_t *count_p)
{
    found f;
    TG_TRY(look(dir, &f));
    if (f.committed == 0 && holds_commit(dir))
        return tg_fail(TG_E_IO,
                       "%s is a single checkpoint: give the folder of checkpoints that contains it",
                       dir);
    if (f.committed == 0)
        return tg_fail(TG_E_IO, "no finished checkpoint in %s: it holds %s%s%s", dir,
                       f.example[0] ? "only other files, such as " : "nothing", f.example,
                       f.aside ? " (unfinished)" : "");
    if (tells)
        tell_skipped(dir, &f);
    *count_p = TG__MIN(f.committed, (size_t)TG__CKPT_STEPS);
    memcpy(steps, f.newest, *count_p * sizeof *steps);
    return TG_OK;
}

tg_status tg__ckpt_dir_latest(const char *dir, bool tells, uint64_t *step_p)
{
    uint64_t steps[TG__CKPT_STEPS];
    size_t count;
    TG_TRY(tg__ckpt_dir_steps(dir, tells, steps, &count));
    *step_p = steps[0];
    return TG_OK;
}

tg_status tg__ckpt_dir_advise(const char *dir, uint64_t step, tg_status status)
{
    char why[1024];
    found f;
    if (status != TG_E_CORRUPT)
        return status;
    snprintf(why, sizeof why, "%s", tg_error());
    if (look(dir, &f) != TG_OK)
        return tg_fail(status, "%s", why);
    const size_t listed = TG__MIN(f.committed, (size_t)TG__CKPT_STEPS);
    size_t older = 0;
    while (older < listed && f.newest[older] >= step)
        older++;
    if (older == listed)
        return tg_fail(status, "%s; %s holds no older checkpoint", why, dir);
    return tg_fail(status,
                   "%s; to use the older checkpoint of step %llu, remove the folder "
                   "%s/step-%012llu",
                   why, (unsigned long long)f.newest[older], dir, (unsigned long long)step);
}

tg_status tg__ckpt_dir_path(const char *dir, uint64_t step, int rank, char *path, size_t cap)
{
    return rank_path(dir, step, rank, "", path, cap);
}

tg_status tg__ckpt_file_path(const char *dir, uint64_t step, const char *suffix, const char *file,
                             char *path, size_t cap)
{
    char tail[64];
    snprintf(tail, sizeof tail, "%s/%s", suffix, file);
    return step_path(dir, step, tail, path, cap);
}

tg_status tg__ckpt_dir_weights(const char *dir, uint64_t step, tg__weights_which which, char *path,
                               size_t cap)
{
    return tg__ckpt_file_path(dir, step, "", tg__ckpt_parts[which].weights, path, cap);
}

tg_status tg__ckpt_dir_weights_aside(const char *dir, uint64_t step, char *path, size_t cap)
{
    TG_TRY(tg__ckpt_file_path(dir, step, ".tmp", tg__ckpt_parts[TG__WEIGHTS_SAVED].weights, path,
                              cap));
    return tg__ckpt_check_own(path, false);
}

/* ---- writing --------------------------------------------------------------------------------- */

tg_status tg__ckpt_dir_prepare(const char *dir, uint64_t step, uint64_t left_behind, int rank,
                               char *path, size_t cap)
{
    char file[4096], *slash;
    TG_TRY(tg__ckpt_check_folder(dir));
    TG_TRY(rank_path(dir, step, rank, ".tmp", file, TG__MIN(sizeof file, cap)));
    TG_TRY(tg__folder_make(dir));
    found f;
    TG_TRY(look(dir, &f));
    if (f.committed && f.newest[0] > step && f.newest[0] > left_behind)
        return tg_fail(TG_E_STATE,
                       "%s holds a checkpoint of step %" PRIu64 ", beyond step %" PRIu64
                       ": it is another run's: choose another folder, or resume that run",
                       dir, f.newest[0], step);
    slash = strrchr(file, '/');
    *slash = '\0';
    TG_TRY(tg__folder_make(file));
    TG_TRY(tg__ckpt_check_own(file, true));
    *slash = '/';
    TG_TRY(tg__ckpt_check_own(file, false));
    memcpy(path, file, strlen(file) + 1);
    return TG_OK;
}

tg_status tg__ckpt_dir_revoke(const char *dir, uint64_t step)
{
    char path[4096], commit[4096];
    if (!tg__ckpt_is_committed(dir, step))
        return TG_OK;
    TG_TRY(step_path(dir, step, "", path, sizeof path));
    TG_TRY(step_path(dir, step, "/COMMIT", commit, sizeof commit));
    if (unlink(commit) != 0 && errno != ENOENT) /* another rank's work */
        return tg_fail(TG_E_IO, "cannot remove %s: %s", commit, strerror(errno));
    return tg__folder_sync(path);
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
    const size_t len = strlen(name), end = strlen(".tmp");
    const bool aside = len > end && strcmp(name + len - end, ".tmp") == 0;
    const size_t n = aside ? len - end : len;
    for (size_t i = 0; i < TG__CKPT_PARTS; i++)
        if ((strlen(tg__ckpt_parts[i].weights) == n &&
             strncmp(name, tg__ckpt_parts[i].weights, n) == 0) ||
            (strlen(tg__ckpt_parts[i].mark) == n && strncmp(name, tg__ckpt_parts[i].mark, n) == 0))
            return true;
    return strncmp(name, "rank-", 5) == 0;
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
 * `ranks`, is a sign, or belongs to the weights of a finished run. */
static bool is_stray(const char *name, int ranks, const int *writers, int writer)
{
    const struct tg__ckpt_part *final = &tg__ckpt_parts[TG__WEIGHTS_FINAL];
    char own[32];
    if (strcmp(name, final->mark) == 0 || strcmp(name, final->weights) == 0)
        return true;
    if (strncmp(name, "rank-", 5) != 0)
        return false;
    const long rank = strtol(name + 5, NULL, 10);
    if (rank < 0 || rank >= ranks || writers[rank] != writer)
        return true;
    snprintf(own, sizeof own, "rank-%04ld.tg", rank);
    return strcmp(name, own) != 0;
}

/* Remove the signs, and what a failed save left in tmp: a later run with as many ranks would take
 * the files of more ranks for a part of this checkpoint. A save of the same step again, killed
 * after the exchange of the two folders, left the weights of the run that had finished. */
static tg_status remove_strays(const char *tmp, int ranks, const int *writers, int writer)
{
    tg_status status = TG_OK;
    DIR *d = opendir(tmp);
    if (!d)
        return tg_fail(TG_E_IO, "cannot open checkpoint folder %s: %s", tmp, strerror(errno));
    for (struct dirent *e; status == TG_OK && (errno = 0, (e = readdir(d)) != NULL);)
        if (is_stray(e->d_name, ranks, writers, writer) && unlinkat(dirfd(d), e->d_name, 0) != 0)
            status = tg_fail(TG_E_IO, "cannot remove %s/%s, which an unfinished save left: %s", tmp,
                             e->d_name, strerror(errno));
    if (status == TG_OK && errno != 0)
        status = tg_fail(TG_E_IO, "cannot read checkpoint folder %s: %s", tmp, strerror(errno));
    closedir(d);
    return status;
}

void tg__ckpt_dir_prune(const char *dir, uint64_t step, uint64_t left_behind)
{
    found f;
    DIR *d = look(dir, &f) == TG_OK ? opendir(dir) : NULL;
    if (!d) {
        tg_log(TG_LOG_WARN, "old checkpoints stay: %s", tg_error());
        return;
    }
    uint64_t oldest = step; /* of those that stay */
    for (size_t i = 0, kept = 0; i < TG__CKPT_STEPS && i < f.committed; i++)
        if (f.newest[i] <= step && kept++ < KEEP)
            oldest = f.newest[i];
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        uint64_t other = 0;
        kind what = parse_name(e->d_name, &other);
        /* not another job's later steps, nor step-N.tmp, in which ranks may save this step again */
        if ((what == ASIDE && other < step) ||
            (what == DONE && (other < oldest || (other > step && other <= left_behind))))
            drop(dir, e->d_name);
    }
    closedir(d);
}

static tg_status check_complete(const char *dir, uint64_t step, int ranks, const int *writers,
                                int writer)
{
    char path[4096];
    for (int rank = 0; rank < ranks; rank++) {
        if (writers[rank] != writer)
            continue;
        TG_TRY(rank_path(dir, step, rank, ".tmp", path, sizeof path));
        if (access(path, F_OK) != 0)
            return tg_fail(TG_E_IO, "the file of rank %d is not in %s: %s", rank, dir,
                           strerror(errno));
    }
    return TG_OK;
}

tg_status tg__ckpt_dir_commit(const char *dir, uint64_t step, int ranks, const int *writers,
                              int writer, const tg__weights_mark *mark)
{
    char tmp[4096], path[4096], old[4096];
    TG_TRY(step_path(dir, step, ".tmp", tmp, sizeof tmp));
    TG_TRY(step_path(dir, step, ".old", old, sizeof old));
    TG_TRY(step_path(dir, step, "", path, sizeof path));
    TG_TRY(check_complete(dir, step, ranks, writers, writer));
    TG_TRY(remove_strays(tmp, ranks, writers, writer));
    TG_TRY(tg__ckpt_write_mark(dir, step, ".tmp", TG__WEIGHTS_SAVED, mark));
    TG_TRY(tg__folder_sync(tmp));
    TG_TRY(put_in_place(tmp, path, old));
    TG_TRY(tg__folder_sync(dir));
    drop(dir, strrchr(tmp, '/') + 1); /* what was replaced */
    drop(dir, strrchr(old, '/') + 1);
    return TG_OK;
}
