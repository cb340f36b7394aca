/* Schedules: numbers that depend on the step alone, so that they need no state. */
#ifndef TG_SCHEDULE_H
#define TG_SCHEDULE_H

#include "telegrad/base.h"
#include "telegrad/spec.h"

/* Epochs as steps see them: the position in epochs is (step - shift) / steps. shift is 0 unless the
 * run goes on from a checkpoint of another number of ranks, whose epochs had other steps. */
typedef struct tg__epochs {
    uint64_t steps; /* in one; 0: not known */
    int64_t shift;
} tg__epochs;

/* The step at which what lasts from the run's beginning for d is over; 0: it is over at once.
 * Errors TG_E_SPEC (d is in epochs and steps is 0; the message names `what`) */
TG_NODISCARD tg_status tg__duration_end(tg_duration d, tg__epochs e, const char *what,
                                        uint64_t *step_p);
/* The step that would be at the same position if all epochs had had the steps of today's; its
 * beginning before that of the run is 0. */
uint64_t tg__epochs_position(tg__epochs e, uint64_t step);

/* Density warm-up (DGC, Lin et al. 2018, sec. 3.3): with W stages, stage e < W keeps
 * density^((e+1)/(W+1)), then density. A warm-up in epochs has one stage an epoch (a started epoch
 * counts), one in steps has four equal stages. warmup_steps 0: no warm-up. */
typedef struct tg__density_schedule {
    double density;
    uint64_t warmup_steps;
    unsigned stages;
    tg__epochs epochs; /* that are the stages; steps 0: equal parts of the warm-up */
} tg__density_schedule;

/* Errors TG_E_SPEC (density outside (0, 1]; warm-up in epochs while their steps are 0) */
TG_NODISCARD tg_status tg__density_init(tg__density_schedule *s, double density, tg_duration warmup,
                                        tg__epochs epochs);
/* The fraction to keep in step 0, 1, ... A pure function: any thread. */
double tg__density_at(const tg__density_schedule *s, uint64_t step);

/* Whether CD-SGD's exchange number `count` (0 at the first step after warm-up) is the dense one: k
 * = 0 never, k = 1 always, else count % k == 0. */
bool tg__kstep_dense(uint64_t k, uint64_t count);

#endif
