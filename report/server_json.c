#include "report/server_json.h"
#include "report/run_json.h"

enum { POINTS_ALL = 48000, POINTS_LEAST = 40, POINTS_MOST = 2000 };

static json_t *curves(const run_rows *rows, size_t most, size_t *kept)
{
    json_t *object = json_object();
    for (size_t c = 1; c < SERVER_COLUMNS; c++) {
        json_t *one = run_json_curve(rows, c, most, kept);
        if (one)
            json_object_set_new(object, server_names[c], one);
    }
    return object;
}

static json_t *totals(const server_file *s)
{
    json_t *staleness = json_array();
    for (size_t i = 0; i < SERVER_STALENESS_BINS; i++)
        json_array_append_new(staleness, run_json_real(s->staleness[i]));
    return json_pack(
        "{s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}",
        "starts", (json_int_t)s->starts, "seconds", run_json_real(s->seconds), "answers",
        run_json_real(s->answers), "gradients", run_json_real(s->gradients), "bytes_in",
        run_json_real(s->bytes_in), "bytes_out", run_json_real(s->bytes_out), "most_workers",
        run_json_real(s->most_workers), "step",
        run_json_real(s->last ? json_number_value(json_object_get(s->last, "step")) : 0), "syncs",
        run_json_real(s->syncs), "sync_s", run_json_real(s->sync_s), "late", run_json_real(s->late),
        "unfit", run_json_real(s->unfit), "up", run_json_real(server_file_ratio(s, SERVER_UP)),
        "down", run_json_real(server_file_ratio(s, SERVER_DOWN)), "staleness", staleness, "stale",
        run_json_real(s->stale), "mean_staleness", run_json_real(server_file_staleness(s)));
}

static json_t *settings(const json_t *start)
{
    json_t *object = json_copy((json_t *)start);
    json_object_del(object, "type");
    return object;
}

tg_status server_json(const server_files *f, json_t **list_p)
{
    size_t kept[POINTS_MOST], most = POINTS_ALL / SERVER_COLUMNS / (f->count ? f->count : 1);
    most = most < POINTS_LEAST ? POINTS_LEAST : most > POINTS_MOST ? POINTS_MOST : most;
    json_t *list = json_array();
    for (size_t i = 0; i < f->count; i++) {
        const server_file *s = &f->file[i];
        json_t *one = json_pack(
            "{s:s, s:s, s:o, s:O?, s:[[], [], []], s:o, s:{}, s:{}, s:{}, s:o, s:I, s:o, s:I}",
            "name", s->name, "file", s->path, "settings", settings(s->start), "end",
            s->ended ? s->last : NULL, "marks", "steps", curves(&s->rows, most, kept), "epochs",
            "last", "means", "totals", totals(s), "records", (json_int_t)s->rows.count, "events",
            s->events ? json_incref(s->events) : json_array(), "event_count",
            (json_int_t)s->event_count);
        if (json_array_append_new(list, one) != 0) {
            json_decref(list);
            return tg_fail(TG_E_NOMEM, "out of memory, or no UTF-8: server \"%.64s\"", s->name);
        }
    }
    *list_p = list;
    return TG_OK;
}
