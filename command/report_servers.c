#include "command/report_servers.h"
#include "command/output/console.h"
#include "command/output/format.h"
#include "command/output/table.h"
#include "report/run_file.h"
#include <math.h>
#include <stdlib.h>

static void add_heading(struct table *t)
{
    static const char *const heads[] = {"server",   "time",        "workers",   "step",
                                        "answers",  "gradients/s", "staleness", "unfit",
                                        "received", "sent",        "syncs"};
    table_row(t);
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        table_cell(t, heads[i]);
}

static void add_number(struct table *t, double v)
{
    char text[32];
    snprintf(text, sizeof text, "%.3g", v);
    table_cell(t, isfinite(v) ? text : "-");
}

static void add_count(struct table *t, double v)
{
    table_cell(t, format_count((uint64_t)v).text);
}

static void add_server(struct table *t, const server_file *s)
{
    char *name = format_utf8(s->name);
    table_row(t);
    table_cell(t, name ? name : "?");
    table_cell(t, format_seconds(s->seconds).text);
    add_count(t, s->most_workers);
    add_count(t, s->last ? json_number_value(json_object_get(s->last, "step")) : 0);
    add_count(t, s->answers);
    add_number(t, s->seconds > 0 ? s->gradients / s->seconds : (double)NAN);
    add_number(t, server_file_staleness(s));
    add_count(t, s->unfit);
    table_cell(t, format_bytes(s->bytes_in).text);
    table_cell(t, format_bytes(s->bytes_out).text);
    add_count(t, s->syncs);
    free(name);
}

static tg_status print(const run_files *files, const char *title, FILE *out)
{
    (void)title;
    if (files->servers.count == 0)
        return tg_fail(TG_E_SPEC,
                       "no -o: allowed: -o report.html or -o picture.svg; without it, records of "
                       "telegrad serve --out are shown as a table");
    struct table *t = table_create(11);
    if (!t)
        return tg_fail(TG_E_NOMEM, "out of memory: a table of servers");
    table_fit(t, (size_t)console_out_columns());
    add_heading(t);
    for (size_t i = 0; i < files->servers.count; i++)
        add_server(t, &files->servers.file[i]);
    const int failed = table_print(t, out);
    table_destroy(t);
    return failed && !ferror(out) ? tg_fail(TG_E_NOMEM, "out of memory: a table of servers")
                                  : TG_OK;
}

tg_status report_servers(char *const *paths, size_t count)
{
    return run_files_draw(paths, count, print, NULL, stdout);
}
