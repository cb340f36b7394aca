#include "command/serve/server_records.h"
#include "command/output/console.h"
#include "command/output/record_file.h"
#include "telegrad/clock.h"
#include "telegrad/tools.h"
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

struct server_records {
    struct record_file *file;
    int64_t begin_ns, told_ns, every_ns;
    tg_status status; /* of the first record that could not be written, and why */
    char why[400];
};

static json_t *time_now(void)
{
    char text[32];
    const time_t now = time(NULL);
    struct tm utc;
    gmtime_r(&now, &utc);
    strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
    return json_string(text);
}

static json_t *about_server(const struct server_about *a)
{
    return json_pack("{s:s, s:s, s:s, s:s, s:i, s:i, s:i, s:f, s:f, s:o, s:I, s:I, s:o, s:s, s:s, "
                     "s:I, s:o, s:f}",                                                          /**/
                     "type", "server_start", "listen", a->listen, "mode", a->mode,              /**/
                     "optimizer", a->optimizer, "shard", a->shard, "shards", a->shards,         /**/
                     "workers_most", a->workers, "timeout", a->timeout_s,                       /**/
                     "log_every", a->every_s, "journal", jsonl_text(a->journal),                /**/
                     "recovered", (json_int_t)a->recovered,                                     /**/
                     "recovered_step", (json_int_t)a->recovered_step,                           /**/
                     "out", jsonl_text(a->out), "version", tg_version(), "cpu", tg_cpu_level(), /**/
                     "host_threads", (json_int_t)sysconf(_SC_NPROCESSORS_ONLN), "time", time_now(),
                     "deadline", a->deadline_s);
}

tg_status server_records_open(const struct server_about *about, struct server_records **r_p)
{
    struct server_records *r = calloc(1, sizeof *r);
    if (!r)
        return tg_fail(TG_E_NOMEM, "out of memory: records");
    r->begin_ns = r->told_ns = tg_now_ns(tg_clock_monotonic());
    r->every_ns = (int64_t)(about->every_s * 1e9);
    tg_status status = record_file_open(about->out, "server_start", "records of a server",
                                        about->recovered > 0, &r->file);
    if (status == TG_OK)
        status = record_file_add(r->file, about_server(about));
    if (status != TG_OK) {
        record_file_abandon(r->file);
        free(r);
        return status;
    }
    *r_p = r;
    return TG_OK;
}

/* All figures count from the start. */
static json_t *figures(const struct server_records *r, const char *type, const tg_server_stats *s)
{
    json_t *staleness = json_array();
    for (size_t i = 0; staleness && i < TG_STALENESS; i++)
        json_array_append_new(staleness, json_integer((json_int_t)s->staleness[i]));
    return json_pack(
        "{s:s, s:f, s:i, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:I, s:I, s:f, s:o, "
        "s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}",
        "type", type, "seconds", (double)(r->told_ns - r->begin_ns) / 1e9,          /**/
        "workers", s->ranks, "step", (json_int_t)s->step,                           /**/
        "answers", (json_int_t)s->sums, "elements", (json_int_t)s->elements,        /**/
        "bytes_in", (json_int_t)s->bytes_in, "bytes_out", (json_int_t)s->bytes_out, /**/
        "repeated", (json_int_t)s->repeated, "unfit", (json_int_t)s->unfit,         /**/
        "idle_s", (double)s->waited_ns / 1e9,                                       /**/
        "combine_s", (double)s->combined_ns / 1e9,                                  /**/
        "journal_bytes", (json_int_t)s->journal_bytes,                              /**/
        "journal_syncs", (json_int_t)s->journal_syncs,                              /**/
        "journal_s", (double)s->journal_ns / 1e9, "staleness", staleness, "late",
        (json_int_t)s->late, "parameters", (json_int_t)s->parameters, /**/
        "gradient_elements", (json_int_t)s->gradient_elements,        /**/
        "gradient_bytes", (json_int_t)s->gradient_bytes,              /**/
        "answer_elements", (json_int_t)s->answer_elements,            /**/
        "answer_bytes", (json_int_t)s->answer_bytes,                  /**/
        "staleness_sum", (json_int_t)s->staleness_sum, "gradients", (json_int_t)s->gradients);
}

/* If it cannot be written, say so, and write nothing more. */
static void add(struct server_records *r, json_t *record)
{
    r->status = record_file_add(r->file, record);
    if (r->status == TG_OK)
        return;
    snprintf(r->why, sizeof r->why, "%s", tg_error());
    console_warning("%s: no more records are written", r->why);
}

void server_records_tick(struct server_records *r, const tg_server_stats *stats)
{
    const int64_t now = tg_now_ns(tg_clock_monotonic());
    if (!r || now - r->told_ns < r->every_ns || r->status != TG_OK)
        return;
    r->told_ns = now;
    add(r, figures(r, "server", stats));
}

static json_t *text_or_null(const char *text)
{
    return jsonl_text(text && *text ? text : NULL);
}

void server_records_event(struct server_records *r, const struct server_event *e)
{
    if (!r || r->status != TG_OK)
        return;
    const int64_t now = tg_now_ns(tg_clock_monotonic());
    add(r, json_pack("{s:s, s:f, s:o, s:s, s:o, s:o, s:o, s:o, s:I, s:o, s:o, s:o}",            /**/
                     "type", "server_event", "seconds", (double)(now - r->begin_ns) / 1e9,      /**/
                     "time", time_now(), "event", e->event, "worker",                           /**/
                     e->worker < 0 ? json_null() : json_integer(e->worker),                     /**/
                     "name", text_or_null(e->name), "key", text_or_null(e->key),                /**/
                     "host", text_or_null(e->host), "step", (json_int_t)e->step,                /**/
                     "steps", e->steps == 0 ? json_null() : json_integer((json_int_t)e->steps), /**/
                     "reason", text_or_null(e->reason), "text", text_or_null(e->text)));
}

tg_status server_records_close(struct server_records *r, const tg_server_stats *stats,
                               const char *why)
{
    if (!r)
        return TG_OK;
    r->told_ns = tg_now_ns(tg_clock_monotonic());
    tg_status status = r->status;
    if (status == TG_OK) {
        json_t *record = figures(r, "server_end", stats);
        if (record)
            json_object_set_new(record, "error", jsonl_text(why));
        status = record_file_add(r->file, record);
    } else
        status = tg_fail(status, "%s", r->why);
    if (status == TG_OK)
        status = record_file_commit(r->file);
    else
        record_file_abandon(r->file);
    free(r);
    return status;
}
