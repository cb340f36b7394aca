/* Statistics of a vector, the specification: maximum, sums in 16 lanes, histogram of magnitudes. */
#include "kernel/stats.h"
#include "kernel/variants.h"

static float abs_max(const float *x, size_t n)
{
    float max = 0;
    for (size_t i = 0; i < n; i++) {
        float a = tg__f32_from(tg__f32_bits(x[i]) & TG__F32_MAGNITUDE);
        max = a > max ? a : max;
    }
    return max;
}

static bool all_finite(const float *x, size_t n)
{
    uint32_t max = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t a = tg__f32_bits(x[i]) & TG__F32_MAGNITUDE;
        max = a > max ? a : max;
    }
    return max < TG__F32_INF;
}

static void copy_stats(float *dst, const float *src, size_t n, tg__stats *stats)
{
    double sum_sq = 0, sum_abs = 0;
    for (size_t begin = 0; begin < n; begin += TG__CHUNK) {
        size_t m = TG__MIN(n - begin, (size_t)TG__CHUNK);
        tg__stats_lanes lanes = {{0}, {0}};
        tg__stats_add(&lanes, src + begin, 0, m);
        if (dst)
            memcpy(dst + begin, src + begin, m * sizeof(*dst));
        tg__stats_sum(&lanes, &sum_sq, &sum_abs);
    }
    tg__stats_finish(sum_sq, sum_abs, stats);
}

static void moments(const float *x, size_t n, float from, tg__moments *sums)
{
    *sums = (tg__moments){0, 0};
    for (size_t begin = 0; begin < n; begin += TG__CHUNK) {
        tg__moment_lanes lanes = {{0}, {0}};
        tg__moments_add(&lanes, x + begin, 0, TG__MIN(n - begin, (size_t)TG__CHUNK), (double)from);
        tg__moments_sum(&lanes, sums);
    }
    tg__moments_finish(sums);
}

static void histogram(const float *x, size_t n, uint32_t *hist)
{
    for (size_t i = 0; i < n; i++)
        hist[(tg__f32_bits(x[i]) & TG__F32_MAGNITUDE) >> 20]++;
}

void tg__stats_ref(tg__kernels *table)
{
    table->abs_max = abs_max;
    table->all_finite = all_finite;
    table->copy_stats = copy_stats;
    table->moments = moments;
    table->histogram = histogram;
}
