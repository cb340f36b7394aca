/* Files that are read whole. */
#ifndef TG_STATE_FILE_H
#define TG_STATE_FILE_H

#include "base/mem.h"

/* The bytes of a regular file, aligned to TG__ALIGN, released by free(). what: "checkpoint", for
 * messages. Errors TG_E_IO (also: no regular file, it became shorter), TG_E_NOMEM */
TG_NODISCARD tg_status tg__file_read(const char *path, const char *what, uint8_t **bytes_p,
                                     size_t *len_p);

#endif
