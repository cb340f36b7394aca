#include "command/bench/bench_table.h"
#include "command/output/console.h"
#include <math.h>

tg_status bench_table_create(size_t columns, struct table **t_p)
{
    struct table *t = table_create(columns);
    if (!t)
        return tg_fail(TG_E_NOMEM, "out of memory: a table");
    table_fit(t, (size_t)console_out_columns());
    table_row(t);
    *t_p = t;
    return TG_OK;
}

void bench_table_figure(struct table *t, const char *format, double v)
{
    char text[32] = "-";
    if (isfinite(v))
        snprintf(text, sizeof text, format, v);
    table_cell(t, text);
}

void bench_table_title(struct table *t, int width, const char *text)
{
    char cell[256];
    snprintf(cell, sizeof cell, "%*s", width, text);
    table_cell(t, cell);
}

void bench_table_error(struct table *t, const char *error)
{
    char text[1024];
    snprintf(text, sizeof text, "error: %s", error);
    table_rest(t, text);
}
