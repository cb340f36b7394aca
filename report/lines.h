/* A file's text, line by line or as a whole, unpacked where it is a .gz. "-" is standard input. */
#ifndef TG_REPORT_LINES_H
#define TG_REPORT_LINES_H

#include <jansson.h>
#include "telegrad/base.h"

typedef struct lines lines;

/* path must outlive it. Errors TG_E_IO, TG_E_NOMEM */
TG_NODISCARD tg_status lines_open(const char *path, lines **l_p);
void lines_close(lines *l); /* NULL is fine */

/* *line_p: without its end, the reader's until the next call; NULL after the last one. *whole_p: it
 * had an end. Errors TG_E_IO, TG_E_CORRUPT (a damaged .gz, a line longer than 64 MiB), TG_E_NOMEM
 */
TG_NODISCARD tg_status lines_next(lines *l, const char **line_p, size_t *len_p, bool *whole_p);
/* Of the line that came last, from 1. */
size_t lines_number(const lines *l);

/* All of a file as one JSON value, the caller's. Errors as above; TG_E_CORRUPT: no JSON, naming the
 * line */
TG_NODISCARD tg_status lines_read_json(const char *path, json_t **value_p);

#endif
