/* Finds where the answer of a comparison changes: it examines values on a logarithmic grid, and
 * bisects every change between two neighbours. There may be more than one change, in either
 * direction. */
#include "trainer/loop/advice.h"
#include "telegrad/tools.h"
#include <math.h>

/* ---- looking --------------------------------------------------------------------------------- */

/* Find the change between low, where the answer is `at_low`, and high, where it is not. */
static tg_status bisect(advice_pays_fn *pays, void *arg, double low, double high, bool at_low,
                        double *at_p)
{
    while (high / low > 1.01) {
        const double middle = sqrt(low * high);
        bool at_middle;
        TG_TRY(pays(arg, middle, &at_middle));
        *(at_middle == at_low ? &low : &high) = middle;
    }
    *at_p = sqrt(low * high);
    return TG_OK;
}

tg_status advice_look(advice_pays_fn *pays, void *arg, double low, double high, advice_ranges *r_p)
{
    advice_ranges r = {.low = low, .high = high};
    double before = low, at, change;
    bool paid = false, now;
    for (size_t i = 0; i < ADVICE_POINTS; i++) {
        at = i + 1 == ADVICE_POINTS ? high : low * pow(high / low, (double)i / (ADVICE_POINTS - 1));
        TG_TRY(pays(arg, at, &now));
        if (now != paid) {
            change = low;
            if (i > 0)
                TG_TRY(bisect(pays, arg, before, at, paid, &change));
            if (now)
                r.range[r.count].from = change;
            else
                r.range[r.count++].to = change;
        }
        paid = now;
        before = at;
    }
    if (paid)
        r.range[r.count++].to = high;
    *r_p = r;
    return TG_OK;
}

/* ---- comparisons ----------------------------------------------------------------------------- */

/* A comparison on a link, one figure of which varies. */
typedef struct comparison {
    const advice *a;
    const tg_link *link;
} comparison;

/* The fastest step among these families (a set) and methods. */
static tg_status fastest(const advice *a, const tg_link *link, unsigned families, size_t from,
                         size_t to, double *step_p)
{
    double best = INFINITY;
    for (size_t m = from; m < to; m++)
        for (int f = 0; f < ADVICE_FAMILIES; f++) {
            advice_way w = {.family = (advice_family)f, .number = ADVICE_MOST_D, .method = m};
            if (!(families >> f & 1))
                continue;
            const tg_status status = advice_predict(a, link, &w);
            if (!advice_refused(status))
                TG_TRY(status);
            if (status == TG_OK)
                best = fmin(best, w.step_s);
        }
    *step_p = best;
    return TG_OK;
}

static tg_status compression_pays(void *arg, double at, bool *pays_p)
{
    const comparison *c = arg;
    tg_link l = *c->link;
    double dense, coded;
    l.up_bps = l.down_bps = at;
    TG_TRY(fastest(c->a, &l, 1u << ADVICE_SSGD, 0, ADVICE_CODED, &dense));
    TG_TRY(fastest(c->a, &l, 1u << ADVICE_SSGD, ADVICE_CODED, advice_method_count, &coded));
    *pays_p = coded < ADVICE_PAYS * dense;
    return TG_OK;
}

static tg_status delay_pays(void *arg, double at, bool *pays_p)
{
    const comparison *c = arg;
    tg_link l = *c->link;
    double waits, late;
    l.delay_ns = (int64_t)(at * 1e9);
    l.jitter_ns = 0;
    TG_TRY(fastest(c->a, &l, 1u << ADVICE_SSGD, 0, advice_method_count, &waits));
    TG_TRY(fastest(c->a, &l, 1u << ADVICE_OD | 1u << ADVICE_DGA, 0, advice_method_count, &late));
    *pays_p = late < ADVICE_PAYS * waits;
    return TG_OK;
}

double advice_rate(const tg_link *link)
{
    const double up = link->up_bps, down = link->down_bps;
    return !(up > 0) ? fmax(down, 0) : !(down > 0) ? up : fmin(up, down);
}

tg_status advice_crossings(const advice *a, const tg_link *link, advice_ranges *compression_p,
                           advice_ranges *delay_p)
{
    comparison c = {a, link};
    const double rate = advice_rate(link), delay = (double)link->delay_ns / 1e9;
    double low = 1e3, high = 1e12;
    if (rate > 0) {
        low = fmin(fmax(low, rate / 1e4), rate);
        high = fmax(fmin(high, rate * 1e4), rate);
    }
    TG_TRY(advice_look(compression_pays, &c, low, high, compression_p));
    return advice_look(delay_pays, &c, delay > 0 ? fmin(delay, 1e-6) : 1e-6, fmax(delay, 10),
                       delay_p);
}
