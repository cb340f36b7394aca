#include "command/train/save_folder.h"
#include "command/output/outfile.h"
#include "telegrad/transport.h"
#include "telegrad/weights.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static tg_status check_writable(const char *dir, const char *path)
{
    struct stat info;
    if (stat(path, &info) == 0 && !S_ISDIR(info.st_mode))
        return tg_fail(TG_E_IO, "--save %s: %s is not a folder", dir, path);
    if (access(path, W_OK | X_OK) != 0)
        return tg_fail(TG_E_IO, "--save %s: cannot write in %s: %s", dir, path, strerror(errno));
    return TG_OK;
}

/* Remove up to `count` empty folders: that of `path`, its parent, and so on. */
static void remove_made(char *path, size_t count)
{
    for (; count > 0 && rmdir(path) == 0; count--) {
        char *slash = strrchr(path, '/');
        if (!slash || slash == path)
            return;
        *slash = '\0';
    }
}

/* Make the folders of `path` that are missing, and count them. */
static tg_status make_missing(const char *dir, char *path, size_t *made_p)
{
    size_t made = 0;
    const size_t len = strlen(path);
    for (size_t at = 1; at <= len; at++) {
        if (path[at] != '/' && path[at] != '\0')
            continue;
        const char end = path[at];
        path[at] = '\0';
        const bool ok = mkdir(path, 0777) == 0;
        if (!ok && errno != EEXIST) {
            const tg_status status = tg_fail(TG_E_IO, "--save %s: cannot make folder %s: %s", dir,
                                             path, strerror(errno));
            char *slash = strrchr(path, '/');
            if (slash)
                *slash = '\0';
            remove_made(path, made);
            return status;
        }
        made += ok;
        path[at] = end;
    }
    *made_p = made;
    return TG_OK;
}

static tg_status open_folder(const char *dir, save_folder *folder)
{
    const int len = snprintf(folder->path, sizeof folder->path, "%s", dir);
    if (len < 0 || (size_t)len >= sizeof folder->path)
        return tg_fail(TG_E_IO, "--save: the name has %d bytes: allowed: less than %zu", len,
                       sizeof folder->path);
    for (size_t end = (size_t)len; end > 1 && folder->path[end - 1] == '/'; end--)
        folder->path[end - 1] = '\0';
    if (access(dir, F_OK) != 0)
        TG_TRY(make_missing(dir, folder->path, &folder->made));
    return check_writable(dir, folder->path);
}

#define LOCK_FILE ".telegrad-lock" /* says which job holds the lock of the folder */
#define JOB_BYTES 32
#define PATIENCE_MS 5000 /* for a rank that has the lock and is about to write the file */
#define PAUSE_MS 20

static int print_job(char text[JOB_BYTES], uint64_t job)
{
    return snprintf(text, JOB_BYTES, "job %016" PRIx64 "\n", job);
}

static tg_status tell_job(const char *dir, uint64_t job, save_folder *folder)
{
    char text[JOB_BYTES];
    const int len = print_job(text, job);
    const int fd = openat(folder->fd, LOCK_FILE,
                          O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666);
    folder->tells = fd >= 0;
    const bool ok = fd >= 0 && write(fd, text, (size_t)len) == len;
    const tg_status status =
        ok ? TG_OK
           : tg_fail(TG_E_IO, "--save %s: cannot write %s: %s", dir, LOCK_FILE, strerror(errno));
    if (fd >= 0)
        close(fd);
    return status;
}

