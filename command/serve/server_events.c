#include "command/serve/server_events.h"
#include "telegrad/clock.h"
#include "telegrad/tools.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OF_NET = 6, OF_SERVER = SERVER_EVENTS - OF_NET };

const char *const server_event_names[SERVER_EVENTS] = {
    [TG_NET_CAME] = "came",
    [TG_NET_BACK] = "back",
    [TG_NET_LEFT] = "left",
    [TG_NET_LOST] = "lost",
    [TG_NET_DROPPED] = "dropped",
    [TG_NET_REFUSED] = "refused",
    [OF_NET + TG_SERVER_LATE] = "late",
    [OF_NET + TG_SERVER_UNFIT] = "unfit",
};

/* The worker of a seat. */
struct worker {
    char name[64], key[TG_KEY_TEXT], host[64];
    uint64_t steps[OF_SERVER]; /* that were late or unfit */
    int64_t told_ns[OF_SERVER];
};

struct server_events {
    struct server_records *records;
    uint64_t count[SERVER_EVENTS];
    int seats;
    int64_t every_ns;
    struct worker worker[];
};

tg_status server_events_create(int seats, double every_s, struct server_events **e_p)
{
    struct server_events *e = calloc(1, sizeof *e + (size_t)seats * sizeof e->worker[0]);
    if (!e)
        return tg_fail(TG_E_NOMEM, "out of memory: %d workers", seats);
    e->seats = seats;
    e->every_ns = (int64_t)(every_s * 1e9);
    *e_p = e;
    return TG_OK;
}

void server_events_to(struct server_events *e, struct server_records *r)
{
    e->records = r;
}

void server_events_of_net(struct server_events *e, const tg_net_event *event,
                          const tg_server_stats *stats)
{
    e->count[event->kind]++;
    if (event->text[0] == '\0') /* one of many calls that have failed */
        return;
    struct worker *w = event->seat >= 0 ? &e->worker[event->seat] : NULL;
    if (w && (event->kind == TG_NET_CAME || event->kind == TG_NET_BACK)) {
        if (event->kind == TG_NET_CAME)
            *w = (struct worker){.name = ""};
        snprintf(w->name, sizeof w->name, "%s", event->name);
        snprintf(w->key, sizeof w->key, "%s", event->key);
        snprintf(w->host, sizeof w->host, "%s", event->host);
    }
    /* A worker whose key was taken off the list still has the name it had when it came. */
    const char *name = w && event->name[0] == '\0' ? w->name : event->name;
    server_records_event(e->records,
                         &(struct server_event){.event = server_event_names[event->kind],
                                                .worker = event->seat,
                                                .name = name,
                                                .key = event->key,
                                                .host = event->host,
                                                .reason = event->reason,
                                                .text = event->text,
                                                .step = stats->step});
}

void server_events_of_server(struct server_events *e, const tg_server_event *event)
{
    const int64_t now = tg_now_ns(tg_clock_monotonic());
    struct worker *w = &e->worker[event->rank];
    e->count[OF_NET + event->kind]++;
    w->steps[event->kind]++;
    if (w->told_ns[event->kind] != 0 && now - w->told_ns[event->kind] < e->every_ns)
        return;
    w->told_ns[event->kind] = now;
    server_records_event(e->records,
                         &(struct server_event){.event = server_event_names[OF_NET + event->kind],
                                                .worker = event->rank,
                                                .name = w->name,
                                                .key = w->key,
                                                .host = w->host,
                                                .reason = "",
                                                .text = event->text,
                                                .step = event->step,
                                                .steps = w->steps[event->kind]});
}

uint64_t server_events_count(const struct server_events *e, int event)
{
    return e->count[event];
}

void server_events_free(struct server_events *e)
{
    free(e);
}
