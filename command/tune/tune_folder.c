#include "command/tune/tune.h"
#include "command/output/outfile.h"
#include "report/lines.h"
#include <dirent.h>
#include <errno.h>
#include <ftw.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct tune_folder {
    tg_newfile *file;
    char path[PATH_MAX]; /* of the records of the sweep */
    json_t *past;
};

/* ---- paths ----------------------------------------------------------------------------------- */

static tg_status path_in(const char *dir, const char *folder, const char *name, const char *ending,
                         char path[PATH_MAX])
{
    const int len = snprintf(path, PATH_MAX, "%s/%s%s%s%s", dir, folder,
                             *folder && *name ? "/" : "", name, ending);
    return len >= 0 && len < PATH_MAX ? TG_OK
                                      : tg_fail(TG_E_IO, "--out %.64s: the name is too long", dir);
}

tg_status tune_path_records(const char *dir, const char *name, char path[PATH_MAX])
{
    return path_in(dir, "runs", name, ".jsonl", path);
}

tg_status tune_path_checkpoint(const char *dir, const char *name, char path[PATH_MAX])
{
    return path_in(dir, "checkpoints", name, "", path);
}

tg_status tune_path_picture(const char *dir, char path[PATH_MAX])
{
    return path_in(dir, "", "tune", ".svg", path);
}

void tune_run_file(size_t run, char name[32])
{
    snprintf(name, 32, "run-%03zu", run + 1);
}

static int remove_one(const char *path, const struct stat *s, int type, struct FTW *f)
{
    (void)s;
    (void)type;
    (void)f;
    (void)remove(path); /* what cannot be removed does no harm */
    return 0;
}

