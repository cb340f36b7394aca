/* What went wrong in a run that reached its end: it hardly trained, or its method or strategy
 * hardly took effect. */
#ifndef TG_CLI_VERDICT_H
#define TG_CLI_VERDICT_H

#include <jansson.h>
#include "trainer/loop/train.h"

#define VERDICT_MOST 8

typedef struct verdict {
    struct {
        const char *what; /* "skipped", "loss", "not_started", "warm_up", "not_averaged",
                           * "sent_nothing", "sent_everything", "not_used", "not_saved",
                           * "unchanged" */
        char text[560];
        bool fails; /* why the run is not a success */
    } remark[VERDICT_MOST];
    size_t count;
    bool failed; /* the run is not a success: exit status 1 */
} verdict;

typedef struct verdict_run {
    const train_end_info *end;
    const char *method, *strategy, *lr_schedule; /* normal forms */
    double highest_loss; /* the largest mean training loss of an epoch, or part of one */
    uint64_t first_step, steps_per_epoch;
    size_t classes; /* number of labels or tokens; 0: nothing was computed */
    bool evaluated;
    bool covered; /* rules cover all tensors */
} verdict_run;

/* A run fails if more than half of its steps were skipped, or if its loss at the end (the test loss
 * if there is one) is not finite or is more than ten times that of random guessing. It also fails
 * if its loss at the end is above that of guessing, the mean training loss of an epoch was more
 * than ten times that of guessing, and that of the last epoch is above that of guessing.
 *
 * It gets a warning, without failing, if at least a tenth of the steps were skipped, if the loss
 * after at least VERDICT_STEPS steps is above that of guessing, if a warm-up did not end, if no
 * average arrived before the end, if the method sent nothing or everything, if rules leave it no
 * tensor, if no parameter changed, or if it could not be saved. */
#define VERDICT_STEPS 100
verdict verdict_of(const verdict_run *run);

/* The warnings about warm-ups alone, which a run that is only planned can have as well. Of the end,
 * it needs `steps`. */
verdict verdict_of_warm_ups(const verdict_run *run);

/* Print each remark on stderr: why the run failed as errors, the others as warnings. title: the
 * run's name if there are several; "": none */
void verdict_say(const verdict *v, const char *title);

/* A list of {"what", "text"}. NULL: out of memory */
json_t *verdict_json(const verdict *v);

#endif
