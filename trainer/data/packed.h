/* Files of data sets as streams of bytes: plain, gzip (NAME.gz) or xz (NAME.xz).
 *
 * Errors of all functions: TG_E_IO (cannot open, read; not a regular file), TG_E_CORRUPT (damaged
 * or truncated packing), TG_E_UNSUPPORTED (.xz in a build without liblzma), TG_E_NOMEM. Messages
 * begin with the path. */
#ifndef TG_TRAIN_PACKED_H
#define TG_TRAIN_PACKED_H

#include "telegrad/base.h"

#define PACKED_PATH 4096

typedef struct packed packed;

/* Check that there is such a folder. Errors TG_E_IO */
TG_NODISCARD tg_status packed_check_folder(const char *dir);
/* Find the first of DIR/NAME, DIR/NAME.gz and DIR/NAME.xz that can be read; false if none can. */
bool packed_find(const char *dir, const char *name, char path[PACKED_PATH]);

TG_NODISCARD tg_status packed_open(const char *path, packed **p_p);
void packed_close(packed *p); /* NULL is fine */
const char *packed_path(const packed *p);

/* Read up to len bytes into dst; *got_p is less than len only at the end of the file. */
TG_NODISCARD tg_status packed_read(packed *p, void *dst, size_t len, size_t *got_p);

/* Read the next `most` bytes, or as many as there are. The memory grows with the bytes that really
 * arrive, so no header decides how much is allocated.
 * body_p  [out] *len_p bytes and a zero byte after them; release it with free() */
TG_NODISCARD tg_status packed_rest(packed *p, size_t most, uint8_t **body_p, size_t *len_p);

/* Read a whole file.
 * Errors  also TG_E_CORRUPT (more than `most` bytes) */
TG_NODISCARD tg_status packed_load(const char *path, size_t most, uint8_t **body_p, size_t *len_p);

#endif
