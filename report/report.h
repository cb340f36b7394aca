/* Pictures of runs: a page of charts or a single chart from run records (docs/records.md), and
 * timelines of the ranks from their traces. Input files are validated; their text is escaped in the
 * output.
 * Threads  one at a time */
#ifndef TG_REPORT_H
#define TG_REPORT_H

#include <stdio.h>
#include "telegrad/base.h"

/* How pages, and pictures that are files of their own, begin: a file that does not is not ours. */
#define REPORT_PAGE_BEGINS "<!doctype html>\n<!-- telegrad report -->"
#define REPORT_PICTURE_BEGINS "<!-- telegrad report -->\n<svg"

/* Write one self-contained HTML page with the runs of all files, in their order.
 * paths   (count) records of train --out or compare --out, plain or .gz. An incomplete last line is
 *         left out, and the page says so
 * title   UTF-8; NULL: a title made from what was trained
 * out     a failed write sets its error indicator
 * Errors  TG_E_IO, TG_E_CORRUPT (names file and line), TG_E_NOMEM */
TG_NODISCARD tg_status report_page(char *const *paths, size_t count, const char *title, FILE *out);

/* Write an SVG of what the runs have reached over time: the test accuracy, or else the perplexity,
 * the test loss or the training loss, after each epoch. Errors as above; TG_E_SPEC: too many runs;
 * TG_E_STATE: one without a complete epoch */
TG_NODISCARD tg_status report_chart(char *const *paths, size_t count, const char *title, FILE *out);

#define REPORT_TRACES_MAX 4

typedef struct report_timeline_job {
    const char *path[REPORT_TRACES_MAX];  /* files of train --trace, plain or as .gz */
    const char *title[REPORT_TRACES_MAX]; /* UTF-8; NULL: the file's name */
    size_t count;                         /* one panel each, on one axis of time */
    bool steps_given;                     /* false: a few steps after the first ones are drawn */
    uint64_t first, last;                 /* steps, as the traces count them: from 0 */
    bool html;                            /* true: an HTML page; false: the SVG alone */
} report_timeline_job;

/* Write an SVG that shows, for each trace and rank, what the rank did when. Errors as above;
 * TG_E_ARG: a trace does not have these steps */
TG_NODISCARD tg_status report_timeline(const report_timeline_job *job, FILE *out);

#endif
