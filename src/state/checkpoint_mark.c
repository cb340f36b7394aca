/* COMMIT and FINAL: the size and checksum of a checkpoint's weights, without which they do not
 * count. */
#include "state/checkpoint_dir.h"
#include "state/file.h"
#include <errno.h>
#include <inttypes.h>
#include <string.h>
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
static bool read_mark(const char *bytes, size_t len, uint64_t step, tg__weights_which which,
                      tg__weights_mark *mark_p)
{
    char text[MARK_BYTES];
    tg__weights_mark mark = {.in = tg__ckpt_parts[which].mark};
    if (len >= sizeof text)
        return false;
    memcpy(text, bytes, len);
    text[len] = '\0';
    if (sscanf(text, "telegrad checkpoint 2 step %*u %*s %" SCNu64 " bytes, crc32c %" SCNx32,
               &mark.bytes, &mark.crc) != 2)
        return false;
    if (print_mark(text, step, which, &mark) != (int)len || memcmp(text, bytes, len) != 0)
        return false;
    *mark_p = mark;
    return true;
}

tg_status tg__ckpt_dir_mark(const char *dir, uint64_t step, tg__weights_which which,
                            tg__weights_mark *mark_p)
{
    char path[4096], old[64];
    char bytes[MARK_BYTES];
    tg__file f;
    TG_TRY(tg__ckpt_file_path(dir, step, "", tg__ckpt_parts[which].mark, path, sizeof path));
    TG_TRY(tg__file_open(path, "checkpoint", &f));
    const size_t len = TG__MIN(f.len, sizeof bytes); /* a COMMIT is shorter */
    tg_status status = tg__file_get(&f, 0, bytes, len);
    tg__file_close(&f);
    TG_TRY(status);
    const int old_len = snprintf(old, sizeof old, "step %" PRIu64 "\n", step);
    if (len == (size_t)old_len && memcmp(bytes, old, len) == 0)
        status = tg_fail(TG_E_VERSION,
                         "checkpoint %s has format 1, without model.safetensors: allowed: format "
                         "2; resume with the version of telegrad that saved it",
                         path);
    else if (!read_mark(bytes, len, step, which, mark_p))
        status = tg_fail(TG_E_CORRUPT,
                         "checkpoint %s is damaged, or was saved under the name of another step "
                         "than %" PRIu64 ", the one in the name of its folder",
                         path, step);
    return status;
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
