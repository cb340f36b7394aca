#include "report/server_file.h"
#include "report/lines.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

const char *const server_names[SERVER_COLUMNS] = {
    [SERVER_SECONDS] = "seconds",     [SERVER_WORKERS] = "workers", [SERVER_PACE] = "pace",
    [SERVER_GRADIENTS] = "gradients", [SERVER_IN] = "in",           [SERVER_OUT] = "out",
    [SERVER_STALENESS] = "staleness", [SERVER_BUSY] = "busy",       [SERVER_SYNC] = "sync",
    [SERVER_JOURNAL] = "journal",
};

/* Totals of one start, as a record has them. */
enum {
    SECONDS,
    STEP,
    ANSWERS,
    IN,
    OUT,
    BUSY,
    SYNCS,
    SYNC,
    UNFIT,
    CODED,
    STALE = CODED + 4,
    GRADIENTS,
    TOTALS
};
static const char *const totals[TOTALS] = {"seconds",           "step",           "answers",
                                           "bytes_in",          "bytes_out",      "combine_s",
                                           "journal_syncs",     "journal_s",      "unfit",
                                           "gradient_elements", "gradient_bytes", "answer_elements",
                                           "answer_bytes",      "staleness_sum",  "gradients"};

static double number(const json_t *record, const char *name)
{
    const json_t *value = json_object_get(record, name);
    return json_is_number(value) ? json_number_value(value) : (double)NAN;
}

static bool lacks(const json_t *record, size_t total)
{
    return !json_object_get(record, totals[total]);
}

/* A total; 0 if the record is older than its name. */
static double total_of(const json_t *record, size_t total)
{
    return total >= UNFIT && lacks(record, total) ? 0 : number(record, totals[total]);
}

/* "2026-11-26T16:19:24Z" in seconds; NAN: it is none. */
static double time_of(const json_t *start)
{
    const char *text = json_string_value(json_object_get(start, "time"));
    struct tm utc = {0};
    int used = 0;
    if (!text ||
        sscanf(text, "%4d-%2d-%2dT%2d:%2d:%2dZ%n", &utc.tm_year, &utc.tm_mon, &utc.tm_mday,
               &utc.tm_hour, &utc.tm_min, &utc.tm_sec, &used) != 6 ||
        text[used] != '\0')
        return NAN;
    utc.tm_year -= 1900;
    utc.tm_mon -= 1;
    return (double)timegm(&utc);
}

/* The largest total that is drawn exactly. */
#define MOST 9e15

static tg_status check(const char *path, size_t line, const json_t *record)
{
    for (size_t i = 0; i < TOTALS; i++) {
        const double v = total_of(record, i);
        if (!(v >= 0 && v <= MOST))
            return tg_fail(TG_E_CORRUPT, "%s:%zu: \"%s\": allowed: a number, 0 to %g", path, line,
                           totals[i], MOST);
    }
    const double workers = number(record, "workers"), journal = number(record, "journal_bytes");
    if (!(workers >= 0 && workers <= MOST) || !(journal >= 0 && journal <= MOST))
        return tg_fail(TG_E_CORRUPT,
                       "%s:%zu: \"workers\" or \"journal_bytes\": allowed: a number, 0 to %g", path,
                       line, MOST);
    const json_t *bins = json_object_get(record, "staleness");
    for (size_t i = 0; i < SERVER_STALENESS_BINS; i++) {
        const json_t *bin = json_array_get(bins, i);
        if (!json_is_number(bin) ||
            !(json_number_value(bin) >= 0 && json_number_value(bin) <= MOST))
            return tg_fail(TG_E_CORRUPT, "%s:%zu: \"staleness\": allowed: %d numbers, 0 to %g",
                           path, line, SERVER_STALENESS_BINS, MOST);
    }
    return TG_OK;
}

/* Bin i has 2^(i-1) to 2^i - 1 steps. */
static double middle(size_t i)
{
    return i == 0 ? 0 : (ldexp(1, (int)i - 1) + ldexp(1, (int)i) - 1) / 2;
}

static double bin_of(const json_t *record, size_t i)
{
    return json_number_value(json_array_get(json_object_get(record, "staleness"), i));
}

