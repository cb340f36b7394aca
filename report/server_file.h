/* The records of parameter servers (telegrad serve --out) as tables. docs/records.md describes
 * them. */
#ifndef TG_REPORT_SERVER_FILE_H
#define TG_REPORT_SERVER_FILE_H

#include "report/rows.h"
#include <jansson.h>

/* Columns of a server's records. Rates are those since the record before. */
enum {
    SERVER_SECONDS, /* since the first start */
    SERVER_WORKERS,
    SERVER_PACE, /* steps of the fastest worker, a second */
    SERVER_GRADIENTS,
    SERVER_IN,
    SERVER_OUT,
    SERVER_STALENESS, /* mean */
    SERVER_BUSY,      /* share of the time for decoding and updating */
    SERVER_SYNC,      /* share of the time for syncing the journal */
    SERVER_JOURNAL,   /* bytes of the log */
    SERVER_COLUMNS
};

extern const char *const server_names[SERVER_COLUMNS];

enum {
    SERVER_STALENESS_BINS = 16,
    SERVER_EVENTS_MOST = 500 /* the last ones are kept */
};

/* Elements of gradients and of the answers to them, each followed by bytes. */
enum { SERVER_UP, SERVER_UP_BYTES, SERVER_DOWN, SERVER_DOWN_BYTES, SERVER_CODED };

/* A server, which may have been started several times. */
typedef struct server_file {
    const char *path;
    char *name;           /* the file's, without folder and ending */
    json_t *start, *last; /* the first record, and the last one of the last start */
    bool ended;           /* the last start has a last record */
    size_t starts;
    run_rows rows;
    double begin_s, first_s; /* of the last start, and of the first: UTC, in seconds */
    double most_workers;
    /* Sums over all starts. */
    double seconds, answers, bytes_in, bytes_out, syncs, sync_s, gradients, late, unfit;
    double staleness[SERVER_STALENESS_BINS], coded[SERVER_CODED];
    double stale, stale_steps; /* gradients whose staleness was counted, and its sum */
    /* Records of what has happened to workers, and when the server was started again ("started")
     * and has ended ("ended"); NULL: none. Seconds are those since the first start. */
    json_t *events;
    size_t event_count; /* also of those that are not kept */
} server_file;

typedef struct server_files {
    server_file *file; /* (count), in the order of the files */
    size_t count;
} server_files;

/* Add a record of a server, whose type begins with "server", which is line `line` of a file.
 * path    outlives f; the same pointer for all records of the file
 * Errors  TG_E_CORRUPT: the message names file and line; TG_E_NOMEM */
TG_NODISCARD tg_status server_files_add(server_files *f, const char *path, size_t line,
                                        const json_t *record);
/* The mean over all gradients, in older records with the middle of each range; NAN: there is
 * none. */
double server_file_staleness(const server_file *s);
/* The compression ratio: bytes as f32, divided by those that it took; NAN: there were none.
 * elements  SERVER_UP or SERVER_DOWN */
double server_file_ratio(const server_file *s, size_t elements);
void server_files_free(server_files *f); /* frees the contents; f may be all zero */

#endif
