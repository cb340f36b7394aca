#include "command/report_servers.h"
#include "command/output/console.h"
#include "command/output/format.h"
#include "command/output/table.h"
#include "report/run_file.h"
#include "telegrad/tools.h"
#include <math.h>
#include <stdlib.h>

enum { COLUMNS = 13, EVENTS = 20 };

static void add_heading(struct table *t)
{
    static const char *const heads[COLUMNS] = {
        "server", "time",  "workers",  "step", "answers", "gradients/s", "staleness",
        "late",   "unfit", "received", "sent", "ratio",   "syncs"};
    table_row(t);
    for (size_t i = 0; i < COLUMNS; i++)
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
    add_number(t, s->seconds > 0 && s->gradients > 0 ? s->gradients / s->seconds : (double)NAN);
    add_number(t, server_file_staleness(s));
    add_count(t, s->late);
    add_count(t, s->unfit);
    table_cell(t, format_bytes(s->bytes_in).text);
    table_cell(t, format_bytes(s->bytes_out).text);
    add_number(t, server_file_ratio(s, SERVER_UP));
    add_count(t, s->syncs);
    free(name);
}

static void add_text(struct table *t, const char *value)
{
    char *text = value ? format_utf8(value) : NULL;
    table_cell(t, text ? text : "-");
    free(text);
}

static const char *text_of(const json_t *event, const char *name)
{
    return json_string_value(json_object_get(event, name));
}

static void add_event(struct table *t, const json_t *event)
{
    const json_t *worker = json_object_get(event, "worker"), *step = json_object_get(event, "step");
    const char *name = text_of(event, "name"), *key = text_of(event, "key"),
               *why = text_of(event, "reason");
    const bool counts = json_is_number(json_object_get(event, "steps")); /* late or unfit */
    table_row(t);
    table_cell(t, format_seconds(json_number_value(json_object_get(event, "seconds"))).text);
    add_text(t, text_of(event, "event"));
    if (json_is_number(worker))
        add_count(t, json_number_value(worker));
    else
        table_cell(t, "-");
    add_text(t, name ? name : key ? key : text_of(event, "host"));
    add_count(t, json_number_value(step));
    const char *rest = counts ? text_of(event, "text") : why;
    char *text = format_utf8(rest ? rest : "");
    table_rest(t, text ? text : "?");
    free(text);
}

/* The last ones of a server. */
static tg_status print_events(const server_file *s, FILE *out)
{
    static const char *const heads[] = {"time", "event", "worker", "name", "step"};
    const size_t kept = json_array_size(s->events), shown = kept < EVENTS ? kept : EVENTS;
    char *name = format_utf8(s->name);
    if (kept == 0) {
        free(name);
        return TG_OK;
    }
    if (shown < s->event_count)
        fprintf(out, "\n%s: the last %zu of %zu events; the page has more\n", name ? name : "?",
                shown, s->event_count);
    else
        fprintf(out, "\n%s: events\n", name ? name : "?");
    free(name);
    struct table *t = table_create(TG_COUNT(heads) + 1);
    if (!t)
        return tg_fail(TG_E_NOMEM, "out of memory: a table of events");
    table_fit(t, (size_t)console_out_columns());
    table_row(t);
    for (size_t i = 0; i < TG_COUNT(heads); i++)
        table_cell(t, heads[i]);
    table_rest(t, "why");
    for (size_t i = kept - shown; i < kept; i++)
        add_event(t, json_array_get(s->events, i));
    const int failed = table_print(t, out);
    table_destroy(t);
    return failed && !ferror(out) ? tg_fail(TG_E_NOMEM, "out of memory: a table of events") : TG_OK;
}

static tg_status print(const run_files *files, const char *title, FILE *out)
{
    (void)title;
    if (files->servers.count == 0)
        return tg_fail(TG_E_SPEC,
                       "no -o: allowed: -o report.html or -o picture.svg; without it, records of "
                       "telegrad serve --out are shown as a table");
    struct table *t = table_create(COLUMNS);
    if (!t)
        return tg_fail(TG_E_NOMEM, "out of memory: a table of servers");
    table_fit(t, (size_t)console_out_columns());
    add_heading(t);
    for (size_t i = 0; i < files->servers.count; i++)
        add_server(t, &files->servers.file[i]);
    const int failed = table_print(t, out);
    table_destroy(t);
    if (failed && !ferror(out))
        return tg_fail(TG_E_NOMEM, "out of memory: a table of servers");
    for (size_t i = 0; i < files->servers.count; i++)
        TG_TRY(print_events(&files->servers.file[i], out));
    return TG_OK;
}

tg_status report_servers(char *const *paths, size_t count)
{
    return run_files_draw(paths, count, print, NULL, stdout);
}