/* event  taken over; NULL: there was no memory for it */
static tg_status keep_event(server_file *s, json_t *event)
{
    if (!s->events)
        s->events = json_array();
    if (json_array_append_new(s->events, event) != 0)
        return tg_fail(TG_E_NOMEM, "out of memory: events of %s", s->path);
    s->event_count++;
    if (json_array_size(s->events) > SERVER_EVENTS_MOST)
        json_array_remove(s->events, 0);
    return TG_OK;
}

/* The server itself was started again, or has ended.
 * why  NULL: as planned */
static tg_status keep_own_event(server_file *s, const char *what, double seconds, double step,
                                const char *why)
{
    return keep_event(s, json_pack("{s:s, s:f, s:f, s:s?}", "event", what, "seconds", seconds,
                                   "step", step, "reason", why));
}

/* A server that does not run has no workers, from its last record to its next start. */
static tg_status pause(server_file *s, double until)
{
    const double last = s->rows.v[(s->rows.count - 1) * SERVER_COLUMNS + SERVER_SECONDS];
    double *row;
    for (int i = 0; i < 2; i++) {
        TG_TRY(run_rows_next(&s->rows, s->path, &row));
        for (size_t c = 0; c < SERVER_COLUMNS; c++)
            row[c] = c == SERVER_STALENESS || c == SERVER_JOURNAL ? (double)NAN : 0;
        row[SERVER_SECONDS] = i == 0 ? last : fmax(last, until - s->first_s);
        s->rows.count++;
    }
    return TG_OK;
}

static tg_status begin(server_file *s, const char *path, size_t line, const json_t *record)
{
    const double now = time_of(record);
    if (isnan(now))
        return tg_fail(TG_E_CORRUPT, "%s:%zu: \"time\": allowed: as in 2026-11-26T16:19:24Z", path,
                       line);
    if (s->starts == 0) {
        s->start = json_incref((json_t *)record);
        s->first_s = now;
        s->rows.columns = SERVER_COLUMNS;
    }
    if (s->rows.count > 0)
        TG_TRY(pause(s, now));
    s->begin_s = fmax(now, s->begin_s); /* a clock may have been set back */
    if (s->starts++ > 0) {
        const double step = number(record, "recovered_step");
        TG_TRY(keep_own_event(s, "started", s->begin_s - s->first_s, step > 0 ? step : 0, NULL));
    }
    s->ended = false;
    json_decref(s->last);
    s->last = NULL;
    return TG_OK;
}

/* Records of older servers do not have it. */
static double late_in(const json_t *record)
{
    const double late = record ? number(record, "late") : 0;
    return late >= 0 && late <= MOST ? late : 0;
}

/* What has been added since the record before, of this start. */
static double since(const server_file *s, const json_t *record, size_t total)
{
    return total_of(record, total) - (s->last ? total_of(s->last, total) : 0);
}

static tg_status add(server_file *s, const char *path, size_t line, const json_t *record)
{
    double *row, stale = 0, steps = 0;
    TG_TRY(check(path, line, record));
    TG_TRY(run_rows_next(&s->rows, path, &row));
    for (size_t i = 0; i < TOTALS; i++)
        if (since(s, record, i) < 0)
            return tg_fail(TG_E_CORRUPT, "%s:%zu: \"%s\" is less than in the record before", path,
                           line, totals[i]);
    for (size_t i = 0; i < SERVER_STALENESS_BINS; i++) {
        const double n = bin_of(record, i) - (s->last ? bin_of(s->last, i) : 0);
        if (n < 0)
            return tg_fail(TG_E_CORRUPT, "%s:%zu: \"staleness\" is less than in the record before",
                           path, line);
        stale += n;
        steps += n * middle(i);
        s->staleness[i] += n;
    }
    if (!lacks(record, STALE))
        steps = since(s, record, STALE);
    const double gradients = lacks(record, GRADIENTS) ? stale : since(s, record, GRADIENTS);
    const double spent = since(s, record, SECONDS), step = number(record, "step");
    const double from = s->last ? number(s->last, "step") : (double)NAN;
    const double workers = number(record, "workers");
    const bool some = spent > 0; /* else there is no rate */
    row[SERVER_SECONDS] = s->begin_s - s->first_s + number(record, "seconds");
    row[SERVER_WORKERS] = workers;
    /* Of the first record after a restart, it is not known from where steps counted. */
    row[SERVER_PACE] = some && from > 0 ? (step - from) / spent : (double)NAN;
    /* Older records count only those with a staleness, which mode sync does not have. */
    row[SERVER_GRADIENTS] = some && s->gradients + gradients > 0 ? gradients / spent : (double)NAN;
    row[SERVER_IN] = some ? since(s, record, IN) / spent : (double)NAN;
    row[SERVER_OUT] = some ? since(s, record, OUT) / spent : (double)NAN;
    row[SERVER_STALENESS] = stale > 0 ? steps / stale : (double)NAN;
    row[SERVER_BUSY] = some ? since(s, record, BUSY) / spent : (double)NAN;
    row[SERVER_SYNC] = some ? since(s, record, SYNC) / spent : (double)NAN;
    row[SERVER_JOURNAL] = number(record, "journal_bytes");
    s->rows.count++;
    s->most_workers = fmax(s->most_workers, workers);
    s->seconds += spent;
    s->answers += since(s, record, ANSWERS);
    s->bytes_in += since(s, record, IN);
    s->bytes_out += since(s, record, OUT);
    s->syncs += since(s, record, SYNCS);
    s->sync_s += since(s, record, SYNC);
    s->unfit += since(s, record, UNFIT);
    for (size_t i = 0; i < SERVER_CODED; i++)
        s->coded[i] += since(s, record, CODED + i);
    s->gradients += gradients;
    s->stale += stale;
    s->stale_steps += steps;
    s->late += fmax(0, late_in(record) - late_in(s->last));
    json_decref(s->last);
    s->last = json_incref((json_t *)record);
    return TG_OK;
}