static bool locked_by(const save_folder *folder, uint64_t job)
{
    char text[JOB_BYTES], found[JOB_BYTES];
    const int len = print_job(text, job);
    const int fd = openat(folder->fd, LOCK_FILE, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return false;
    const ssize_t got = read(fd, found, sizeof found);
    close(fd);
    return got == len && memcmp(found, text, (size_t)len) == 0;
}

static bool joins_job(const save_folder *folder, uint64_t job)
{
    for (int waited = 0; !locked_by(folder, job); waited += PAUSE_MS) {
        if (waited >= PATIENCE_MS)
            return false;
        (void)nanosleep(&(struct timespec){.tv_nsec = PAUSE_MS * 1000000L}, NULL);
    }
    return true;
}

/* Two runs that save to one folder would remove each other's checkpoints. The lock belongs to the
 * descriptor; on a file system without locks for folders, nothing is locked. A run that made the
 * folder and ends may remove it between the opening and the lock. */
static tg_status lock(const char *dir, uint64_t job, bool joins, save_folder *folder)
{
    struct stat own, named;
    folder->fd = open(folder->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder->fd < 0)
        return tg_fail(TG_E_IO, "--save %s: cannot open the folder: %s", dir, strerror(errno));
    const bool held = flock(folder->fd, LOCK_EX | LOCK_NB) == 0;
    const bool taken = !held && errno == EWOULDBLOCK && !(joins && joins_job(folder, job));
    if (taken || fstat(folder->fd, &own) != 0 || stat(folder->path, &named) != 0 ||
        own.st_dev != named.st_dev || own.st_ino != named.st_ino)
        return tg_fail(TG_E_IO, "--save %s: another run is saving to this folder: choose another",
                       dir);
    folder->locked = held;
    return held && job != 0 ? tell_job(dir, job, folder) : TG_OK;
}

void save_folder_checkpoint(const char *dir, uint64_t step, char path[PATH_MAX])
{
    size_t len = strlen(dir);
    while (len > 1 && dir[len - 1] == '/')
        len--;
    (void)snprintf(path, PATH_MAX, "%.*s/step-%012" PRIu64, (int)len, dir, step);
}

/* Whether the folder is a checkpoint: it has a COMMIT, and the name of a step, unless it is the
 * folder that was given. */
static bool is_checkpoint(const char *path, bool given)
{
    char commit[PATH_MAX + 8];
    struct stat info;
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    snprintf(commit, sizeof commit, "%s/COMMIT", path);
    return (given || strncmp(name, "step-", 5) == 0) && stat(commit, &info) == 0 &&
           S_ISREG(info.st_mode);
}

/* What is saved inside a checkpoint would be lost, or half of the checkpoint, when it is removed
 * for its age. */
static tg_status check_outside(const char *dir, const char *path)
{
    char whole[PATH_MAX];
    if (!realpath(path, whole))
        return tg_fail(TG_E_IO, "--save %s: %s", dir, strerror(errno));
    for (bool given = true; whole[0]; given = false) {
        if (is_checkpoint(whole, given))
            return tg_fail(TG_E_IO,
                           "--save %s: %s is a single checkpoint: give the folder of checkpoints "
                           "that contains it, or another",
                           dir, whole);
        *strrchr(whole, '/') = '\0';
    }
    return TG_OK;
}

/* A checkpoint of the same step would be replaced, and one of an earlier step could not be
 * saved. */
static tg_status check_own(const char *dir, const char *resumed)
{
    tg_weights *w;
    if (resumed && outfile_same(dir, resumed))
        return TG_OK;
    const tg_status status = tg_weights_open_saved(dir, &w);
    if (status == TG_E_IO) /* there is none */
        return TG_OK;
    const char *step = status == TG_OK ? tg_weights_metadata(w, "step") : NULL;
    const tg_status refused =
        tg_fail(TG_E_SPEC,
                "--save %s: it holds checkpoints of another run%s%.20s: use --resume %s to "
                "continue from them, choose another folder, or delete them",
                dir, step ? ", the newest of step " : "", step ? step : "", dir);
    if (status == TG_OK)
        tg_weights_close(w);
    return refused;
}

int save_folder_rank(const char *dir)
{
    char path[PATH_MAX];
    tg_weights *w;
    int rank = 0, files = 0;
    if (tg_weights_open_saved(dir, &w) != TG_OK)
        return 0;
    const char *step = tg_weights_metadata(w, "step");
    save_folder_checkpoint(dir, step ? strtoull(step, NULL, 10) : 0, path);
    tg_weights_close(w);
    DIR *d = opendir(path);
    for (struct dirent *e; d && (e = readdir(d)) != NULL;)
        if (strncmp(e->d_name, "rank-", 5) == 0) {
            rank = (int)strtol(e->d_name + 5, NULL, 10);
            files++;
        }
    if (d)
        closedir(d);
    return files == 1 && rank > 0 && rank < TG_RANKS_MAX ? rank : 0;
}

tg_status save_folder_open(const char *dir, const char *resumed, uint64_t job, bool joins,
                           save_folder *folder)
{
    *folder = (save_folder){.fd = -1};
    tg_status status = open_folder(dir, folder);
    if (status == TG_OK)
        status = lock(dir, job, joins, folder);
    if (status == TG_OK)
        status = check_outside(dir, folder->path);
    if (status == TG_OK)
        status = check_own(dir, resumed);
    if (status != TG_OK)
        save_folder_close(folder);
    return status;
}

/* Remove the empty folders that saves leave when they fail. */
static void remove_empty(const char *path)
{
    DIR *d = opendir(path);
    for (struct dirent *e; d && (e = readdir(d)) != NULL;) {
        const char *end = strrchr(e->d_name, '.');
        if (strncmp(e->d_name, "step-", 5) == 0 && end && strcmp(end, ".tmp") == 0)
            (void)unlinkat(dirfd(d), e->d_name, AT_REMOVEDIR); /* only if it is empty */
    }
    if (d)
        closedir(d);
}

void save_folder_close(save_folder *folder)
{
    if (folder->locked)
        remove_empty(folder->path);
    if (folder->tells)
        (void)unlinkat(folder->fd, LOCK_FILE, 0);
    remove_made(folder->path, folder->made); /* before the lock is given up */
    if (folder->fd >= 0)
        close(folder->fd);
    *folder = (save_folder){.fd = -1};
}
