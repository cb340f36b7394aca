/* Files of checkpoints: regular ones, whose length is known before anything is read. */
#ifndef TG_STATE_FILE_H
#define TG_STATE_FILE_H

#include "base/mem.h"

typedef struct tg__file {
    int fd;
    size_t len;
    const char *path, *what; /* borrowed; what: "checkpoint", for messages */
} tg__file;

/* Errors TG_E_IO (also: no regular file, which is found out without waiting for a pipe's writer) */
TG_NODISCARD tg_status tg__file_open(const char *path, const char *what, tg__file *f);
void tg__file_close(const tg__file *f);

/* Bytes [at, at + len) of the file, which are in it. Errors TG_E_IO (also: it became shorter) */
TG_NODISCARD tg_status tg__file_get(const tg__file *f, size_t at, void *bytes, size_t len);
/* All of it, aligned to TG_ALIGN, released by free(). Errors TG_E_IO, TG_E_NOMEM */
TG_NODISCARD tg_status tg__file_read(const tg__file *f, uint8_t **bytes_p);

#endif
