/* Learning rates as pure functions of the step s (of T):
 *
 *   constant   lr
 *   step       lr * factor^floor(s / every)
 *   cosine     final*lr + (lr - final*lr) * (1 + cos(pi*x)) / 2,  x = (s - W) / (T - W)
 *
 * each times (s + 1) / W in the first W = warmup steps (Goyal et al. 2017, arXiv:1706.02677,
 * sec. 2.2). Only + - * / are used: cos and pow may differ between two machines' libraries, and
 * ranks with different rates would drift apart. */
#include "strategy/strategy.h"
#include "base/mem.h"
#include <math.h>
#include <stdlib.h>

struct tg_lr_schedule {
    tg_spec *spec;
    double (*base)(const tg_lr_schedule *s, uint64_t step);
    double lr;
    uint64_t warmup, total;
    uint64_t every;       /* step */
    double factor, final; /* step; cosine */
};

/* factor^n */
static double power(double factor, uint64_t n)
{
    double result = 1;
    for (; n; n >>= 1, factor *= factor)
        if (n & 1)
            result *= factor;
    return result;
}

/* cos(pi*x) for 0 <= x <= 1, as sin(y), y = pi*(1/2 - x): y (1 - y^2/(2*3) (1 - y^2/(4*5) (1 -
 * ...))) */
static double cos_pi(double x)
{
    const double pi = 0x1.921fb54442d18p+1, y = pi * (0.5 - x);
    double sum = 1;
    for (int i = 22; i >= 2; i -= 2)
        sum = 1 - y * y / (i * (i + 1)) * sum;
    return y * sum;
}

static double base_constant(const tg_lr_schedule *s, uint64_t step)
{
    (void)step;
    return s->lr;
}

static double base_step(const tg_lr_schedule *s, uint64_t step)
{
    return s->lr * power(s->factor, step / s->every);
}

static double base_cosine(const tg_lr_schedule *s, uint64_t step)
{
    double low = s->final * s->lr;
    if (step <= s->warmup)
        return s->lr;
    if (step >= s->total)
        return low;
    return low + (s->lr - low) *
                     (1 + cos_pi((double)(step - s->warmup) / (double)(s->total - s->warmup))) / 2;
}

#define KEY_WARMUP                                                              \
    {                                                                           \
        .name = "warmup", .type = TG_KEY_DURATION, .def = "0", .max = INFINITY, \
        .help = "steps or epochs in which the rate rises linearly"              \
    }

static const tg_key constant_keys[] = {KEY_WARMUP, {.name = NULL}};
static const tg_key step_keys[] = {
    {.name = "every",
     .type = TG_KEY_DURATION,
     .def = "30ep",
     .max = INFINITY,
     .help = "steps or epochs, counted from the first step, between two reductions"},
    {.name = "factor",
     .type = TG_KEY_REAL,
     .def = "0.1",
     .max = 1,
     .min_open = true,
     .help = "of one reduction"},
    KEY_WARMUP,
    {.name = NULL}};
static const tg_key cosine_keys[] = {
    {.name = "final", .type = TG_KEY_REAL, .def = "0", .max = 1, .help = "last rate / first rate"},
    KEY_WARMUP,
    {.name = NULL}};

#define COSINE_SOURCE "Loshchilov and Hutter 2017, arXiv:1608.03983, without restarts"
static const tg_entry constant = {"constant", "the same rate in every step", "", constant_keys};
static const tg_entry step = {"step", "the rate is multiplied by a factor at times", "", step_keys};
static const tg_entry cosine = {"cosine", "half a cosine from lr to final*lr", COSINE_SOURCE,
                                cosine_keys};
static const tg_entry *const entries[] = {&constant, &step, &cosine};

const tg_entry *const *tg__lr_schedule_entries(size_t *count_p)
{
    *count_p = TG__COUNT(entries);
    return entries;
}

static tg_status init(tg_lr_schedule *s, uint64_t steps_per_epoch)
{
    const tg_entry *entry = tg_spec_entry(s->spec);
    TG_TRY(tg_duration_steps(tg_spec_duration(s->spec, "warmup"), steps_per_epoch, "warmup",
                             &s->warmup));
    s->base = base_constant;
    if (entry == &step) {
        s->base = base_step;
        s->factor = tg_spec_real(s->spec, "factor");
        TG_TRY(tg_duration_steps(tg_spec_duration(s->spec, "every"), steps_per_epoch, "every",
                                 &s->every));
        if (s->every == 0)
            return tg_fail(TG_E_SPEC, "%s: every is 0 steps: allowed: every >= 1 step",
                           tg_spec_text(s->spec));
    } else if (entry == &cosine) {
        s->base = base_cosine;
        s->final = tg_spec_real(s->spec, "final");
        if (s->total == 0)
            return tg_fail(TG_E_SPEC, "%s: the number of steps of the run is 0: allowed: >= 1",
                           tg_spec_text(s->spec));
    }
    return TG_OK;
}

tg_status tg_lr_schedule_create(const char *spec, double lr, uint64_t total_steps,
                                uint64_t steps_per_epoch, tg_lr_schedule **s_p)
{
    if (!spec || !s_p)
        return tg_fail(TG_E_ARG, "tg_lr_schedule_create: %s is NULL", spec ? "s_p" : "spec");
    if (!(lr >= 0 && isfinite(lr)))
        return tg_fail(TG_E_ARG, "lr=%g: allowed: finite, lr >= 0", lr);
    tg_lr_schedule *s;
    TG_TRY(tg__alloc(1, sizeof *s, &s));
    s->lr = lr;
    s->total = total_steps;
    tg_status status = tg_spec_parse("lr schedule", entries, TG__COUNT(entries), spec, &s->spec);
    if (status == TG_OK)
        status = init(s, steps_per_epoch);
    if (status == TG_OK)
        *s_p = s;
    else
        tg_lr_schedule_destroy(s);
    return status;
}

void tg_lr_schedule_destroy(tg_lr_schedule *s)
{
    if (!s)
        return;
    tg_spec_free(s->spec);
    free(s);
}

double tg_lr_at(const tg_lr_schedule *s, uint64_t at)
{
    double lr = s->base(s, at);
    return at < s->warmup ? lr * ((double)(at + 1) / (double)s->warmup) : lr;
}

const char *tg_lr_schedule_text(const tg_lr_schedule *s)
{
    return tg_spec_text(s->spec);
}
