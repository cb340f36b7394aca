/* A trace's part that is drawn: which spans, in which rows. */
#ifndef TG_REPORT_TIMELINE_H
#define TG_REPORT_TIMELINE_H

#include "report/report.h"
#include "report/trace_file.h"

enum { TIMELINE_RANKS = 8, TIMELINE_LANES = 6, TIMELINE_SPANS = 20000 };

typedef struct timeline_bar {
    const trace_span *span;
    double begin, end; /* microseconds from the panel's begin, cut to its length */
    unsigned lane;     /* of exchanges that overlap; the last one holds all that have no other */
} timeline_bar;

typedef struct timeline_panel {
    trace_file trace;
    const char *title;
    uint64_t first, last;           /* steps */
    int ranks, ranks_all;           /* drawn: 0 to ranks - 1 */
    unsigned lanes[TIMELINE_RANKS]; /* >= 1 */
    double begin, length; /* of the trace's time: from where the first rank computes step `first` to
                           * where the last one begins step last + 1, or has ended */
    double step, wait;    /* microseconds of a step, from where a rank begins step `first` to where
                           * it begins step last + 1 itself, and of them waiting; means over ranks */
    timeline_bar *bars;   /* (count) */
    size_t count;
} timeline_panel;

/* Panel `i` of the job. Errors TG_E_IO, TG_E_CORRUPT, TG_E_NOMEM; TG_E_ARG: no such steps, or too
 * many spans */
TG_NODISCARD tg_status timeline_panel_make(const report_timeline_job *job, size_t i,
                                           timeline_panel *p_p);
void timeline_panel_free(timeline_panel *p); /* what it holds; all zero is fine */

#endif
