#include "command/train/dump.h"
#include "command/output/console.h"
#include "command/output/outfile.h"
#include "telegrad/tools.h"
#include "bench/rows/npy.h"
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct dump {
    char *dir;
    bool listed; /* tensors.json has been written */
    struct outfile_lock lock;
};

static bool is_gradient(const char *name)
{
    static const char begin[] = "gradient-", end[] = ".npy";
    const size_t len = strlen(name);
    return strncmp(name, begin, sizeof begin - 1) == 0 && len > sizeof end - 1 &&
           strcmp(name + len - (sizeof end - 1), end) == 0;
}

static tg_status look_for_gradients(const char *path, bool *found_p)
{
    DIR *d = opendir(path);
    if (!d)
        return tg_fail(TG_E_IO, "--dump-gradients %s: cannot list it: %s", path, strerror(errno));
    *found_p = false;
    for (struct dirent *e; errno = 0, !*found_p && (e = readdir(d)) != NULL;)
        *found_p = is_gradient(e->d_name);
    const int error = errno;
    closedir(d);
    return error == 0
               ? TG_OK
               : tg_fail(TG_E_IO, "--dump-gradients %s: cannot list it: %s", path, strerror(error));
}

/* Nobody could tell the gradients of two runs in one folder apart. */
static tg_status check_empty(const char *path)
{
    bool found;
    TG_TRY(look_for_gradients(path, &found));
    return found ? tg_fail(TG_E_IO,
                           "--dump-gradients %s: it holds gradients of an earlier run: choose "
                           "another folder, or delete them",
                           path)
                 : TG_OK;
}

static tg_status lock(struct dump *d)
{
    char path[PATH_MAX];
    struct outfile_lock taken;
    const int len = snprintf(path, sizeof path, "%s/tensors.json", d->dir);
    if (len < 0 || (size_t)len >= sizeof path)
        return tg_fail(TG_E_IO, "--dump-gradients %s: the name is too long", d->dir);
    TG_TRY(outfile_lock("--dump-gradients", path, &taken));
    d->lock = taken;
    return TG_OK;
}

tg_status dump_open(const char *dir, bool resumes, struct dump **d_p)
{
    struct stat info;
    if (mkdir(dir, 0777) != 0 && errno != EEXIST)
        return tg_fail(TG_E_IO, "--dump-gradients %s: cannot make it: %s", dir, strerror(errno));
    if (stat(dir, &info) != 0 || !S_ISDIR(info.st_mode))
        return tg_fail(TG_E_IO, "--dump-gradients %s: is not a directory", dir);
    if (access(dir, W_OK | X_OK) != 0)
        return tg_fail(TG_E_IO, "--dump-gradients %s: cannot write in it: %s", dir,
                       strerror(errno));
    struct dump *d = calloc(1, sizeof *d);
    char *copy = strdup(dir);
    if (!d || !copy) {
        free(d);
        free(copy);
        return tg_fail(TG_E_NOMEM, "out of memory: --dump-gradients %s", dir);
    }
    *d = (struct dump){.dir = copy, .lock = OUTFILE_UNLOCKED};
    tg_status status = lock(d);
    if (status == TG_OK && !resumes)
        status = check_empty(dir);
    if (status != TG_OK) {
        dump_close(d);
        return status;
    }
    *d_p = d;
    return TG_OK;
}

void dump_close(struct dump *d)
{
    if (!d)
        return;
    outfile_unlock(&d->lock);
    free(d->dir);
    free(d);
}

static tg_status open_file(const struct dump *d, const char *name, tg_newfile **f_p)
{
    char path[PATH_MAX];
    int len = snprintf(path, sizeof path, "%s/%s", d->dir, name);
    if (len < 0 || (size_t)len >= sizeof path)
        return tg_fail(TG_E_IO, "--dump-gradients %s: the name is too long", d->dir);
    return tg_newfile_open(path, f_p);
}

/* {"n": .., "tensors": [{"name", "shape", "offset", "n"}, ..]}; offsets count floats. */
static json_t *describe(const train_gradient *tensor, size_t count)
{
    json_t *list = json_array();
    size_t offset = 0;
    for (size_t i = 0; i < count; offset += tensor[i++].n) {
        json_t *shape = json_array();
        for (size_t k = 0; k < tensor[i].ndim; k++)
            json_array_append_new(shape, json_integer((json_int_t)tensor[i].shape[k]));
        json_array_append_new(list, json_pack("{s:s, s:o, s:I, s:I}", "name", tensor[i].name,
                                              "shape", shape, "offset", (json_int_t)offset, "n",
                                              (json_int_t)tensor[i].n));
    }
    return json_pack("{s:I, s:o}", "n", (json_int_t)offset, "tensors", list);
}

/* Those of the run that is resumed may be there, but not those of another model. */
static tg_status check_old(const struct dump *d, const json_t *json)
{
    char path[PATH_MAX];
    bool found;
    TG_TRY(look_for_gradients(d->dir, &found));
    if (!found) /* a list alone describes nothing */
        return TG_OK;
    (void)snprintf(path, sizeof path, "%s/tensors.json", d->dir);
    json_t *old = json_load_file(path, 0, NULL);
    const bool other = old && !json_equal(old, json);
    if (old && !other)
        console_warning("--dump-gradients %s: it holds gradients of an earlier run: those of the "
                        "same steps are replaced",
                        d->dir);
    json_decref(old);
    return other ? tg_fail(TG_E_IO,
                           "--dump-gradients %s: it holds the gradients of another model: choose "
                           "another folder",
                           d->dir)
                 : TG_OK;
}

static tg_status write_list(const struct dump *d, const train_gradient *tensor, size_t count)
{
    tg_newfile *f;
    json_t *json = describe(tensor, count);
    if (!json)
        return tg_fail(TG_E_NOMEM, "out of memory: %s/tensors.json", d->dir);
    tg_status status = check_old(d, json);
    if (status == TG_OK)
        status = open_file(d, "tensors.json", &f);
    if (status == TG_OK) {
        (void)json_dumpf(json, tg_newfile_stream(f),
                         JSON_INDENT(2)); /* commit reports the file's error */
        fputc('\n', tg_newfile_stream(f));
        status = tg_newfile_commit(f);
    }
    json_decref(json);
    return status;
}

tg_status dump_gradient(struct dump *d, uint64_t step, const train_gradient *tensor, size_t count)
{
    char name[64];
    tg_newfile *f;
    size_t n = 0;
    if (!d->listed)
        TG_TRY(write_list(d, tensor, count));
    d->listed = true;
    snprintf(name, sizeof name, "gradient-%08" PRIu64 ".npy", step);
    TG_TRY(open_file(d, name, &f));
    for (size_t i = 0; i < count; i++)
        n += tensor[i].n;
    bool good = bench_npy_head(tg_newfile_stream(f), n);
    for (size_t i = 0; i < count && good; i++)
        good = bench_npy_values(tg_newfile_stream(f), tensor[i].grad, tensor[i].n);
    return tg_newfile_commit(f); /* a failed write has set the file's error indicator */
}
