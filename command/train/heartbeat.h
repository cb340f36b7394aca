/* Signs of life of a long run whose stderr is no terminal, as in the log of a batch job: a line
 * when an epoch ends, unless the last line is younger than half a minute, and a line a minute
 * between. */
#ifndef TG_CLI_HEARTBEAT_H
#define TG_CLI_HEARTBEAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct heartbeat {
    int64_t told_ns; /* when the run began, or its last line was printed */
};

/* Whether a line is due at now_ns; then it counts as printed. */
bool heartbeat_due(struct heartbeat *h, int64_t now_ns, bool epoch_ends);

/* "step 40 of 400 (10 %): 2.0 steps/s, loss 0.5000, sent 1.00 MB, 3:00 left" to dst (cap bytes):
 * `step` of `total` steps are done, the first `first` of them by an earlier run; this one took
 * `seconds` and sent `bytes`. */
void heartbeat_line(char *dst, size_t cap, uint64_t first, uint64_t step, uint64_t total,
                    double seconds, double loss, double bytes);

#endif
