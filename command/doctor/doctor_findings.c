#include "command/doctor/doctor_findings.h"
#include "command/output/jsonl.h"
#include <stdlib.h>
#include <string.h>

tg_status doctor_findings_create(int size, struct doctor_findings *f)
{
    const size_t n = (size_t)size;
    *f = (struct doctor_findings){.size = size,
                                  .machine = calloc(n, sizeof *f->machine),
                                  .way = calloc(n * n, sizeof *f->way)};
    if (f->machine && f->way)
        return TG_OK;
    doctor_findings_free(f);
    return tg_fail(TG_E_NOMEM, "out of memory: links of %d ranks", size);
}

void doctor_findings_free(struct doctor_findings *f)
{
    free(f->machine);
    free(f->way);
    *f = (struct doctor_findings){.size = 0};
}

static json_t *link_of(const struct doctor_way *w, int peer)
{
    return json_pack("{s:i, s:b, s:b, s:o, s:o, s:o, s:o, s:o, s:o}", "to", peer, "relayed",
                     w->relayed, "shared_memory", w->local, "delay_ms",
                     jsonl_real(w->link.delay_s * 1e3), "jitter_ms",
                     jsonl_real(w->link.jitter_s * 1e3), "rate_bps", jsonl_real(w->link.rate_bps),
                     "clock_ahead_ms", jsonl_real(w->link.ahead_s * 1e3), "packets",
                     jsonl_real(w->sent), "packets_resent", jsonl_real(w->resent));
}

json_t *doctor_findings_of(const struct doctor_findings *f, int rank)
{
    const struct doctor_machine *m = &f->machine[rank];
    json_t *links = json_array();
    for (int p = 0; links && p < f->size; p++)
        if (p != rank)
            (void)json_array_append_new(links, link_of(&f->way[rank * f->size + p], p));
    return json_pack("{s:i, s:o, s:o, s:o, s:o, s:b, s:o, s:o, s:o}", "rank", rank, "host",
                     jsonl_text(m->host), "telegrad", jsonl_text(m->version), "system",
                     jsonl_text(m->system), "congestion_control", jsonl_text(m->congestion),
                     "slow_start_after_idle", m->idle_restart, "receive_buffer_bytes",
                     jsonl_real(m->receive_bytes), "send_buffer_bytes", jsonl_real(m->send_bytes),
                     "links", links);
}

/* ---- what another rank says ------------------------------------------------------------------ */

/* It is printed to terminals. */
static bool take_text(const json_t *from, const char *key, char *text, size_t room)
{
    const char *said = json_string_value(json_object_get(from, key));
    size_t at = 0;
    for (; said && *said && at + 1 < room; said++)
        text[at++] = *said >= ' ' && *said < 127 ? *said : '?';
    text[at] = '\0';
    return said != NULL;
}

static bool take_number(const json_t *from, const char *key, double *v)
{
    const json_t *number = json_object_get(from, key);
    *v = json_number_value(number);
    return json_is_number(number);
}

static bool take_flag(const json_t *from, const char *key, bool *v)
{
    const json_t *flag = json_object_get(from, key);
    *v = json_is_true(flag);
    return json_is_boolean(flag);
}

static bool take_link(struct doctor_findings *f, int rank, const json_t *from)
{
    double to;
    if (!take_number(from, "to", &to) || !(to >= 0 && to < f->size))
        return false;
    struct doctor_way *w = &f->way[rank * f->size + (int)to];
    const bool all =
        take_flag(from, "relayed", &w->relayed) && take_flag(from, "shared_memory", &w->local) &&
        take_number(from, "delay_ms", &w->link.delay_s) &&
        take_number(from, "jitter_ms", &w->link.jitter_s) &&
        take_number(from, "rate_bps", &w->link.rate_bps) &&
        take_number(from, "clock_ahead_ms", &w->link.ahead_s) &&
        take_number(from, "packets", &w->sent) && take_number(from, "packets_resent", &w->resent);
    w->link.delay_s /= 1e3;
    w->link.jitter_s /= 1e3;
    w->link.ahead_s /= 1e3;
    return all;
}

static bool take(struct doctor_findings *f, int rank, const json_t *from)
{
    struct doctor_machine *m = &f->machine[rank];
    const json_t *links = json_object_get(from, "links");
    bool all = take_text(from, "host", m->host, sizeof m->host) &&
               take_text(from, "telegrad", m->version, sizeof m->version) &&
               take_text(from, "system", m->system, sizeof m->system) &&
               take_text(from, "congestion_control", m->congestion, sizeof m->congestion) &&
               take_flag(from, "slow_start_after_idle", &m->idle_restart) &&
               take_number(from, "receive_buffer_bytes", &m->receive_bytes) &&
               take_number(from, "send_buffer_bytes", &m->send_bytes) &&
               json_array_size(links) == (size_t)f->size - 1;
    for (size_t i = 0; all && i < json_array_size(links); i++)
        all = take_link(f, rank, json_array_get(links, i));
    return all;
}

tg_status doctor_findings_take(struct doctor_findings *f, int rank, const char *text)
{
    json_t *from = json_loads(text, 0, NULL);
    const bool taken = take(f, rank, from);
    json_decref(from);
    return taken ? TG_OK
                 : tg_fail(TG_E_CORRUPT,
                           "rank %d reports its findings in another format: use the same version "
                           "of telegrad on all ranks",
                           rank);
}
