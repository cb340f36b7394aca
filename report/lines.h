/* Reads a text file line by line or as a whole; a .gz is unpacked. "-" is standard input. */
#ifndef TG_REPORT_LINES_H
#define TG_REPORT_LINES_H

#include <jansson.h>
#include "telegrad/base.h"

typedef struct lines lines;

/* path must outlive it. Errors TG_E_IO, TG_E_NOMEM */
TG_NODISCARD tg_status lines_open(const char *path, lines **l_p);
void lines_close(lines *l); /* NULL is fine */

/* *line_p is the next line without its newline, valid until the next call; NULL after the last one.
 * *whole_p says whether it ended in a newline. Errors TG_E_IO, TG_E_CORRUPT (a damaged .gz, a line
 * longer than 64 MiB), TG_E_NOMEM */
TG_NODISCARD tg_status lines_next(lines *l, const char **line_p, size_t *len_p, bool *whole_p);
/* Number of the line returned last, from 1. */
size_t lines_number(const lines *l);

/* The file's name without its folder and the endings .gz and .jsonl. NULL: out of memory */
char *lines_name(const char *path);

/* Read a whole file as one JSON value, owned by the caller. Errors as above; TG_E_CORRUPT: not
 * JSON; the message names the line */
TG_NODISCARD tg_status lines_read_json(const char *path, json_t **value_p);

#endif
