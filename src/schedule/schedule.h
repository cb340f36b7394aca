/* Schedules: values that depend only on the step, so they need no state. */
#ifndef TG_SCHEDULE_H
#define TG_SCHEDULE_H

#include "telegrad/base.h"
#include "telegrad/spec.h"

/* Epochs in terms of steps: the position in epochs is (step - shift) / steps. shift is 0 unless the
 * run resumed from a checkpoint of another number of ranks, whose epochs had another number of
 * steps. */
typedef struct tg__epochs {
    uint64_t steps; /* per epoch; 0: unknown */
    int64_t shift;
} tg__epochs;

/* The step at which a duration d that starts with the run ends; 0: immediately.
 * what    names the duration in error messages
 * Errors  TG_E_SPEC (d is in epochs and e.steps is 0) */
TG_NODISCARD tg_status tg__duration_end(tg_duration d, tg__epochs e, const char *what,
                                        uint64_t *step_p);
/* The step with the same position in epochs, if all epochs had had the current number of steps; at
 * least 0. */
uint64_t tg__epochs_position(tg__epochs e, uint64_t step);

/* Density warm-up: with W stages, stage e < W keeps density^((e+1)/(W+1)); after that density. A
 * warm-up in epochs has one stage per epoch (a started epoch counts); one in steps has four equal
 * stages. warmup_steps 0: no warm-up.
 * Source  DGC: Lin et al. 2018, arXiv:1712.01887, sec. 3.3 */
typedef struct tg__density_schedule {
    double density;
    uint64_t warmup_steps;
    unsigned stages;
    tg__epochs epochs; /* the stages; steps 0: the stages are equal parts of the warm-up */
} tg__density_schedule;

/* Errors  TG_E_SPEC (density outside (0, 1]; a warm-up in epochs while epochs.steps is 0) */
TG_NODISCARD tg_status tg__density_init(tg__density_schedule *s, double density, tg_duration warmup,
                                        tg__epochs epochs);
/* The density of a step (0, 1, ...).
 * Threads  any; a pure function */
double tg__density_at(const tg__density_schedule *s, uint64_t step);

/* True if CD-SGD's exchange number `count` (0 in the first step after the warm-up) is dense: never
 * for k = 0, always for k = 1, else if count % k == 0. */
bool tg__kstep_dense(uint64_t k, uint64_t count);

#endif
