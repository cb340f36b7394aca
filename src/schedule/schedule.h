/* Schedules: numbers that depend on the step alone, so that they need no state. */
#ifndef TG_SCHEDULE_H
#define TG_SCHEDULE_H

#include "telegrad/base.h"

/* Density warm-up (DGC, Lin et al. 2018, sec. 3.3): with W stages, stage e < W keeps
 * density^((e+1)/(W+1)), then density. A warm-up in epochs has one stage an epoch (a started epoch
 * counts), one in steps has four equal stages. warmup_steps 0: no warm-up. */
typedef struct tg__density_schedule {
    double density;
    uint64_t warmup_steps;
    unsigned stages;
    uint64_t epoch_steps; /* stages are epochs of so many steps; 0: equal parts of the warm-up */
} tg__density_schedule;

/* Errors TG_E_SPEC (density outside (0, 1]; warm-up in epochs while steps_per_epoch is 0) */
TG_NODISCARD tg_status tg__density_init(tg__density_schedule *s, double density, tg_duration warmup,
                                        uint64_t steps_per_epoch);
/* The fraction to keep in step 0, 1, ... A pure function: any thread. */
double tg__density_at(const tg__density_schedule *s, uint64_t step);

/* Whether CD-SGD's exchange number `count` (0 at the first step after warm-up) is the dense one: k
 * = 0 never, k = 1 always, else count % k == 0. */
bool tg__kstep_dense(uint64_t k, uint64_t count);

#endif
