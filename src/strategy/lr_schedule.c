/* Learning rates as pure functions of the step s (of T):
 *
 *   constant   lr
 *   step       lr * factor^(number of times that s has reached: multiples of `every`, or those
 *              listed in `at`)
 *   cosine     final*lr + (lr - final*lr) * (1 + cos(pi*x)) / 2,  x = (s - W) / (T - W)
 *   onecycle   half a cosine from lr/div_factor to lr over pct_start*T steps, another down to
 *              lr/div_factor/final_div_factor at the last step
 *
 * All except onecycle are multiplied by (s + 1) / W in the first W = warmup steps. If the rate is
 * scaled for a minibatch k times as large (Goyal et al. 2017, arXiv:1706.02677, sec. 2.1 and 2.2),
 * it is multiplied by k, and during a warm-up by 1 + (k - 1) * s/W: it rises from lr to k*lr in
 * equal steps.
 *
 * Only + - * / are used: cos and pow can differ between machines' libraries, and ranks with
 * different rates would drift apart. */
#include "strategy/strategy.h"
#include "base/arg.h"
#include "base/floats.h"
#include "base/mem.h"
#include "base/spec_value.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { AT_MAX = 64 };

struct tg_lr_schedule {
    tg_spec *spec;
    double (*base)(const tg_lr_schedule *s, uint64_t step);
    double lr;
    bool scaled;  /* tg_lr_schedule_scale was called */
    double scale; /* 1 if not scaled */
    uint64_t warmup, total;
    uint64_t every, at[AT_MAX]; /* step: at (times), ascending; if times is 0, `every` applies */
    size_t times;
    double factor;               /* step */
    double final;                /* cosine */
    double peak, div, final_div; /* onecycle: peak is the step at which lr is reached */
};

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
    uint64_t reached = 0;
    if (s->times == 0)
        reached = step / s->every;
    while (reached < s->times && s->at[reached] <= step)
        reached++;
    return s->lr * tg__real_power(s->factor, reached);
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

/* The rate at from + x * (to - from), along half a cosine. */
static double anneal(double from, double to, double x)
{
    return to + (from - to) / 2 * (1 + cos_pi(x));
}

/* The phases end at steps peak and T - 1. As in PyTorch's OneCycleLR, peak need not be whole. */
static double base_onecycle(const tg_lr_schedule *s, uint64_t step)
{
    const double first = s->lr / s->div, least = first / s->final_div;
    const double end = (double)s->total - 1, at = (double)step;
    if (at <= s->peak && s->peak > 0)
        return anneal(first, s->lr, at / s->peak);
    return at < end ? anneal(s->lr, least, (at - s->peak) / (end - s->peak)) : least;
}

#define KEY_WARMUP TG__DURATION("warmup", "0", "steps or epochs in which the rate rises linearly")

static const tg_key constant_keys[] = {KEY_WARMUP, {.name = NULL}};
static const tg_key step_keys[] = {
    TG__DURATION("every", NULL,
                 "steps or epochs between two reductions; default, without at: 30ep"),
    TG__KEY(SPEC, "at", NULL, 0, 0, "instead of every: when to reduce, for example at=15ep+22ep"),
    TG__KEY(REAL, "factor", "0.1", 0, 1, "factor of one reduction", .min_open = true),
    KEY_WARMUP,
    {.name = NULL}};
static const tg_key cosine_keys[] = {
    TG__KEY(REAL, "final", "0", 0, 1, "last rate divided by the first"),
    KEY_WARMUP,
    {.name = NULL}};

static const tg_key onecycle_keys[] = {
    TG__KEY(REAL, "pct_start", "0.3", 0, 1, "fraction of the steps in which the rate rises"),
    TG__KEY(REAL, "div_factor", "25", 1, 1e30, "lr divided by the first rate"),
    TG__KEY(REAL, "final_div_factor", "10000", 1e-30, 1e30, "first rate divided by the last"),
    {.name = NULL}};

#define COSINE_SOURCE "Loshchilov and Hutter 2017, arXiv:1608.03983, without restarts"
static const tg_entry constant = {"constant", "the same rate in every step", "", constant_keys};
static const tg_entry step = {"step", "the rate is multiplied by a factor at given times", "",
                              step_keys};
static const tg_entry cosine = {"cosine", "half a cosine from lr to final*lr", COSINE_SOURCE,
                                cosine_keys};
static const tg_entry onecycle = {"onecycle", "up to lr and then far down, along two half cosines",
                                  "Smith and Topin 2018, arXiv:1708.07120, as in PyTorch; "
                                  "momentum stays as it is",
                                  onecycle_keys};
static const tg_entry *const entries[] = {&constant, &step, &cosine, &onecycle};

const tg_entry *const *tg__lr_schedule_entries(size_t *count_p)
{
    *count_p = TG_COUNT(entries);
    return entries;
}

