/* What a server says while it reads its journal: on a terminal a status line, elsewhere one line if
 * that takes long. */
#ifndef TG_CLI_REPLAY_PROGRESS_H
#define TG_CLI_REPLAY_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct replay_progress { /* all zero: not begun */
    int64_t begin_ns, step_ns, told_ns;
    bool said;
    char line[160];
};

/* Call it often, with as many bytes of the log as are read. Returns what to tell those who ask
 * after the server, ten times a second; NULL otherwise. */
const char *replay_progress_step(struct replay_progress *p, uint64_t bytes, uint64_t all);

#endif
