/* Progress of a run on stderr: a bar on a terminal, else a line from time to time. */
#ifndef TG_CLI_PROGRESS_H
#define TG_CLI_PROGRESS_H

#include "command/train/heartbeat.h"
#include "trainer/loop/train.h"

struct progress {
    const char *title; /* "" for none; borrowed */
    uint64_t first, total;
    int64_t begin_ns, drawn_ns;
    uint64_t bytes;
    struct heartbeat heartbeat;
    bool simulated; /* show both times: wall clock and simulated */
};

/* first: steps done before this run (after a resume). total: steps of the whole job. */
void progress_begin(struct progress *p, const char *title, uint64_t first, uint64_t total);
/* Redraw the bar a few times a second, or print a line if one is due. */
void progress_step(struct progress *p, const train_step_info *info);
/* Remove the bar. */
void progress_end(void);

#endif
