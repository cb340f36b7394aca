/* Template: statistics of a vector: maxima, sums in 16 lanes, histogram of magnitudes. */
#include <math.h>

enum { MAXIMA = 4 }; /* in parallel */

static inline vec larger(vec max, vec x)
{
    return vec_max(vec_abs(x), max);
}

static float abs_max(const float *x, size_t n)
{
    vec max[MAXIMA] = {vec_splat(0), vec_splat(0), vec_splat(0), vec_splat(0)};
    size_t i = 0;
    for (; i + MAXIMA * WIDTH <= n; i += MAXIMA * WIDTH) {
        TG__UNROLL
        for (size_t j = 0; j < MAXIMA; j++)
            max[j] = larger(max[j], vec_get(x + i + WIDTH * j, WIDTH));
    }
    for (; i < n; i += WIDTH)
        max[0] = larger(max[0], vec_get(x + i, n - i));
    return vec_largest(vec_max(vec_max(max[0], max[1]), vec_max(max[2], max[3])));
}

/* Magnitudes have the same order as their bits; those of NaNs are above infinity's. */
static bool all_finite(const float *x, size_t n)
{
    vint max[MAXIMA] = {int_zero(), int_zero(), int_zero(), int_zero()};
    size_t i = 0;
    for (; i + MAXIMA * WIDTH <= n; i += MAXIMA * WIDTH) {
        TG__UNROLL
        for (size_t j = 0; j < MAXIMA; j++)
            max[j] = int_max(vec_magnitude(vec_get(x + i + WIDTH * j, WIDTH)), max[j]);
    }
    for (; i < n; i += WIDTH)
        max[0] = int_max(vec_magnitude(vec_get(x + i, n - i)), max[0]);
    max[0] = int_max(int_max(max[0], max[1]), int_max(max[2], max[3]));
    return !int_any_above(max[0], (int32_t)TG__F32_INF - 1);
}

/* A sum of magnitudes of floats cannot overflow a double, so it is finite if and only if they all
 * are. */
static void copy_stats(float *dst, const float *src, size_t n, tg__stats *stats)
{
    double sum_sq = 0, sum_abs = 0;
    EACH_CHUNK(n, {
        wide sq[VECS], abs[VECS];
        lanes_clear(sq);
        lanes_clear(abs);
        EACH_LANES({
            const vec x = GET(src);
            if (dst)
                PUT(dst, x);
            const wide a = wide_from(vec_abs(x));
            wide_add_product(&sq[j], a, a);
            wide_add_wide(&abs[j], a);
        });
        sum_sq += lanes_sum(sq);
        sum_abs += lanes_sum(abs);
    });
    stats->finite = isfinite(sum_abs);
    stats->sum_sq = stats->finite ? sum_sq : (double)NAN;
    stats->sum_abs = stats->finite ? sum_abs : (double)NAN;
}

/* The sum of squares of floats cannot overflow a double either. */
static void moments(const float *x, size_t n, float from, tg__moments *sums)
{
    *sums = (tg__moments){0, 0};
    EACH_CHUNK(n, {
        wide sum[VECS], sq[VECS];
        lanes_clear(sum);
        lanes_clear(sq);
        EACH_LANES({
            const wide d = wide_minus(wide_get(x + i, left, from), (double)from);
            wide_add_wide(&sum[j], d);
            wide_add_product(&sq[j], d, d);
        });
        sums->sum += lanes_sum(sum);
        sums->sum_sq += lanes_sum(sq);
    });
    if (!isfinite(sums->sum_sq))
        sums->sum = sums->sum_sq = (double)NAN;
}

static double dot(const float *x, const float *y, size_t n)
{
    double total = 0;
    EACH_CHUNK(n, {
        wide sum[VECS];
        lanes_clear(sum);
        EACH_LANES(wide_add_product(&sum[j], wide_get(x + i, left, 0), wide_get(y + i, left, 0)););
        total += lanes_sum(sum);
    });
    return total;
}

/* Gradients concentrate in few bins, and an increment waits for the previous one of the same bin.
 * So there are four histograms in parallel, for vectors long enough to pay for adding them up. */
static void histogram(const float *x, size_t n, uint32_t *hist)
{
    enum { BINS = 2048, LONG = 16384 };
    size_t i = 0;
    if (n >= LONG) {
        uint32_t part[4][BINS] = {{0}};
        for (; i + 4 <= n; i += 4) {
            TG__UNROLL
            for (size_t j = 0; j < 4; j++)
                part[j][tg__f32_magnitude(x[i + j]) >> 20]++;
        }
        for (size_t b = 0; b < BINS; b++)
            hist[b] += part[0][b] + part[1][b] + part[2][b] + part[3][b];
    }
    for (; i < n; i++)
        hist[tg__f32_magnitude(x[i]) >> 20]++;
}

static void fill_stats(tg__kernels *table)
{
    table->abs_max = abs_max;
    table->all_finite = all_finite;
    table->copy_stats = copy_stats;
    table->moments = moments;
    table->dot = dot;
    table->histogram = histogram;
}