void tune_forget(const char *dir, const char *name)
{
    char path[PATH_MAX];
    if (tune_path_checkpoint(dir, name, path) == TG_OK)
        (void)nftw(path, remove_one, 4, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

static tg_status make(const char *dir, const char *folder)
{
    char path[PATH_MAX];
    struct stat info;
    TG_TRY(path_in(dir, folder, "", "", path));
    if (mkdir(path, 0777) != 0 && errno != EEXIST)
        return tg_fail(TG_E_IO, "--out %s: cannot make folder %s: %s", dir, path, strerror(errno));
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode)
               ? TG_OK
               : tg_fail(TG_E_IO, "--out %s: %s is not a folder", dir, path);
}

/* ---- what is there --------------------------------------------------------------------------- */

/* The option of a word such as "--epochs 30". */
static size_t option_len(const char *word)
{
    return strcspn(word, " ");
}

static const char *same_word(const json_t *list, const char *word, bool option_only)
{
    size_t i;
    const json_t *one;
    json_array_foreach(list, i, one)
    {
        const char *other = json_string_value(one);
        const size_t len = option_len(word);
        if (other && (option_only ? option_len(other) == len && strncmp(other, word, len) == 0
                                  : strcmp(other, word) == 0))
            return other;
    }
    return NULL;
}

/* Seeds can be added to a sweep that has ended. */
static bool may_differ(const char *word)
{
    static const char seeds[] = "--seeds";
    return option_len(word) == sizeof seeds - 1 && strncmp(word, seeds, sizeof seeds - 1) == 0;
}

/* A word of a that b lacks, of those that may not differ; NULL: none. */
static const char *only_in(const json_t *a, const json_t *b)
{
    size_t i;
    const json_t *one;
    json_array_foreach(a, i, one)
    {
        const char *word = json_string_value(one);
        if (word && !may_differ(word) && !same_word(b, word, false))
            return word;
    }
    return NULL;
}

/* Check that the sweep in the folder is this one. */
static tg_status check_same(const char *dir, const json_t *about, const json_t *old)
{
    static const char remedy[] = "give the same options to continue it, or another folder";
    const json_t *own = json_object_get(about, "options"), *its = json_object_get(old, "options");
    const char *mine = only_in(own, its), *theirs = only_in(its, own);
    if (!mine && !theirs)
        return TG_OK;
    const char *other = mine ? same_word(its, mine, true) : NULL;
    if (mine && other)
        return tg_fail(TG_E_SPEC, "--out %s: it holds a sweep with %.64s, this one has %.64s: %s",
                       dir, other, mine, remedy);
    if (mine)
        return tg_fail(TG_E_SPEC, "--out %s: it holds a sweep without %.64s: %s", dir, mine,
                       remedy);
    return tg_fail(TG_E_SPEC, "--out %s: it holds a sweep with %.64s, and this one is without: %s",
                   dir, theirs, remedy);
}

static tg_status take_line(struct tune_folder *f, const char *dir, const json_t *about,
                           const char *line, size_t len, size_t number)
{
    json_error_t error;
    json_t *record = json_loadb(line, len, 0, &error);
    const char *type = json_string_value(json_object_get(record, "type"));
    const bool first = number == 1;
    if (!type || (strcmp(type, "tune") == 0) != first) {
        json_decref(record);
        return tg_fail(TG_E_CORRUPT, "%s:%zu: %s: allowed: what telegrad tune wrote", f->path,
                       number, record ? "not a record of a sweep" : error.text);
    }
    if (first) {
        const tg_status status = check_same(dir, about, record);
        json_decref(record);
        return status;
    }
    return json_array_append_new(f->past, record) == 0
               ? TG_OK
               : tg_fail(TG_E_NOMEM, "out of memory: %s", f->path);
}

static tg_status read_past(struct tune_folder *f, const char *dir, const json_t *about,
                           size_t *count_p)
{
    lines *l;
    tg_status status = TG_OK;
    TG_TRY(lines_open(f->path, &l));
    for (*count_p = 0; status == TG_OK; ++*count_p) {
        const char *line;
        size_t len;
        bool whole;
        status = lines_next(l, &line, &len, &whole);
        if (status != TG_OK || !line)
            break;
        status = take_line(f, dir, about, line, len, *count_p + 1);
    }
    lines_close(l);
    return status;
}

/* ---- opening and writing --------------------------------------------------------------------- */

/* Check that a folder without a sweep is empty: files of something else would be mixed with it. */
static tg_status check_empty(const struct tune_folder *f, const char *dir)
{
    struct stat info;
    char other[256] = "";
    DIR *d = stat(f->path, &info) == 0 ? NULL : opendir(dir);
    for (struct dirent *e; d && !other[0] && (e = readdir(d)) != NULL;)
        if (e->d_name[0] != '.')
            snprintf(other, sizeof other, "%s", e->d_name);
    if (d)
        closedir(d);
    return other[0]
               ? tg_fail(TG_E_SPEC,
                         "--out %s: it holds other files, such as %.64s, and no sweep: allowed: "
                         "a new or empty folder, or that of a sweep to continue",
                         dir, other)
               : TG_OK;
}

static tg_status begin(struct tune_folder *f, const char *dir, const json_t *about)
{
    size_t count = 0;
    f->past = json_array();
    if (!f->past)
        return tg_fail(TG_E_NOMEM, "out of memory: --out %s", dir);
    TG_TRY(path_in(dir, "", "tune", ".jsonl", f->path));
    TG_TRY(make(dir, ""));
    TG_TRY(check_empty(f, dir));
    TG_TRY(
        outfile_check_old("--out", f->path, 0, "{\"type\":\"tune\"", "a sweep of telegrad tune"));
    TG_TRY(outfile_open_growing("--out", f->path, true, &f->file));
    TG_TRY(read_past(f, dir, about, &count));
    TG_TRY(make(dir, "runs"));
    TG_TRY(make(dir, "checkpoints"));
    return count > 0 ? TG_OK : jsonl_write(about, tg_newfile_stream(f->file), f->path);
}

tg_status tune_folder_open(const char *dir, const json_t *about, struct tune_folder **f_p,
                           const json_t **past_p)
{
    struct tune_folder *f = calloc(1, sizeof *f);
    if (!f)
        return tg_fail(TG_E_NOMEM, "out of memory: --out %s", dir);
    const tg_status status = begin(f, dir, about);
    if (status != TG_OK) {
        tune_folder_abandon(f);
        return status;
    }
    *f_p = f;
    *past_p = f->past;
    return TG_OK;
}

tg_status tune_folder_add(struct tune_folder *f, json_t *record)
{
    const tg_status status = jsonl_write(record, tg_newfile_stream(f->file), f->path);
    json_decref(record);
    return status;
}

tg_status tune_folder_close(struct tune_folder *f)
{
    const tg_status status = outfile_commit(f->file, "--out");
    json_decref(f->past);
    free(f);
    return status;
}

void tune_folder_abandon(struct tune_folder *f)
{
    if (!f)
        return;
    outfile_abandon(f->file);
    json_decref(f->past);
    free(f);
}
