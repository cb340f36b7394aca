/* The part of a trace that is drawn: which spans, in which rows. */
#ifndef TG_REPORT_TIMELINE_H
#define TG_REPORT_TIMELINE_H

#include "report/report.h"
#include "report/trace_file.h"

enum { TIMELINE_RANKS = 8, TIMELINE_LANES = 6, TIMELINE_SPANS = 20000 };

typedef struct timeline_bar {
    const trace_span *span;
    double begin, end; /* microseconds from the start of the panel, cut to its length */
    unsigned lane;     /* separates overlapping exchanges; the last lane takes the overflow */
} timeline_bar;

typedef struct timeline_panel {
    trace_file trace;
    const char *title;
    uint64_t first, last;           /* steps */
    int ranks, ranks_all;           /* ranks: drawn, 0 to ranks - 1; ranks_all: in the trace */
    unsigned lanes[TIMELINE_RANKS]; /* >= 1 */
    double begin, length; /* of the trace's time: from where the first rank begins step `first` to
                           * where the last one begins step last + 1, or ends */
    double step, wait;    /* microseconds per step, from where a rank begins step `first` to where
                           * the same rank begins step last + 1; of that, waiting. Means of ranks */
    timeline_bar *bars;   /* (count) */
    size_t count;
} timeline_panel;

/* Make panel `i` of the job. Errors TG_E_IO, TG_E_CORRUPT, TG_E_NOMEM; TG_E_ARG: no such steps, or
 * too many spans */
TG_NODISCARD tg_status timeline_panel_make(const report_timeline_job *job, size_t i,
                                           timeline_panel *p_p);
void timeline_panel_free(timeline_panel *p); /* frees the contents; p may be all zero */

#endif