/* What has happened to a worker. */
static tg_status add_event(server_file *s, const char *path, size_t line, const json_t *record)
{
    const double seconds = number(record, "seconds");
    if (!(seconds >= 0 && seconds <= MOST) || !json_is_string(json_object_get(record, "event")))
        return tg_fail(TG_E_CORRUPT,
                       "%s:%zu: \"seconds\" or \"event\": allowed: a number, 0 to %g, and a text",
                       path, line, MOST);
    json_t *event = json_copy((json_t *)record);
    if (event) {
        json_object_set_new(event, "seconds", json_real(s->begin_s - s->first_s + seconds));
        json_object_del(event, "type");
        if (!json_is_number(json_object_get(event, "steps"))) /* the other fields say it */
            json_object_del(event, "text");
    }
    return keep_event(s, event);
}

tg_status server_files_add(server_files *f, const char *path, size_t line, const json_t *record)
{
    const char *type = json_string_value(json_object_get(record, "type"));
    const bool begins = strcmp(type, "server_start") == 0;
    server_file *s = f->count > 0 ? &f->file[f->count - 1] : NULL;
    if ((!s || s->path != path) && !begins)
        return tg_fail(TG_E_CORRUPT, "%s:%zu: \"%s\" without \"server_start\" before it", path,
                       line, type);
    if (!s || s->path != path) {
        s = realloc(f->file, (f->count + 1) * sizeof *s);
        if (!s)
            return tg_fail(TG_E_NOMEM, "out of memory: records of %s", path);
        f->file = s;
        s = &f->file[f->count++];
        *s = (server_file){.path = path, .name = lines_name(path)};
        if (!s->name)
            return tg_fail(TG_E_NOMEM, "out of memory: records of %s", path);
    }
    if (begins)
        return begin(s, path, line, record);
    if (strcmp(type, "server_event") == 0)
        return add_event(s, path, line, record);
    TG_TRY(add(s, path, line, record));
    s->ended = strcmp(type, "server_end") == 0;
    return !s->ended
               ? TG_OK
               : keep_own_event(s, "ended", s->begin_s - s->first_s + number(record, "seconds"),
                                number(record, "step"),
                                json_string_value(json_object_get(record, "error")));
}

double server_file_staleness(const server_file *s)
{
    return s->stale > 0 ? s->stale_steps / s->stale : (double)NAN;
}

double server_file_ratio(const server_file *s, size_t elements)
{
    const double bytes = s->coded[elements + 1];
    return bytes > 0 ? 4 * s->coded[elements] / bytes : (double)NAN;
}

void server_files_free(server_files *f)
{
    for (size_t i = 0; i < f->count; i++) {
        free(f->file[i].name);
        json_decref(f->file[i].start);
        json_decref(f->file[i].last);
        json_decref(f->file[i].events);
        free(f->file[i].rows.v);
    }
    free(f->file);
    *f = (server_files){0};
}
