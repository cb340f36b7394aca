/* The axes of a run's curves: time and bytes since the start, for each step that has a record. */
#ifndef TG_REPORT_RUN_X_H
#define TG_REPORT_RUN_X_H

#include "report/run_file.h"

typedef struct run_mark {
    double step, seconds; /* seconds: NAN if no record says it */
    double bytes; /* sent by rank 0 since the start. Exact where an epoch record says it; between
                     and after those in proportion to the step records. NAN after the start if no
                     epoch record says it and steps are missing */
    double sent;  /* sent in this step alone; NAN: unknown */
} run_mark;

/* Steps and epochs in one list, each step once. The first mark is the start of the run, with
 * nothing sent. The caller frees the list with free(). Errors TG_E_NOMEM */
TG_NODISCARD tg_status run_marks(const run_file_run *run, run_mark **marks_p, size_t *count_p);

#endif
