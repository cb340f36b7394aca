/* Checkpoint files, which are regular files whose length is known before anything is read; and
 * their folders. */
#ifndef TG_STATE_FILE_H
#define TG_STATE_FILE_H

#include "base/mem.h"

typedef struct tg__file {
    int fd;
    size_t len;
    const char *path, *what; /* borrowed; what: "checkpoint", for messages */
} tg__file;

/* Open a file.
 * Errors  TG_E_IO (also if it is not a regular file; this is checked without waiting for a pipe's
 *         writer) */
TG_NODISCARD tg_status tg__file_open(const char *path, const char *what, tg__file *f);
void tg__file_close(const tg__file *f);

/* Read bytes [at, at + len), which must be within the file.
 * Errors  TG_E_IO (also if the file has become shorter) */
TG_NODISCARD tg_status tg__file_get(const tg__file *f, size_t at, void *bytes, size_t len);
/* Read the whole file, aligned to TG_ALIGN. Release it with free().
 * Errors  TG_E_IO, TG_E_NOMEM */
TG_NODISCARD tg_status tg__file_read(const tg__file *f, uint8_t **bytes_p);

/* Make a folder, and those that lead to it, unless they exist.
 * Errors  TG_E_IO, TG_E_NOMEM */
TG_NODISCARD tg_status tg__folder_make(const char *path);
/* Wait until the names in a folder are on disk.
 * Errors  TG_E_IO */
TG_NODISCARD tg_status tg__folder_sync(const char *path);

#endif
