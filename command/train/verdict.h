/* What went wrong in a run that came to its end: that it hardly trained, or that its method or
 * strategy hardly took part. */
#ifndef TG_CLI_VERDICT_H
#define TG_CLI_VERDICT_H

#include <jansson.h>
#include "trainer/loop/train.h"

#define VERDICT_MOST 6

typedef struct verdict {
    struct {
        const char *what; /* "skipped", "loss", "not_started", "sent_nothing", "sent_everything" */
        char text[320];
    } remark[VERDICT_MOST];
    size_t count;
    bool failed; /* past what counts as a success: exit status 1 */
} verdict;

typedef struct verdict_run {
    const train_end_info *end;
    const char *method, *strategy; /* normal forms */
    uint64_t first_step, steps_per_epoch;
    size_t classes; /* of labels or tokens; 0: nothing was computed */
    bool evaluated;
} verdict_run;

/* A run fails if more than half of its steps were skipped, or if its loss at the end is not finite
 * or above ten times that of guessing. It is told, and does not fail, if a tenth of the steps or
 * more were skipped, if the loss after VERDICT_STEPS steps or more is above that of guessing, if a
 * warm-up did not end, or if the method sent nothing or everything. */
#define VERDICT_STEPS 100
verdict verdict_of(const verdict_run *run);

/* Each on stderr, as a warning. title: the run's, of several; "": none */
void verdict_say(const verdict *v, const char *title);

/* A list of {"what", "text"}. NULL: out of memory */
json_t *verdict_json(const verdict *v);

#endif
