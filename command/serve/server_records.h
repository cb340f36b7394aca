/* The records of telegrad serve --out (docs/records.md). */
#ifndef TG_CLI_SERVER_RECORDS_H
#define TG_CLI_SERVER_RECORDS_H

#include "telegrad/server.h"

/* What a server was told, for its first record. */
struct server_about {
    const char *listen, *mode, *optimizer, *journal, *out; /* journal: NULL: none */
    int shard, shards, workers;
    double timeout_s, deadline_s, every_s;
    uint64_t recovered, recovered_step; /* as in tg_server_stats */
};

struct server_records;

/* Open the file, and write the first record. A server that continues with its journal appends.
 * Errors  TG_E_IO, TG_E_SPEC (the file holds something else), TG_E_NOMEM */
TG_NODISCARD tg_status server_records_open(const struct server_about *about,
                                           struct server_records **r_p);
/* What has happened to a worker. Texts: "": there is none. */
struct server_event {
    const char *event, *name, *key, *host, *reason, *text;
    int worker;           /* its seat; -1: it has none */
    uint64_t step, steps; /* steps: so many of the worker's were late or unfit; 0: not counted */
};
/* Write a record of an event, if the last record could be written. NULL is fine. */
void server_records_event(struct server_records *r, const struct server_event *e);
/* Write a record of the figures if every_s seconds have passed since the last one. If it cannot be
 * written, say so; records are lost then, and counted, until it can be, which is tried after six
 * times every_s, at most a minute. NULL is fine. */
void server_records_tick(struct server_records *r, const tg_server_stats *stats);
/* The file was renamed: open the one that has its name now. NULL is fine. */
void server_records_open_again(struct server_records *r);
/* Records that could not be written. NULL: 0 */
uint64_t server_records_lost(const struct server_records *r);
/* Write the last record, and close; warn if others were lost. Frees r; NULL is fine.
 * why     the error that ended the server; NULL: it ended as asked
 * Errors  TG_E_IO, TG_E_NOMEM */
TG_NODISCARD tg_status server_records_close(struct server_records *r, const tg_server_stats *stats,
                                            const char *why);

#endif
