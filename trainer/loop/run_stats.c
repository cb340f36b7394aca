#include "trainer/loop/run_stats.h"
#include "telegrad/tools.h"
#include <math.h>
#include <stdlib.h>

tg_status run_stats_add(run_stats *s, const run_step *step)
{
    if (s->count == s->room) {
        const size_t room = s->room ? 2 * s->room : 1024;
        run_step *grown = realloc(s->steps, room * sizeof *grown);
        if (!grown)
            return tg_fail(TG_E_NOMEM, "out of memory: records of %zu steps", room);
        s->steps = grown;
        s->room = room;
    }
    s->steps[s->count++] = *step;
    return TG_OK;
}

void run_stats_free(run_stats *s)
{
    free(s->steps);
    *s = (run_stats){NULL, 0, 0};
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The median; for an even number of values, the mean of the middle two. Sorts v. */
static double median(double *v, size_t n)
{
    if (n == 0)
        return NAN;
    qsort(v, n, sizeof *v, by_value);
    return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

/* A figure of a step; NAN if the step does not count. */
typedef double figure(const run_step *step);

static double step_ms(const run_step *step)
{
    return step->step_ms;
}
static double compute_ms(const run_step *step)
{
    return step->compute_ms;
}
static double step_coded_ms(const run_step *step)
{
    return step->coded ? step->step_ms : NAN;
}
static double exchange_ms(const run_step *step)
{
    return step->exchange_ms > 0 ? step->exchange_ms : NAN;
}
static double coded_bytes(const run_step *step)
{
    return step->coded && step->coded_bytes > 0 ? (double)step->coded_bytes : NAN;
}
static double any_bytes(const run_step *step)
{
    return step->coded_bytes > 0 ? (double)step->coded_bytes : NAN;
}

/* The ratio for what was delivered in this step, which need not be the whole gradient. */
static double any_ratio(const run_step *step)
{
    return step->coded_bytes > 0 && step->elements > 0
               ? 4.0 * (double)step->elements / (double)step->coded_bytes
               : NAN;
}
static double coded_ratio(const run_step *step)
{
    return step->coded ? any_ratio(step) : NAN;
}

/* Cost per element in coded steps for which it is known (those not from a checkpoint). */
static double encode_element(const run_step *step)
{
    return step->coded && step->kept > 0 ? step->encode_ns / (double)step->elements : NAN;
}
static double decode_element(const run_step *step)
{
    return step->coded && step->kept > 0 ? step->decode_ns / (double)step->elements : NAN;
}

/* Median of f over steps [from, count). scratch (count) */
static double median_of(const run_stats *s, size_t from, figure *f, double *scratch)
{
    size_t n = 0;
    for (size_t i = from; i < s->count; i++) {
        const double value = f(&s->steps[i]);
        if (!isnan(value))
            scratch[n++] = value;
    }
    return median(scratch, n);
}

/* 4n over the coded bytes, for steps of the second half. If none was coded, as with the dense
 * method, all steps count; if no step knows its elements, as in a simulation, n is nparams. */
static double ratio_of(const run_stats *s, size_t nparams, double *scratch)
{
    static figure *const ratios[] = {coded_ratio, any_ratio}, *const bytes[] = {coded_bytes,
                                                                                any_bytes};
    double ratio = NAN;
    for (int i = 0; i < 2 && isnan(ratio); i++)
        ratio = median_of(s, s->count / 2, ratios[i], scratch);
    for (int i = 0; i < 2 && isnan(ratio); i++)
        ratio = 4.0 * (double)nparams / median_of(s, s->count / 2, bytes[i], scratch);
    return ratio;
}

/* Means over all steps, including those in which nothing was exchanged. */
static void set_means(const run_stats *s, double seconds, train_end_info *end)
{
    run_step sum = {0};
    const double n = s->count > 0 ? (double)s->count : (double)NAN;
    for (size_t i = 0; i < s->count; i++) {
        const run_step *step = &s->steps[i];
        sum.compute_ms += step->compute_ms;
        sum.encode_ns += step->encode_ns;
        sum.exchange_ms += step->exchange_ms;
        sum.decode_ns += step->decode_ns;
        sum.apply_ms += step->apply_ms;
        sum.wait_ms += step->wait_ms;
    }
    end->step_ms_mean = 1e3 * seconds / n;
    end->compute_ms_mean = sum.compute_ms / n;
    end->encode_ms_mean = sum.encode_ns / 1e6 / n;
    end->exchange_ms_mean = sum.exchange_ms / n;
    end->decode_ms_mean = sum.decode_ns / 1e6 / n;
    end->apply_ms_mean = sum.apply_ms / n;
    end->wait_ms_mean = sum.wait_ms / n;
}

/* The mean over the second half, by exchanges: from the one before it, or the first in it, to the
 * last. A round's exchange thus counts for all of its steps, and one that arrives late for one step
 * as any other. Without two such exchanges, all bytes over all steps. */
static double bytes_per_step(const run_stats *s, double sent)
{
    size_t from = s->count, to = s->count;
    double sum = 0;
    for (size_t i = 0; i < s->count; i++) {
        if (!s->steps[i].exchanged)
            continue;
        if (i < s->count / 2 || from == s->count) {
            from = to = i;
        } else {
            sum += s->steps[i].bytes_exchanged;
            to = i;
        }
    }
    return to > from ? sum / (double)(to - from) : sent / (double)s->count; /* 0 / 0 is NAN */
}

tg_status run_stats_figures(const run_stats *s, size_t nparams, double seconds, double sent,
                            train_end_info *end)
{
    double *scratch, dense = 0;
    TG_TRY(tg_alloc(s->count, sizeof *scratch, &scratch));
    const size_t half = s->count / 2;
    end->step_ms_median = median_of(s, 0, step_ms, scratch);
    end->compute_ms_median = median_of(s, 0, compute_ms, scratch);
    end->step_coded_ms_median = median_of(s, 0, step_coded_ms, scratch);
    end->exchange_ms_median = median_of(s, 0, exchange_ms, scratch);
    end->ratio = sent > 0 ? ratio_of(s, nparams, scratch) : NAN;
    end->encode_ns_element = median_of(s, half, encode_element, scratch);
    end->decode_ns_element = median_of(s, half, decode_element, scratch);
    free(scratch);
    set_means(s, seconds, end);
    double kept = 0, elements = 0;
    for (size_t i = half; i < s->count; i++) {
        kept += s->steps[i].coded ? (double)s->steps[i].kept : 0;
        elements += s->steps[i].coded ? (double)s->steps[i].elements : 0;
    }
    end->kept = kept / elements; /* 0 / 0 is NAN if no step was coded */
    for (size_t i = 0; i < s->count; i++)
        dense += (double)s->steps[i].bytes_dense;
    end->bytes_per_step = bytes_per_step(s, sent);
    end->ratio_wire = sent > 0 ? dense / sent : NAN;
    return TG_OK;
}
