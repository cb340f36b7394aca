#include "command/output/jsonl.h"
#include "command/output/format.h"
#include "command/output/output.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* 10 digits: 0.05 is written as 0.05, and single precision survives. */
#define LINE_FLAGS (JSON_COMPACT | JSON_REAL_PRECISION(10))

tg_status jsonl_print(const json_t *record)
{
    if (!record)
        return tg_fail(TG_E_NOMEM, "out of memory: a record for standard output");
    const int failed = json_dumpf(record, stdout, LINE_FLAGS);
    if (!failed)
        putchar('\n');
    TG_TRY(output_flush());
    return failed ? tg_fail(TG_E_NOMEM, "out of memory: a record for standard output") : TG_OK;
}

tg_status jsonl_print_new(json_t *record)
{
    const tg_status status = jsonl_print(record);
    json_decref(record);
    return status;
}

tg_status jsonl_write(const json_t *record, FILE *file, const char *path)
{
    if (!record)
        return tg_fail(TG_E_NOMEM, "out of memory: a record for %s", path);
    errno = 0;
    int failed = json_dumpf(record, file, LINE_FLAGS);
    if (failed || fputc('\n', file) == EOF || fflush(file) != 0)
        return tg_fail(TG_E_IO, "%s: cannot be written: %s", path, strerror(errno ? errno : EIO));
    return TG_OK;
}

json_t *jsonl_real(double v)
{
    return isfinite(v) ? json_real(v) : json_null();
}

json_t *jsonl_perplexity(bool tokens, double loss)
{
    return tokens ? jsonl_real(exp(loss)) : json_null();
}

json_t *jsonl_text(const char *text)
{
    if (!text)
        return json_null();
    char *safe = format_utf8(text);
    json_t *string = safe ? json_string(safe) : NULL;
    free(safe);
    return string;
}

json_t *jsonl_counts(const uint64_t *counts, size_t rows, size_t columns)
{
    json_t *all = json_array();
    for (size_t r = 0; all && r < rows; r++) {
        json_t *row = json_array();
        for (size_t c = 0; c < columns; c++)
            json_array_append_new(row, json_integer((json_int_t)counts[r * columns + c]));
        json_array_append_new(all, row);
    }
    return all;
}
