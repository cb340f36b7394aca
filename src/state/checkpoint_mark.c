/* COMMIT and FINAL: the size and checksum of a checkpoint's weights, without which they do not
 * count. */
#include "state/checkpoint_dir.h"
#include "state/file.h"
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MARK_BYTES 160 /* room for a COMMIT or FINAL */

const struct tg__ckpt_part tg__ckpt_parts[TG__CKPT_PARTS] = {
    [TG__WEIGHTS_SAVED] = {"model.safetensors", "COMMIT"},
    [TG__WEIGHTS_FINAL] = {"final.safetensors", "FINAL"}};

/* Print the contents of COMMIT or FINAL. */
static int print_mark(char text[MARK_BYTES], uint64_t step, tg__weights_which which,
                      const tg__weights_mark *mark)
{
    return snprintf(text, MARK_BYTES,
                    "telegrad checkpoint 2\nstep %" PRIu64 "\n%s %" PRIu64
                    " bytes, crc32c %08" PRIx32 "\n",
                    step, tg__ckpt_parts[which].weights, mark->bytes, mark->crc);
}

tg_status tg__ckpt_write_mark(const char *dir, uint64_t step, const char *suffix,
                              tg__weights_which which, const tg__weights_mark *mark)
{
    char path[4096], text[MARK_BYTES];
    tg_newfile *f;
    TG_TRY(tg__ckpt_file_path(dir, step, suffix, tg__ckpt_parts[which].mark, path, sizeof path));
    TG_TRY(tg__ckpt_check_own(path, false));
    TG_TRY(tg_newfile_open(path, &f));
    print_mark(text, step, which, mark);
    fputs(text, tg_newfile_stream(f));
    return tg_newfile_commit(f);
}

/* The text must be exactly what is written for its numbers, so that no damage goes unnoticed. */
static bool read_mark(const char *bytes, size_t len, tg__weights_which which, uint64_t *step_p,
                      tg__weights_mark *mark_p)
{
    char text[MARK_BYTES];
    uint64_t step;
    tg__weights_mark mark = {.in = tg__ckpt_parts[which].mark};
    if (len >= sizeof text)
        return false;
    memcpy(text, bytes, len);
    text[len] = '\0';
    if (sscanf(text,
               "telegrad checkpoint 2 step %" SCNu64 " %*s %" SCNu64 " bytes, crc32c %" SCNx32,
               &step, &mark.bytes, &mark.crc) != 3)
        return false;
    if (print_mark(text, step, which, &mark) != (int)len || memcmp(text, bytes, len) != 0)
        return false;
    *step_p = step;
    *mark_p = mark;
    return true;
}

static tg_status read_text(const char *path, char bytes[MARK_BYTES], size_t *len_p)
{
    tg__file f;
    TG_TRY(tg__file_open(path, "checkpoint", &f));
    *len_p = TG__MIN(f.len, (size_t)MARK_BYTES); /* a COMMIT is shorter */
    const tg_status status = tg__file_get(&f, 0, bytes, *len_p);
    tg__file_close(&f);
    return status;
}

tg_status tg__ckpt_dir_mark(const char *dir, uint64_t step, tg__weights_which which,
                            tg__weights_mark *mark_p)
{
    char path[4096], old[64];
    char bytes[MARK_BYTES];
    size_t len;
    uint64_t found;
    tg__weights_mark mark;
    TG_TRY(tg__ckpt_file_path(dir, step, "", tg__ckpt_parts[which].mark, path, sizeof path));
    TG_TRY(read_text(path, bytes, &len));
    const int old_len = snprintf(old, sizeof old, "step %" PRIu64 "\n", step);
    if (len == (size_t)old_len && memcmp(bytes, old, len) == 0)
        return tg_fail(TG_E_VERSION,
                       "checkpoint %s has format 1, without model.safetensors: allowed: format "
                       "2; resume with the version of telegrad that saved it",
                       path);
    if (!read_mark(bytes, len, which, &found, &mark) || found != step)
        return tg_fail(TG_E_CORRUPT,
                       "checkpoint %s is damaged, or was saved under the name of another step "
                       "than %" PRIu64 ", the one in the name of its folder",
                       path, step);
    *mark_p = mark;
    return TG_OK;
}

/* The part of a checkpoint that a file of weights is by its name; TG__CKPT_PARTS: none. */
static size_t part_of(const char *name)
{
    size_t which = 0;
    while (which < TG__CKPT_PARTS && strcmp(tg__ckpt_parts[which].weights, name) != 0)
        which++;
    return which;
}

tg_status tg__ckpt_mark_beside(const char *weights, tg__weights_mark *mark_p, bool *found_p)
{
    static const char begins[] = "telegrad checkpoint ";
    const char *slash = strrchr(weights, '/'), *name = slash ? slash + 1 : weights;
    const size_t which = part_of(name);
    char path[4096], bytes[MARK_BYTES];
    struct stat info;
    size_t len;
    uint64_t step;
    *found_p = false;
    if (which == TG__CKPT_PARTS ||
        snprintf(path, sizeof path, "%.*s%s", (int)(name - weights), weights,
                 tg__ckpt_parts[which].mark) >= (int)sizeof path ||
        stat(path, &info) != 0 || !S_ISREG(info.st_mode))
        return TG_OK;
    TG_TRY(read_text(path, bytes, &len));
    if (len < sizeof begins - 1 || memcmp(bytes, begins, sizeof begins - 1) != 0)
        return TG_OK; /* another program's */
    if (!read_mark(bytes, len, (tg__weights_which)which, &step, mark_p))
        return tg_fail(TG_E_CORRUPT, "checkpoint %s is damaged", path);
    *found_p = true;
    return TG_OK;
}

/* ---- the weights of a finished run ----------------------------------------------------------- */

static tg_status remove_file(const char *path)
{
    return unlink(path) == 0 || errno == ENOENT
               ? TG_OK
               : tg_fail(TG_E_IO, "cannot remove %s: %s", path, strerror(errno));
}

tg_status tg__ckpt_dir_final_begin(const char *dir, uint64_t step, char *path, size_t cap)
{
    char mark[4096];
    TG_TRY(tg__ckpt_check_folder(dir));
    if (!tg__ckpt_is_committed(dir, step))
        return tg_fail(TG_E_STATE,
                       "%s holds no checkpoint of step %" PRIu64
                       ": call tg_session_save after the same step, before tg_session_finish",
                       dir, step);
    TG_TRY(tg__ckpt_file_path(dir, step, "", tg__ckpt_parts[TG__WEIGHTS_FINAL].mark, mark,
                              sizeof mark));
    TG_TRY(tg__ckpt_file_path(dir, step, "", tg__ckpt_parts[TG__WEIGHTS_FINAL].weights, path, cap));
    TG_TRY(remove_file(mark)); /* first: without it, the weights do not count */
    return remove_file(path);
}

tg_status tg__ckpt_dir_final_commit(const char *dir, uint64_t step, const tg__weights_mark *mark)
{
    return tg__ckpt_write_mark(dir, step, "", TG__WEIGHTS_FINAL, mark);
}

bool tg__ckpt_dir_has_final(const char *dir, uint64_t step)
{
    const struct tg__ckpt_part *final = &tg__ckpt_parts[TG__WEIGHTS_FINAL];
    char mark[4096];
    /* The mark is written last: without the weights that it names, opening them is an error. */
    return tg__ckpt_file_path(dir, step, "", final->mark, mark, sizeof mark) == TG_OK &&
           access(mark, F_OK) == 0;
}
