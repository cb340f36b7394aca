/* The figures of a server in Prometheus' text format, version 0.0.4. */
#ifndef TG_CLI_METRICS_H
#define TG_CLI_METRICS_H

#include "command/serve/server_events.h"
#include "telegrad/server.h"
#include <stdio.h>

struct metrics {
    const tg_server_stats *stats;
    const struct server_events *events;
    int seats;               /* --workers */
    uint64_t records_lost;   /* of --out */
    double began_s, moved_s; /* Unix time: of the start, of the last answer (0: none) */
};

void metrics_write(const struct metrics *m, FILE *f);

#endif
