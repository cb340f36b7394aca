/* The table of compare: for people, for programs, for the records. */
#ifndef TG_CLI_COMPARE_REPORT_H
#define TG_CLI_COMPARE_REPORT_H

#include "command/train/records.h"

struct compare_row {
    const char *name;                  /* borrowed */
    const struct run_options *options; /* borrowed */
    struct run_result result;          /* owned; of a failed run: nothing but NAN */
    char *failed;                      /* why the run failed, else NULL; owned */
    bool dense;                        /* dense S-SGD: what others are compared with */
    uint64_t timed_steps; /* > 0: trained without the link, that many steps timed over it ... */
    double timed_ms;      /* ... and their median */
};

void report_row_free(struct compare_row *row);

/* Text on stdout: a line that says on what all were run, the table, and a footnote if something is
 * extrapolated. about: the name and link of a run do not matter. simulated: the data's name if
 * nothing was computed, and about->data is NULL; else NULL. Errors TG_E_IO, TG_E_NOMEM */
TG_NODISCARD tg_status report_table(const struct run_about *about, const char *simulated,
                                    const struct compare_row *rows, size_t count);
/* One JSON object a line on stdout. Errors TG_E_IO, TG_E_NOMEM */
TG_NODISCARD tg_status report_json(const struct compare_row *rows, size_t count);
/* {"type":"table","rows":[...]}. NULL: out of memory */
json_t *report_record(const struct compare_row *rows, size_t count);

#endif
