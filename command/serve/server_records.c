#include "command/serve/server_records.h"
#include "command/output/console.h"
#include "command/output/record_file.h"
#include "telegrad/clock.h"
#include "telegrad/tools.h"
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define AGAIN_NS INT64_C(60000000000) /* between two attempts, or six times every_ns */

struct server_records {
    struct record_file *file;
    json_t *start; /* the first record of each file */
    int64_t begin_ns, told_ns, every_ns;
    bool fails; /* the last record could not be written */
    int64_t again_ns;
    uint64_t lost;
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
    r->start = about_server(about);
    tg_status status = record_file_open(about->out, "server_start", "records of a server",
                                        about->recovered > 0, &r->file);
    if (status == TG_OK)
        status = record_file_add(r->file, json_incref(r->start));
    if (status != TG_OK) {
        record_file_abandon(r->file);
        json_decref(r->start);
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
        "s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}",
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
        "staleness_sum", (json_int_t)s->staleness_sum, "gradients", (json_int_t)s->gradients,
        "records_lost", (json_int_t)r->lost);
}

/* Each file begins with what the server was told, also one that takes another's place. Takes the
 * record over. */
static tg_status write_record(struct server_records *r, json_t *record)
{
    tg_status status = TG_OK;
    if (record_file_is_empty(r->file))
        status = record_file_add(r->file, json_incref(r->start));
    if (status == TG_OK)
        return record_file_add(r->file, record);
    json_decref(record);
    return status;
}

static void fail(struct server_records *r)
{
    const int64_t again = 6 * r->every_ns < AGAIN_NS ? 6 * r->every_ns : AGAIN_NS;
    if (!r->fails)
        console_warning("%s: records are lost until it can be written again", tg_error());
    r->fails = true;
    r->again_ns = tg_now_ns(tg_clock_monotonic()) + again;
}

static void add(struct server_records *r, json_t *record)
{
    if (write_record(r, record) == TG_OK)
        return;
    r->lost++;
    fail(r);
}

/* After a failure, with a new record. Takes it over. */
static tg_status add_again(struct server_records *r, json_t *record)
{
    const tg_status status = record_file_open_again(r->file);
    if (status == TG_OK)
        return write_record(r, record);
    json_decref(record);
    return status;
}

void server_records_tick(struct server_records *r, const tg_server_stats *stats)
{
    const int64_t now = tg_now_ns(tg_clock_monotonic());
    const bool again = r && r->fails && now >= r->again_ns;
    if (!r || (!again && now - r->told_ns < r->every_ns))
        return;
    r->told_ns = now;
    if (!r->fails) {
        add(r, figures(r, "server", stats));
    } else if (!again) {
        r->lost++;
    } else if (add_again(r, figures(r, "server", stats)) == TG_OK) {
        r->fails = false;
        console_note("--out: records are written again; lost: %llu", (unsigned long long)r->lost);
    } else {
        r->lost++;
        fail(r);
    }
}

void server_records_open_again(struct server_records *r)
{
    if (!r)
        return;
    if (record_file_open_again(r->file) != TG_OK)
        fail(r);
    else if (r->fails)
        r->again_ns = 0; /* at the next tick */
}

uint64_t server_records_lost(const struct server_records *r)
{
    return r ? r->lost : 0;
}

static json_t *text_or_null(const char *text)
{
    return jsonl_text(text && *text ? text : NULL);
}

void server_records_event(struct server_records *r, const struct server_event *e)
{
    if (!r)
        return;
    if (r->fails) {
        r->lost++;
        return;
    }
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
    json_t *record = figures(r, "server_end", stats);
    if (record)
        json_object_set_new(record, "error", jsonl_text(why));
    tg_status status = r->fails ? add_again(r, record) : write_record(r, record);
    if (status == TG_OK)
        status = record_file_commit(r->file);
    else
        record_file_abandon(r->file);
    if (status == TG_OK && r->lost > 0)
        console_warning("--out: %llu record%s could not be written", (unsigned long long)r->lost,
                        r->lost == 1 ? "" : "s");
    json_decref(r->start);
    free(r);
    return status;
}
