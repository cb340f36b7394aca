/* Density warm-up: density_e = density^((e+1)/(W+1)) in stage e < W, e.g. 25, 6.3, 1.6, 0.4 % on
 * the way to 0.1 % with W = 4. CD-SGD's k-step rule. */
#include "schedule/schedule.h"
#include "base/same_math.h"
#include <limits.h>
#include <math.h>

enum { STAGES = 4 }; /* of a warm-up given in steps; the paper uses four epochs */

uint64_t tg__epochs_position(tg__epochs e, uint64_t step)
{
    if (e.shift > 0 && (uint64_t)e.shift > step)
        return 0;
    return step - (uint64_t)e.shift; /* modulo 2^64 */
}

tg_status tg__duration_end(tg_duration d, tg__epochs e, const char *what, uint64_t *step_p)
{
    uint64_t steps;
    TG_TRY(tg_duration_steps(d, e.steps, what, &steps));
    if (d.epochs && steps > 0 && steps < UINT64_MAX / 2) {
        const uint64_t shift = (uint64_t)e.shift; /* modulo 2^64 */
        steps = e.shift >= 0 || steps > -shift ? steps + shift : 0;
    }
    *step_p = steps;
    return TG_OK;
}

tg_status tg__density_init(tg__density_schedule *s, double density, tg_duration warmup,
                           tg__epochs epochs)
{
    if (!(density > 0 && density <= 1))
        return tg_fail(TG_E_SPEC, "density=%g: allowed: 0 < density <= 1", density);
    uint64_t steps;
    TG_TRY(tg__duration_end(warmup, epochs, "warmup", &steps));
    double stages = warmup.epochs ? ceil(warmup.count) : STAGES;
    if (stages > INT_MAX)
        return tg_fail(TG_E_SPEC, "warmup=%gep: allowed: warmup <= %dep", warmup.count, INT_MAX);
    *s = (tg__density_schedule){.density = density, .warmup_steps = steps};
    if (steps > 0) {
        s->stages = (unsigned)stages;
        s->epochs = warmup.epochs ? epochs : (tg__epochs){0};
    }
    return TG_OK;
}

/* step < warmup_steps */
static uint64_t stage_at(const tg__density_schedule *s, uint64_t step)
{
    if (s->epochs.steps)
        return tg__epochs_position(s->epochs, step) / s->epochs.steps;
    return (uint64_t)((double)step * s->stages / (double)s->warmup_steps);
}

double tg__density_at(const tg__density_schedule *s, uint64_t step)
{
    if (step >= s->warmup_steps)
        return s->density;
    uint64_t stage = stage_at(s, step);
    if (stage >= s->stages) /* only because of rounding */
        stage = s->stages - 1;
    return tg__exp(tg__log(s->density) * ((double)(stage + 1) / (s->stages + 1.0)));
}

bool tg__kstep_dense(uint64_t k, uint64_t count)
{
    return k != 0 && count % k == 0;
}
