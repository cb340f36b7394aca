/* What a run's curves are drawn over: for each step that a record tells of, time and bytes since
 * the start. */
#ifndef TG_REPORT_RUN_X_H
#define TG_REPORT_RUN_X_H

#include "report/run_file.h"

typedef struct run_mark {
    double step, seconds; /* seconds: NAN where no record says it */
    double bytes; /* rank 0 has sent. What the records of epochs say; between them, and behind the
                     last one, in proportion to those of steps. NAN behind the start where no epoch
                     says any and steps are missing */
    double sent;  /* in this step alone; NAN: not known */
} run_mark;

/* Steps and epochs in one list, each step once; the first one is where the run began, with nothing
 * sent. The list is the caller's, for free(). Errors TG_E_NOMEM */
TG_NODISCARD tg_status run_marks(const run_file_run *run, run_mark **marks_p, size_t *count_p);

#endif
