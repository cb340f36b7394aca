#include "command/output/record_file.h"
#include "command/output/console.h"
#include "command/output/outfile.h"
#include "command/output/output.h"
#include "telegrad/tools.h"
#include <stdio.h>
#include <stdlib.h>

struct record_file {
    tg_newfile *file; /* opened for the first record; NULL: standard output */
    const char *path, *first, *what;
    struct outfile_seen seen;   /* the file, before the run was checked */
    struct outfile_seen opened; /* once it was opened */
    bool to_stdout, append;
    bool closed; /* it could not be opened again */
    tg_status status;
};

/* Records of another kind are not replaced. Other programs may have written the file again, with
 * blanks. */
static tg_status check_kind(const char *path, const char *first, const char *what)
{
    static const char *const blanks[] = {" ", ""};
    tg_status status = TG_OK;
    for (size_t i = 0; i < TG_COUNT(blanks); i++) {
        char begins[64];
        snprintf(begins, sizeof begins, "{\"type\":%s\"%s\"", blanks[i], first);
        status = outfile_check_old("--out", path, 0, begins, what);
        if (status == TG_OK)
            break;
    }
    return status;
}

tg_status record_file_open(const char *path, const char *first, const char *what, bool append,
                           struct record_file **f_p)
{
    const bool to_stdout = outfile_is_stdout(path);
    if (!to_stdout)
        TG_TRY(outfile_check_growing("--out", path));
    if (!to_stdout)
        TG_TRY(check_kind(path, first, what));
    struct record_file *f = calloc(1, sizeof *f);
    if (!f)
        return tg_fail(TG_E_NOMEM, "out of memory: records");
    f->path = path;
    f->first = first;
    f->what = what;
    f->seen = outfile_see(path);
    if (to_stdout) /* a reader that ends is an error like a full disk, with which a run saves */
        output_outlive_readers();
    f->to_stdout = to_stdout;
    f->append = append;
    *f_p = f;
    return TG_OK;
}

static tg_status open_file(struct record_file *f, bool append)
{
    TG_TRY(outfile_open_growing("--out", f->path, append, &f->file));
    f->opened = outfile_see(f->path);
    return TG_OK;
}

static tg_status put(struct record_file *f, const json_t *record)
{
    if (f->to_stdout) {
        console_status(""); /* both may be the same terminal */
        return jsonl_print(record);
    }
    if (f->closed)
        return tg_fail(TG_E_IO, "--out: %s is not open", f->path);
    if (!f->file) {
        TG_TRY(outfile_check_unchanged("--out", f->path, &f->seen));
        TG_TRY(open_file(f, f->append));
    }
    return jsonl_write(record, tg_newfile_stream(f->file), tg_newfile_path(f->file));
}

tg_status record_file_add(struct record_file *f, json_t *record)
{
    const tg_status status = f ? put(f, record) : TG_OK;
    json_decref(record);
    if (f && f->status == TG_OK)
        f->status = status;
    return status;
}

/* Whether the file that is open still has its name. */
static bool has_its_name(const struct record_file *f)
{
    const struct outfile_seen now = outfile_see(f->path);
    return now.regular && now.device == f->opened.device && now.inode == f->opened.inode;
}

tg_status record_file_open_again(struct record_file *f)
{
    if (!f || (!f->to_stdout && !f->file && !f->closed))
        return TG_OK;
    if (f->to_stdout)
        return f->status = output_flush(); /* which says why, each time */
    if (f->file && f->status == TG_OK && (!f->opened.regular || has_its_name(f)))
        return TG_OK; /* not renamed; the reader of a pipe would take closing it for its end */
    outfile_abandon(f->file);
    f->file = NULL;
    f->closed = true;
    if (check_kind(f->path, f->first, f->what) != TG_OK)
        return tg_fail(TG_E_SPEC, "--out %s: the file holds something other than %s", f->path,
                       f->what);
    TG_TRY(open_file(f, true));
    f->closed = false;
    f->status = TG_OK;
    return TG_OK;
}

bool record_file_is_empty(const struct record_file *f)
{
    if (!f || !f->file || !f->opened.regular)
        return false;
    const struct outfile_seen now = outfile_see(f->path); /* maybe renamed, and another is there */
    return now.regular && now.device == f->opened.device && now.inode == f->opened.inode &&
           now.size == 0;
}

tg_status record_file_status(const struct record_file *f)
{
    return f ? f->status : TG_OK;
}

tg_status record_file_commit(struct record_file *f)
{
    const tg_status status = f && f->file ? outfile_commit(f->file, "--out") : TG_OK;
    free(f);
    return status;
}

void record_file_abandon(struct record_file *f)
{
    if (f)
        outfile_abandon(f->file);
    free(f);
}
