/* Shared by records.c and records_start.c: the writer, and helpers that build a record. */
#ifndef TG_CLI_RECORDS_IMPL_H
#define TG_CLI_RECORDS_IMPL_H

#include "command/output/record_file.h"
#include "command/train/records.h"
#include "command/train/window.h"

struct records {
    struct record_file *file;
    const char *save_dir; /* of the current run, or NULL */
    char *run;            /* name of the current run, or NULL */
    uint64_t log_every, last_step;
    bool tokens; /* the loss is per token */
    const char *clock;
    bool sim_only; /* a simulation, without parameters */
    struct window window;
    uint64_t clipped; /* clipped steps since the last record */
    uint64_t late;    /* likewise, steps whose gradient was late */
};

/* Start an object with the members type and run. Returns NULL when out of memory. */
json_t *records_begin(const struct records *r, const char *type);
/* Add the members of `more`, which is taken over. Returns NULL if either argument is NULL, or when
 * out of memory. */
json_t *records_join(json_t *record, json_t *more);
/* v as 16 hexadecimal digits. Returns NULL when out of memory. */
json_t *records_hex64(uint64_t v);

#endif
