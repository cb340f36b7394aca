/* Progress lines of a long run whose stderr is not a terminal, as in the log of a batch job: a line
 * at the end of an epoch unless the last one is less than half a minute old, and otherwise one per
 * minute. */
#ifndef TG_CLI_HEARTBEAT_H
#define TG_CLI_HEARTBEAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct heartbeat {
    int64_t told_ns; /* time when the run began or the last line was printed */
};

/* Whether a line is due at now_ns; if so, it counts as printed. */
bool heartbeat_due(struct heartbeat *h, int64_t now_ns, bool epoch_ends);

/* Write "step 40 of 400 (10 %): 2.0 steps/s, loss 0.5000, sent 1.00 MB, 3:00 left" to dst (cap
 * bytes). `step` of `total` steps are done, the first `first` of them by an earlier run. This run
 * took `seconds` and sent `bytes`. */
void heartbeat_line(char *dst, size_t cap, uint64_t first, uint64_t step, uint64_t total,
                    double seconds, double loss, double bytes);

#endif
