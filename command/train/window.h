/* The times of recent steps, for medians. */
#ifndef TG_CLI_WINDOW_H
#define TG_CLI_WINDOW_H

#include "trainer/loop/train.h"

enum window_column {
    WINDOW_COMPUTE,
    WINDOW_ENCODE,
    WINDOW_EXCHANGE,
    WINDOW_DECODE,
    WINDOW_APPLY,
    WINDOW_WAIT,
    WINDOW_STEP,
    WINDOW_COLUMNS
};

#define WINDOW_STEPS 1024 /* steps kept; of more steps between records, the last ones */

struct window {
    size_t count; /* steps added since it was last cleared */
    double ms[WINDOW_COLUMNS][WINDOW_STEPS];
};

void window_clear(struct window *w);
void window_add(struct window *w, const train_step_info *info);
/* In milliseconds; NAN if there is no step. */
double window_median(const struct window *w, enum window_column column);

#endif
