/* The records of runs as JSON lines (RFC 8259, one object per line): start, step, epoch, end,
 * failed, table. Numbers that are not finite are null; bytes that are not UTF-8 become the text
 * \xNN. How the file is written: record_file.h. */
#ifndef TG_CLI_RECORDS_H
#define TG_CLI_RECORDS_H

#include "command/job/launch.h"
#include "command/output/jsonl.h"
#include "command/train/verdict.h"

struct records;

/* What the start record says about a run. */
struct run_about {
    const char *name; /* compare: name of the run, "run" in every record; NULL: none */
    const struct launch *launch;
    const struct run_options *options;
    const train_data *data;
    bool trial; /* one of many that tune tries: it may fail, and nobody is warned of that */
};

/* What is known once a run has ended. */
struct run_result {
    train_end_info end;
    char unwritten[512]; /* why a file of this run could not be written; "": all of them are */
    double highest_loss; /* the largest mean training loss of an epoch, or part of one */
    verdict verdict;     /* set when the run has ended */
    uint64_t steps_planned, first_step, first_epoch, steps_per_epoch;
    size_t params;
    bool covered, joined;                              /* as in train_start_info */
    char *method, *strategy, *optimizer, *lr_schedule; /* normal forms; owned */
    double *waited_for,
        *waited_by; /* as in train_waits, (world) each, in one block; NULL: one rank; owned */
};

/* As record_file_open. */
TG_NODISCARD tg_status records_open(const char *path, bool append, struct records **r_p);
/* Sync and close. Frees r; NULL is fine. Errors TG_E_IO */
TG_NODISCARD tg_status records_commit(struct records *r);
/* Close after a failure. Frees r; NULL is fine. */
void records_abandon(struct records *r);

/* In all of these r may be NULL. Errors TG_E_IO (disk full, ...), TG_E_NOMEM */
TG_NODISCARD tg_status records_start(struct records *r, const struct run_about *about,
                                     const train_start_info *info);
/* Call it every step. A record is written every log_every steps and at the last step, with the
 * medians of the times since the previous record. */
TG_NODISCARD tg_status records_step(struct records *r, const train_step_info *info);
TG_NODISCARD tg_status records_epoch(struct records *r, const train_epoch_info *info);
TG_NODISCARD tg_status records_end(struct records *r, const struct run_result *result);
/* Written in place of the end record: why the run failed. */
TG_NODISCARD tg_status records_failed(struct records *r, const char *why);
/* Write a record made by the caller; takes over `record`. */
TG_NODISCARD tg_status records_add(struct records *r, json_t *record);

/* The status of the first record that could not be written, or TG_OK. r may be NULL. */
tg_status records_status(const struct records *r);

/* The rules of o as they were given. NULL: out of memory */
json_t *records_rules(const struct run_options *o);

#endif
