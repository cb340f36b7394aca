#include "report/trace_file.h"
#include "report/lines.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const span_row_names[SPAN_ROWS] = {
    [SPAN_COMPUTE] = "compute", [SPAN_WAIT] = "wait",         [SPAN_APPLY] = "apply",
    [SPAN_ENCODE] = "encode",   [SPAN_EXCHANGE] = "exchange",
};

static bool whole(const json_t *object, const char *name, json_int_t most, json_int_t *v_p)
{
    const json_t *value = json_object_get(object, name);
    *v_p = json_integer_value(value);
    return json_is_integer(value) && *v_p >= 0 && *v_p <= most;
}

static bool real(const json_t *object, const char *name, double *v_p)
{
    const json_t *value = json_object_get(object, name);
    *v_p = json_number_value(value);
    return json_is_number(value) && fabs(*v_p) < 1e15;
}

/* Events of other kinds are skipped. */
static bool row_of(const json_t *event, span_row *row_p)
{
    const char *text = json_string_value(json_object_get(event, "cat"));
    size_t row = 0;
    while (row < SPAN_ROWS && (!text || strcmp(text, span_row_names[row]) != 0))
        row++;
    *row_p = (span_row)row;
    return row < SPAN_ROWS;
}

static bool is_span(const json_t *event)
{
    const char *kind = json_string_value(json_object_get(event, "ph"));
    return kind && strcmp(kind, "X") == 0;
}

static bool read_span(const json_t *event, trace_span *span)
{
    const json_t *args = json_object_get(event, "args");
    json_int_t rank, step, bucket;
    double begin, length;
    const char *name = json_string_value(json_object_get(event, "name"));
    if (!name || !whole(event, "pid", 1 << 20, &rank) || !whole(args, "step", INT64_MAX, &step) ||
        !whole(args, "bucket", 1 << 30, &bucket) || !real(event, "ts", &begin) ||
        !real(event, "dur", &length) || length < 0)
        return false;
    span->name = name;
    span->begin = begin;
    span->end = begin + length;
    span->step = (uint64_t)step;
    span->rank = (int)rank;
    span->bucket = (int)bucket;
    return true;
}

static int by_begin(const void *a, const void *b)
{
    const trace_span *x = a, *y = b;
    return (x->begin > y->begin) - (x->begin < y->begin);
}

static tg_status read_events(const char *path, trace_file *t)
{
    const json_t *events = json_object_get(t->json, "traceEvents"), *event;
    size_t i;
    if (!json_is_array(events))
        return tg_fail(TG_E_CORRUPT,
                       "%s: no \"traceEvents\": allowed: files of telegrad train "
                       "--trace",
                       path);
    t->spans = malloc((json_array_size(events) + 1) * sizeof *t->spans);
    if (!t->spans)
        return tg_fail(TG_E_NOMEM, "out of memory: %s", path);
    json_array_foreach(events, i, event)
    {
        trace_span *span = &t->spans[t->count];
        if (!is_span(event) || !row_of(event, &span->row))
            continue;
        if (!read_span(event, span))
            return tg_fail(TG_E_CORRUPT,
                           "%s: event %zu is not a span of a run: allowed: files of "
                           "telegrad train --trace",
                           path, i);
        t->count++;
    }
    if (t->count == 0)
        return tg_fail(TG_E_CORRUPT, "%s: no spans: allowed: files of telegrad train --trace",
                       path);
    qsort(t->spans, t->count, sizeof *t->spans, by_begin);
    t->first_rank = t->spans[0].rank;
    for (i = 1; i < t->count; i++)
        t->first_rank = t->spans[i].rank < t->first_rank ? t->spans[i].rank : t->first_rank;
    for (i = 0; i < t->count; i++)
        t->spans[i].rank -= t->first_rank;
    return TG_OK;
}

/* Whether the file holds the records of train --out. */
static bool is_records(const char *path)
{
    lines *l;
    const char *line = NULL;
    size_t len;
    bool whole, is = false;
    if (strcmp(path, "-") == 0 || lines_open(path, &l) != TG_OK)
        return false;
    if (lines_next(l, &line, &len, &whole) == TG_OK && line) {
        json_t *record = json_loadb(line, len, 0, NULL);
        const char *type = json_string_value(json_object_get(record, "type"));
        is = type && strcmp(type, "start") == 0;
        json_decref(record);
    }
    lines_close(l);
    return is;
}

tg_status trace_file_read(const char *path, trace_file *t_p)
{
    trace_file t = {0};
    tg_status status = lines_read_json(path, &t.json);
    if (status == TG_OK)
        status = read_events(path, &t);
    if (status != TG_OK) {
        trace_file_free(&t);
        if (status == TG_E_CORRUPT && is_records(path))
            return tg_fail(status,
                           "%s holds records, and traces of telegrad train --trace are needed; "
                           "draw records with telegrad report %s -o report.html",
                           path, path);
        return status;
    }
    *t_p = t;
    return TG_OK;
}

void trace_file_free(trace_file *t)
{
    free(t->spans);
    json_decref(t->json);
    *t = (trace_file){0};
}
