/* Strategies whose rounds or delay are longer than the run, so that no average arrives before its
 * end; and those whose outer momentum gets few averages. */
#ifndef TG_CLI_LATE_AVERAGES_H
#define TG_CLI_LATE_AVERAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct late_run {
    const char *strategy; /* normal form */
    int world;
    uint64_t first, steps; /* step at which the run begins and ends */
    uint64_t steps_per_epoch;
    const char *optimizer; /* for late_averages_warn; NULL: nothing is learned */
} late_run;

/* False: an average arrives, or there is a single worker.
 * ended  whether the text is for a run that is over */
bool late_averages(const late_run *run, bool ended, char *text, size_t room);

/* Warn before the run. title: the run's name if there are several; "": none */
void late_averages_warn(const late_run *run, const char *title);

#endif
