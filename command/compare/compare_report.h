/* The table of compare, as text, as JSON lines and as a record. */
#ifndef TG_CLI_COMPARE_REPORT_H
#define TG_CLI_COMPARE_REPORT_H

#include "command/train/records.h"

struct compare_row {
    const char *name;                  /* borrowed */
    const struct run_options *options; /* borrowed */
    struct run_result result;          /* owned; of a failed run: all NAN */
    char *failed;                      /* why the run failed; NULL: it did not; owned */
    bool dense;                        /* dense S-SGD, the baseline */
    uint64_t timed_steps; /* > 0: trained without the link; this many steps timed over it ... */
    double timed_ms;      /* ... and their median */
};

void report_row_free(struct compare_row *row);

/* Print to standard output: a line about the common setting, the table, and a footnote if something
 * is extrapolated. about: name and link of the run are ignored. simulated: the data's name if
 * nothing was computed (then about->data is NULL), else NULL. Errors TG_E_IO, TG_E_NOMEM */
TG_NODISCARD tg_status report_table(const struct run_about *about, const char *simulated,
                                    const struct compare_row *rows, size_t count);
/* Print one JSON object per line to standard output. Errors TG_E_IO, TG_E_NOMEM */
TG_NODISCARD tg_status report_json(const struct compare_row *rows, size_t count);
/* {"type":"table","rows":[...]}. NULL: out of memory */
json_t *report_record(const struct compare_row *rows, size_t count);

#endif
