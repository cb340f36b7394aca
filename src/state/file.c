#include "state/file.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

tg_status tg__file_read(const char *path, const char *what, uint8_t **bytes_p, size_t *len_p)
{
    FILE *file = fopen(path, "rbe");
    if (!file)
        return tg_fail(TG_E_IO, "cannot open %s %s: %s", what, path, strerror(errno));
    struct stat info;
    uint8_t *bytes = NULL;
    tg_status status = TG_OK;
    if (fstat(fileno(file), &info) != 0 || !S_ISREG(info.st_mode))
        status = tg_fail(TG_E_IO, "%s %s is not a regular file", what, path);
    if (status == TG_OK)
        status = tg__alloc((size_t)info.st_size, 1, &bytes);
    if (status == TG_OK && fread(bytes, 1, (size_t)info.st_size, file) != (size_t)info.st_size)
        status = tg_fail(TG_E_IO, "cannot read %s %s: %s", what, path,
                         ferror(file) ? strerror(errno) : "it became shorter");
    fclose(file);
    if (status != TG_OK) {
        free(bytes);
        return status;
    }
    *bytes_p = bytes;
    *len_p = (size_t)info.st_size;
    return TG_OK;
}
