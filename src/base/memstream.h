/* Streams into memory. open_memstream of glibc does not report that memory ran out: the text is cut
 * short, or NULL although fclose succeeds. These report it. */
#ifndef TG_BASE_MEMSTREAM_H
#define TG_BASE_MEMSTREAM_H

#include "telegrad/base.h"
#include <stdio.h>

/* Open a stream for writing. A write that finds no memory fails, and so do all later ones and
 * tg__memstream_close.
 * text_p, len_p  [out] NULL and 0; set by tg__memstream_close, and must live until then. (fclose
 *                sets them as well, but does not report all failures.)
 * Returns        NULL: out of memory */
FILE *tg__memstream_open(char **text_p, size_t *len_p);

/* Close the stream and set its text, which ends with a zero byte that is not counted in the length.
 * file    of tg__memstream_open; NULL: it could not be opened
 * text_p  [out] as given to tg__memstream_open. Release it with free(). NULL after a failure
 * Errors  TG_E_NOMEM */
TG_NODISCARD tg_status tg__memstream_close(FILE *file, char **text_p);

#endif
