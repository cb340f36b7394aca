/* JSON lines: values, and one object per line to a file or to standard output. */
#ifndef TG_CLI_JSONL_H
#define TG_CLI_JSONL_H

#include <jansson.h>
#include <stdio.h>
#include "telegrad/base.h"

/* v, or null if it is not finite. */
json_t *jsonl_real(double v);
/* Perplexity of a test: exp(loss), or null if the loss is not one of tokens. */
json_t *jsonl_perplexity(bool tokens, double loss);
/* text, with bytes that are not UTF-8 as \xNN; null for NULL. NULL: out of memory */
json_t *jsonl_text(const char *text);

/* counts (rows, columns) as a list of lists. NULL: out of memory */
json_t *jsonl_counts(const uint64_t *counts, size_t rows, size_t columns);

/* Print record (borrowed) as one line to standard output. Errors TG_E_IO, TG_E_NOMEM (record is
 * NULL) */
TG_NODISCARD tg_status jsonl_print(const json_t *record);
/* The same, and release record. */
TG_NODISCARD tg_status jsonl_print_new(json_t *record);
/* As jsonl_print, to a file; path is used in the message. */
TG_NODISCARD tg_status jsonl_write(const json_t *record, FILE *file, const char *path);

#endif
