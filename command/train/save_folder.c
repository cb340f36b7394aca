#include "command/train/save_folder.h"
#include "telegrad/weights.h"
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
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

/* Check that the first missing folder of dir can be created. */
static tg_status check_folder(const char *dir)
{
    char path[PATH_MAX];
    const int len = snprintf(path, sizeof path, "%s", dir);
    if (len < 0 || (size_t)len >= sizeof path)
        return tg_fail(TG_E_IO, "--save: the name has %d bytes: allowed: less than %zu", len,
                       sizeof path);
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (access(path, F_OK) != 0)
            break;
        *slash = '/';
    }
    if (access(path, F_OK) == 0)
        return check_writable(dir, path);
    if (mkdir(path, 0777) != 0)
        return tg_fail(TG_E_IO, "--save %s: cannot make folder %s: %s", dir, path, strerror(errno));
    (void)rmdir(path);
    return TG_OK;
}

/* The step of the newest complete checkpoint in dir; 0: there is none. */
static uint64_t newest_step(const char *dir)
{
    tg_weights *w;
    if (tg_weights_open_newest(dir, &w) != TG_OK)
        return 0;
    const char *text = tg_weights_metadata(w, "step");
    const uint64_t step = text ? strtoull(text, NULL, 10) : 0;
    tg_weights_close(w);
    return step;
}

void save_folder_checkpoint(const char *dir, uint64_t step, char path[PATH_MAX])
{
    size_t len = strlen(dir);
    while (len > 1 && dir[len - 1] == '/')
        len--;
    (void)snprintf(path, PATH_MAX, "%.*s/step-%012" PRIu64, (int)len, dir, step);
}

tg_status save_folder_check(const char *dir, uint64_t step)
{
    TG_TRY(check_folder(dir));
    const uint64_t newest = newest_step(dir);
    if (newest <= step)
        return TG_OK;
    return tg_fail(TG_E_STATE,
                   "--save %s: it holds a checkpoint of step %" PRIu64
                   " of another run, and this run saves step %" PRIu64
                   " first: choose another folder, or go on from that checkpoint: --resume %s",
                   dir, newest, step, dir);
}
