/* The records of runs as tables. docs/records.md describes the records. */
#ifndef TG_REPORT_RUN_FILE_H
#define TG_REPORT_RUN_FILE_H

#include "report/server_file.h"
#include <stdio.h>

/* Columns of a run's steps, named after the record's fields. A value that the record lacks is
 * NAN. */
enum {
    STEP_STEP,
    STEP_SECONDS,
    STEP_SENT, /* bytes sent in this step */
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
    STEP_RATIO, /* bytes of the gradient / bytes of its coded form; NAN: it was sent dense */
    STEP_COLUMNS
};

/* Columns of a run's epochs. */
enum {
    EPOCH_STEP,
    EPOCH_SECONDS,
    EPOCH_SENT, /* bytes sent since the start */
    EPOCH_TRAIN_LOSS,
    EPOCH_TEST_ACCURACY,
    EPOCH_TEST_LOSS,
    EPOCH_PERPLEXITY,
    EPOCH_COLUMNS
};

extern const char *const run_step_names[STEP_COLUMNS], *const run_epoch_names[EPOCH_COLUMNS];

typedef struct run_file_run {
    const char *path;       /* borrowed */
    const char *last_path;  /* file of the run's last part; borrowed */
    char *name;             /* as in compare; else the file's name without folder and ending */
    json_t *start, *end;    /* records; end is NULL if the run was cut off */
    bool failed;            /* it ended by an error, or diverged */
    run_rows steps, epochs; /* ordered by step */
    json_t *waits;          /* waits by epoch, see epoch_waits.h; NULL: none */
    double seconds_before,
        sent_before; /* totals of the stopped runs that this run resumes; added to its rows */
} run_file_run;

typedef struct run_files {
    run_file_run *runs; /* (count), in the order of the files */
    size_t count, room;
    server_files servers; /* if the files are those of servers; then there are no runs */
    json_t *notes;        /* strings: peculiarities of the files */
} run_files;

/* Add the runs of one file; path must outlive them. If a run is resumed in the same file, its
 * records replace those of the stopped run from its first step on. If it is resumed in a later
 * file, it continues a run with the same settings that ended at that step. Errors TG_E_IO,
 * TG_E_NOMEM, TG_E_CORRUPT: not a record of a run or server; the message names the line;
 * TG_E_SPEC: it holds a run that an earlier file holds, too, or is of a server, and others are
 * not */
TG_NODISCARD tg_status run_files_add(run_files *f, const char *path);
void run_files_free(run_files *f); /* frees the contents; f may be all zero */

typedef tg_status run_files_drawing(const run_files *f, const char *title, FILE *out);
/* Add the runs of all files, paths (count), and draw them. Errors as above, and those of draw */
TG_NODISCARD tg_status run_files_draw(char *const *paths, size_t count, run_files_drawing *draw,
                                      const char *title, FILE *out);

#endif
