/* Every method of the registry at its defaults. */
#include "bench/rows/bench_impl.h"
#include "telegrad/spec.h"
#include <stdio.h>

static tg_status encode_row(bench *b, work_method *w, tg_status opened, const char *name)
{
    if (!bench_wanted(b, "method", name))
        return TG_OK;
    bench_row row = bench_row_of(b, "method", name);
    tg_status status = opened == TG_OK ? bench_measure(b, work_method_encode, w, &row) : opened;
    if (status == TG_OK) {
        bench_row_bytes(&row, work_method_encode_bytes(w));
        row.bits = w->bits;
        row.error_norm = w->error_norm;
    }
    return bench_report(b, &row, status);
}

static tg_status decode_row(bench *b, work_method *w, const char *name)
{
    if (!bench_wanted(b, "method", name))
        return TG_OK;
    bench_row row = bench_row_of(b, "method", name);
    tg_status status = bench_measure(b, work_method_decode, w, &row);
    if (status == TG_OK)
        bench_row_bytes(&row, work_method_decode_bytes(w));
    return bench_report(b, &row, status);
}

static tg_status both_rows(bench *b, const char *method)
{
    work_method w;
    char encode[64], decode[64];
    snprintf(encode, sizeof encode, "%s encode", method);
    snprintf(decode, sizeof decode, "%s decode + add", method);
    tg_status opened = work_method_open(&w, b, method), status;
    status = encode_row(b, &w, opened, encode);
    if (status == TG_OK && opened == TG_OK)
        status = decode_row(b, &w, decode);
    work_method_close(&w);
    return status;
}

tg_status bench_methods(bench *b)
{
    size_t count;
    const tg_entry *const *list = tg__method_entries(&count);
    for (size_t i = 0; i < count; i++)
        TG_TRY(both_rows(b, list[i]->name));
    return TG_OK;
}
