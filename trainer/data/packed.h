/* Files of data sets, read as a stream of bytes: plain, gzip (NAME.gz) or xz (NAME.xz). */
#ifndef TG_TRAIN_PACKED_H
#define TG_TRAIN_PACKED_H

#include "telegrad/base.h"

#define PACKED_PATH 4096

typedef struct packed packed;

/* DIR/NAME, DIR/NAME.gz or DIR/NAME.xz, the first that can be read. False: none can. */
bool packed_find(const char *dir, const char *name, char path[PACKED_PATH]);

/* Errors of all: TG_E_IO (cannot open, read; not a regular file), TG_E_CORRUPT (damaged or
 * truncated packing), TG_E_UNSUPPORTED (.xz in a build without liblzma), TG_E_NOMEM; messages begin
 * with the path. */
TG_NODISCARD tg_status packed_open(const char *path, packed **p_p);
void packed_close(packed *p); /* NULL is fine */
const char *packed_path(const packed *p);

/* Up to len bytes into dst; *got_p is less than len only at the end of the file. */
TG_NODISCARD tg_status packed_read(packed *p, void *dst, size_t len, size_t *got_p);

/* The next `most` bytes, or what there is of them; body_p (the caller's, free()) holds *len_p bytes
 * and a zero byte behind them. The memory grows as bytes really come, so that no header decides how
 * much is allocated. */
TG_NODISCARD tg_status packed_rest(packed *p, size_t most, uint8_t **body_p, size_t *len_p);

/* A whole file. Errors also TG_E_CORRUPT: more than `most` bytes */
TG_NODISCARD tg_status packed_load(const char *path, size_t most, uint8_t **body_p, size_t *len_p);

#endif
