/* The records of runs as tables (docs/records.md says what the records are). */
#ifndef TG_REPORT_RUN_FILE_H
#define TG_REPORT_RUN_FILE_H

#include <jansson.h>
#include "telegrad/base.h"

/* Columns of a run's steps. What a record says has its field's name; NAN where it says nothing. */
enum {
    STEP_STEP,
    STEP_SECONDS,
    STEP_SENT, /* in this step */
    STEP_LOSS,
    STEP_LR,
    STEP_DENSITY,
    STEP_DENSITY_KEPT,
    STEP_GRAD_NORM,
    STEP_RESIDUAL_NORM,
    STEP_RESIDUAL_RATIO,
    STEP_COMPUTE,
    STEP_ENCODE,
    STEP_EXCHANGE,
    STEP_DECODE,
    STEP_APPLY,
    STEP_WAIT,
    STEP_TIME,
    STEP_CODED_BYTES,
    STEP_RATIO, /* of the gradient's bytes to those of its coded form; NAN where it went dense */
    STEP_COLUMNS
};

/* Columns of its epochs. */
enum {
    EPOCH_STEP,
    EPOCH_SECONDS,
    EPOCH_SENT, /* since the start */
    EPOCH_TRAIN_LOSS,
    EPOCH_TEST_ACCURACY,
    EPOCH_TEST_LOSS,
    EPOCH_PERPLEXITY,
    EPOCH_COLUMNS
};

extern const char *const run_step_names[STEP_COLUMNS], *const run_epoch_names[EPOCH_COLUMNS];

typedef struct run_rows {
    double *v; /* (count, columns) */
    size_t count, columns, room;
} run_rows;

typedef struct run_file_run {
    const char *path;       /* borrowed */
    const char *last_path;  /* of the file that its last part is in; borrowed */
    char *name;             /* of compare; else the file's, without folder and ending */
    json_t *start, *end;    /* records; end is NULL where the run was cut */
    run_rows steps, epochs; /* steps ascending */
    json_t *waits;          /* of epochs: epoch_waits.h; NULL: none */
    double seconds_before,
        sent_before; /* of the stopped runs that this one goes on from; added to the rows */
} run_file_run;

typedef struct run_files {
    run_file_run *runs; /* (count), in the order of the files */
    size_t count, room;
    json_t *notes; /* strings: what is odd about the files */
} run_files;

/* Adds the runs of one file; path must outlive them. A record of a resumed run that follows in the
 * same file replaces those of the stopped one from its first step on; one in a later file goes on
 * from a run of the same settings that ended at that step. Errors TG_E_IO, TG_E_NOMEM,
 * TG_E_CORRUPT: no record of a run, naming the line */
TG_NODISCARD tg_status run_files_add(run_files *f, const char *path);
void run_files_free(run_files *f); /* what it holds; all zero is fine */

#endif
