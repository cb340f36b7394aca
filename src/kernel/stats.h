/* The sums of one chunk in 16 virtual lanes, shared by the variants of copy_stats and moments. */
#ifndef TG_KERNEL_STATS_H
#define TG_KERNEL_STATS_H

#include "kernel/element.h"
#include <math.h>

typedef struct tg__stats_lanes {
    double sq[TG__LANES], abs[TG__LANES];
} tg__stats_lanes;

/* Add the elements begin .. end - 1 of the chunk x. */
static inline void tg__stats_add(tg__stats_lanes *lanes, const float *x, size_t begin, size_t end)
{
    for (size_t i = begin; i < end; i++) {
        double a = fabs((double)x[i]);
        lanes->sq[i % TG__LANES] += a * a;
        lanes->abs[i % TG__LANES] += a;
    }
}

/* Add a finished chunk to the totals. */
static inline void tg__stats_sum(const tg__stats_lanes *lanes, double *sum_sq, double *sum_abs)
{
    double sq = 0, abs = 0;
    for (size_t lane = 0; lane < TG__LANES; lane++) {
        sq += lanes->sq[lane];
        abs += lanes->abs[lane];
    }
    *sum_sq += sq;
    *sum_abs += abs;
}

/* A sum of magnitudes of floats cannot overflow a double, so it is finite if and only if they all
 * are. */
static inline void tg__stats_finish(double sum_sq, double sum_abs, tg__stats *stats)
{
    stats->finite = isfinite(sum_abs);
    stats->sum_sq = stats->finite ? sum_sq : (double)NAN;
    stats->sum_abs = stats->finite ? sum_abs : (double)NAN;
}

typedef struct tg__moment_lanes {
    double sum[TG__LANES], sq[TG__LANES];
} tg__moment_lanes;

/* Add the elements begin .. end - 1 of the chunk x. */
static inline void tg__moments_add(tg__moment_lanes *lanes, const float *x, size_t begin,
                                   size_t end, double from)
{
    for (size_t i = begin; i < end; i++) {
        double d = (double)x[i] - from;
        lanes->sum[i % TG__LANES] += d;
        lanes->sq[i % TG__LANES] += d * d;
    }
}

/* Add a finished chunk to the totals. */
static inline void tg__moments_sum(const tg__moment_lanes *lanes, tg__moments *total)
{
    double sum = 0, sq = 0;
    for (size_t lane = 0; lane < TG__LANES; lane++) {
        sum += lanes->sum[lane];
        sq += lanes->sq[lane];
    }
    total->sum += sum;
    total->sum_sq += sq;
}

/* The sum of squares of floats cannot overflow a double either. */
static inline void tg__moments_finish(tg__moments *total)
{
    if (!isfinite(total->sum_sq))
        total->sum = total->sum_sq = (double)NAN;
}

#endif
