/* How far a run is, on stderr: a bar if that is a terminal, else a line from time to time. */
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
    bool simulated; /* time: show both, that on the wall and the run's */
};

/* first: steps done before this run (after a resume); total: of the whole job. */
void progress_begin(struct progress *p, const char *title, uint64_t first, uint64_t total);
/* Redraws a few times a second, or prints a line if one is due. */
void progress_step(struct progress *p, const train_step_info *info);
/* Removes the bar. */
void progress_end(void);

#endif