/* "15ep+22ep+30000": durations, each later than the one before. */
static tg_status read_times(tg_lr_schedule *s, const char *text, uint64_t steps_per_epoch)
{
    static const tg_key key = TG__DURATION("at", NULL, NULL);
    for (const char *p = text; p; p = strchr(p, '+') ? strchr(p, '+') + 1 : NULL) {
        char one[64];
        tg__spec_value value = {0};
        const size_t len = strcspn(p, "+");
        snprintf(one, sizeof one, "%.*s", (int)TG__MIN(len, sizeof one - 1), p);
        TG_TRY(tg__spec_value_parse(&key, one, &value));
        if (s->times == AT_MAX)
            return tg_fail(TG_E_SPEC, "at=%.64s: allowed: at most %d times", text, AT_MAX);
        uint64_t *at = &s->at[s->times];
        TG_TRY(tg_duration_steps(value.duration, steps_per_epoch, "at", at));
        if (*at == 0 || (s->times > 0 && *at <= at[-1]))
            return tg_fail(TG_E_SPEC,
                           "at=%.64s: %s is step %llu: allowed: step 1 and later, in "
                           "ascending order",
                           text, one, (unsigned long long)*at);
        s->times++;
    }
    return TG_OK;
}

static tg_status init_step(tg_lr_schedule *s, uint64_t steps_per_epoch)
{
    tg_duration every = {.count = 30, .epochs = true};
    s->base = base_step;
    s->factor = tg_spec_real(s->spec, "factor");
    if (tg_spec_has(s->spec, "every") && tg_spec_has(s->spec, "at"))
        return tg_fail(TG_E_SPEC, "%s: every and at cannot be combined: give one of them",
                       tg_spec_text(s->spec));
    if (tg_spec_has(s->spec, "at"))
        return read_times(s, tg_spec_word(s->spec, "at"), steps_per_epoch);
    if (tg_spec_has(s->spec, "every"))
        every = tg_spec_duration(s->spec, "every");
    TG_TRY(tg_duration_steps(every, steps_per_epoch, "every", &s->every));
    return s->every > 0 ? TG_OK
                        : tg_fail(TG_E_SPEC, "%s: every is 0 steps: allowed: every >= 1 step",
                                  tg_spec_text(s->spec));
}

static tg_status init(tg_lr_schedule *s, uint64_t steps_per_epoch)
{
    const tg_entry *entry = tg_spec_entry(s->spec);
    if (entry != &onecycle)
        TG_TRY(tg_duration_steps(tg_spec_duration(s->spec, "warmup"), steps_per_epoch, "warmup",
                                 &s->warmup));
    if ((entry == &cosine || entry == &onecycle) && s->total == 0)
        return tg_fail(TG_E_SPEC, "%s: the number of steps of the run is 0: allowed: >= 1",
                       tg_spec_text(s->spec));
    s->base = base_constant;
    if (entry == &step)
        return init_step(s, steps_per_epoch);
    if (entry == &cosine) {
        s->base = base_cosine;
        s->final = tg_spec_real(s->spec, "final");
    } else if (entry == &onecycle) {
        s->base = base_onecycle;
        s->peak = tg_spec_real(s->spec, "pct_start") * (double)s->total - 1;
        s->div = tg_spec_real(s->spec, "div_factor");
        s->final_div = tg_spec_real(s->spec, "final_div_factor");
    }
    return TG_OK;
}

tg_status tg_lr_schedule_create(const char *spec, double lr, uint64_t total_steps,
                                uint64_t steps_per_epoch, tg_lr_schedule **s_p)
{
    TG__OWN_FLOATS;
    TG__ARGS(spec, s_p);
    if (!(lr >= 0 && isfinite(lr)))
        return tg_fail(TG_E_ARG, "lr=%g: allowed: finite, lr >= 0", lr);
    tg_lr_schedule *s;
    TG_TRY(tg_alloc(1, sizeof *s, &s));
    s->lr = lr;
    s->scale = 1;
    s->total = total_steps;
    tg_status status = tg_spec_parse("lr schedule", entries, TG_COUNT(entries), spec, &s->spec);
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

tg_status tg_lr_schedule_scale(tg_lr_schedule *s, double factor)
{
    TG__OWN_FLOATS;
    TG__ARG(s);
    if (!(factor > 0 && factor <= 1e30))
        return tg_fail(TG_E_ARG, "factor=%g of a learning rate: allowed: 0 < factor <= 1e30",
                       factor);
    s->scaled = true;
    s->scale = factor;
    return TG_OK;
}

double tg_lr_schedule_at(const tg_lr_schedule *s, uint64_t at)
{
    TG__OWN_FLOATS;
    if (!s)
        return 0;
    const double lr = s->base(s, at);
    if (at >= s->warmup)
        return lr * s->scale;
    return s->scaled ? lr * (1 + (s->scale - 1) * ((double)at / (double)s->warmup))
                     : lr * ((double)(at + 1) / (double)s->warmup);
}

const char *tg_lr_schedule_text(const tg_lr_schedule *s)
{
    TG__OWN_FLOATS;
    return s ? tg_spec_text(s->spec) : NULL;
}
