/* The records of runs as JSON lines (RFC 8259, one object a line): start, step, epoch, end, failed,
 * table.
 * Numbers that are not finite are null, bytes that are not UTF-8 the text \xNN. FILE grows a
 * whole line at a time. It is opened for the first record, when the run has passed its checks:
 * until then an older FILE is left alone, and then emptied, or added to by a run that was resumed.
 * What was written stays, however the run ends. FILE "-" is the standard output, on which nothing
 * else may be printed then. One thread at a time. */
#ifndef TG_CLI_RECORDS_H
#define TG_CLI_RECORDS_H

#include "command/job/launch.h"
#include "command/output/jsonl.h"
#include "command/train/verdict.h"

struct records;

/* What a run is about: for the start record. */
struct run_about {
    const char *name; /* compare: the run's, in every record as "run"; NULL: none */
    const struct launch *launch;
    const struct run_options *options;
    const train_data *data;
};

/* What is known when a run has ended. */
struct run_result {
    train_end_info end;
    verdict verdict; /* once it has ended */
    uint64_t steps_planned, first_step, steps_per_epoch;
    size_t params;
    char *method, *strategy, *optimizer, *lr_schedule; /* normal forms; owned */
    double *waited_for,
        *waited_by; /* train_waits, (world) each; NULL: one rank. In one block; owned */
};

/* path is borrowed. append: add to a file that is there. Errors TG_E_IO (it cannot be written, as
 * far as that is known without opening it), TG_E_NOMEM */
TG_NODISCARD tg_status records_open(const char *path, bool append, struct records **r_p);
/* Syncs and closes. Frees r; NULL is fine. Errors TG_E_IO */
TG_NODISCARD tg_status records_commit(struct records *r);
/* Closes after a failure. Frees r; NULL is fine. */
void records_abandon(struct records *r);

/* All: r may be NULL. Errors TG_E_IO (disk full, ...), TG_E_NOMEM */
TG_NODISCARD tg_status records_start(struct records *r, const struct run_about *about,
                                     const train_start_info *info);
/* Every step; a record is written every log_every steps and at the last one, with the medians of
 * the times since the record before. */
TG_NODISCARD tg_status records_step(struct records *r, const train_step_info *info);
TG_NODISCARD tg_status records_epoch(struct records *r, const train_epoch_info *info);
TG_NODISCARD tg_status records_end(struct records *r, const struct run_result *result);
/* In the place of the end: why the run failed. */
TG_NODISCARD tg_status records_failed(struct records *r, const char *why);
/* A record of the caller's making; takes `record` over. */
TG_NODISCARD tg_status records_add(struct records *r, json_t *record);

/* The first failure to write a record; TG_OK if there was none. r may be NULL. */
tg_status records_status(const struct records *r);

/* o's rules, as they were given. NULL: out of memory */
json_t *records_rules(const struct run_options *o);

#endif
