/* Signs by which ranks find out whether they save to the same folder. */
#include "state/checkpoint_dir.h"
#include "base/mem.h"
#include "state/file.h"
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#define SIGN_BYTES 64

static tg_status sign_path(const char *dir, uint64_t step, int rank, char *path, size_t cap)
{
    char file[32];
    snprintf(file, sizeof file, "rank-%04d.sign", rank);
    return tg__ckpt_file_path(dir, step, ".tmp", file, path, cap);
}

static int print_sign(char text[SIGN_BYTES], int rank, uint64_t number)
{
    return snprintf(text, SIGN_BYTES, "rank %d saves here: %016" PRIx64 "\n", rank, number);
}

tg_status tg__ckpt_dir_sign(const char *dir, uint64_t step, int rank, uint64_t number)
{
    char path[4096], text[SIGN_BYTES];
    tg_newfile *f;
    TG_TRY(sign_path(dir, step, rank, path, sizeof path));
    TG_TRY(tg__ckpt_check_own(path, false));
    TG_TRY(tg_newfile_open(path, &f));
    print_sign(text, rank, number);
    fputs(text, tg_newfile_stream(f));
    return tg_newfile_commit(f);
}

bool tg__ckpt_dir_sees(const char *dir, uint64_t step, int rank, uint64_t number)
{
    char path[4096], text[SIGN_BYTES], found[SIGN_BYTES];
    const int len = print_sign(text, rank, number);
    if (sign_path(dir, step, rank, path, sizeof path) != TG_OK)
        return false;
    const int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return false;
    const ssize_t got = read(fd, found, sizeof found);
    close(fd);
    return got == len && memcmp(found, text, (size_t)len) == 0;
}
