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

typedef struct row_names {
    char encode[64], decode[64];
} row_names;

static row_names names_of(const char *method)
{
    row_names names;
    snprintf(names.encode, sizeof names.encode, "%s encode", method);
    snprintf(names.decode, sizeof names.decode, "%s decode + add", method);
    return names;
}

static bool any_of(const char *filter, const char *method)
{
    const row_names names = names_of(method);
    return bench_matches(filter, "method", names.encode) ||
           bench_matches(filter, "method", names.decode);
}

bool bench_any_method(const char *filter)
{
    size_t count, i = 0;
    const tg_entry *const *list = tg__method_entries(&count);
    while (i < count && !any_of(filter, list[i]->name))
        i++;
    return i < count;
}

static tg_status both_rows(bench *b, const char *method)
{
    work_method w;
    const row_names names = names_of(method);
    if (!any_of(b->o->filter, method))
        return TG_OK;
    tg_status opened = work_method_open(&w, b, method), status;
    status = encode_row(b, &w, opened, names.encode);
    if (status == TG_OK && opened == TG_OK)
        status = decode_row(b, &w, names.decode);
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
