/* Density warm-up: density_e = density^((e+1)/(W+1)) in stage e < W, e.g. 25, 6.3, 1.6, 0.4 % on
 * the way to 0.1 % with W = 4. CD-SGD's k-step rule. */
#include "schedule/schedule.h"
#include <limits.h>
#include <math.h>

enum { STAGES = 4 }; /* of a warm-up given in steps: the paper's number of epochs */

tg_status tg__density_init(tg__density_schedule *s, double density, tg_duration warmup,
                           uint64_t steps_per_epoch)
{
    if (!(density > 0 && density <= 1))
        return tg_fail(TG_E_SPEC, "density=%g: allowed: 0 < density <= 1", density);
    uint64_t steps;
    TG_TRY(tg_duration_steps(warmup, steps_per_epoch, "warmup", &steps));
    double stages = warmup.epochs ? ceil(warmup.count) : STAGES;
    if (stages > INT_MAX)
        return tg_fail(TG_E_SPEC, "warmup=%gep: allowed: warmup <= %dep", warmup.count, INT_MAX);
    *s = (tg__density_schedule){.density = density, .warmup_steps = steps};
    if (steps > 0) {
        s->stages = (unsigned)stages;
        s->epoch_steps = warmup.epochs ? steps_per_epoch : 0;
    }
    return TG_OK;
}

/* step < warmup_steps */
static uint64_t stage_at(const tg__density_schedule *s, uint64_t step)
{
    if (s->epoch_steps)
        return step / s->epoch_steps;
    return (uint64_t)((double)step * s->stages / (double)s->warmup_steps);
}

double tg__density_at(const tg__density_schedule *s, uint64_t step)
{
    if (step >= s->warmup_steps)
        return s->density;
    uint64_t stage = stage_at(s, step);
    if (stage >= s->stages) /* by rounding only */
        stage = s->stages - 1;
    return pow(s->density, (double)(stage + 1) / (s->stages + 1.0));
}

bool tg__kstep_dense(uint64_t k, uint64_t count)
{
    return k != 0 && count % k == 0;
}
