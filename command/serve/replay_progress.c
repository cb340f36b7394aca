#include "command/serve/replay_progress.h"
#include "command/output/console.h"
#include "command/output/format.h"
#include "telegrad/clock.h"
#include <stdio.h>

#define SECOND INT64_C(1000000000)
#define LONG_NS (3 * SECOND)

const char *replay_progress_step(struct replay_progress *p, uint64_t bytes, uint64_t all)
{
    const int64_t now = tg_now_ns(tg_clock_monotonic());
    if (p->begin_ns == 0)
        p->begin_ns = p->told_ns = now;
    else if (now - p->step_ns < SECOND / 10)
        return NULL;
    p->step_ns = now;
    const double part = all > 0 ? (double)bytes / (double)all : 1;
    const double took = (double)(now - p->begin_ns) / 1e9;
    const int used = snprintf(p->line, sizeof p->line, "replaying the journal: %.0f %% of %s",
                              100 * part, format_bytes((double)all).text);
    if (now - p->begin_ns >= SECOND)
        snprintf(p->line + used, sizeof p->line - (size_t)used, ", %s left",
                 format_seconds(took / part - took).text);
    if (console_terminal() && now - p->told_ns >= SECOND) {
        p->told_ns = now;
        console_status(p->line);
    } else if (!console_terminal() && !p->said && now - p->begin_ns >= LONG_NS) {
        p->said = true;
        console_note("%s; workers wait until then", p->line);
    }
    return p->line;
}
