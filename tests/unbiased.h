/* For tests: checks that random rounding is correct on average, by a z-test on the errors of many
 * independent draws of one vector.
 *
 * In each draw the errors are summed in groups: all elements, each residue of their index modulo
 * the lanes of the kernels, each quarter of magnitudes. They are summed with their own signs and
 * with the sign of x, which finds values that are biased towards zero. The sums of a group over the
 * draws are independent, so their mean over its standard error is a z value. Seeds are fixed, so
 * the verdict is always the same. The limit is so high that all groups of a program together would
 * fail by chance in only one of 10^5 programs. */
#ifndef TESTS_UNBIASED_H
#define TESTS_UNBIASED_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum {
    UNBIASED_N = 1040,     /* elements */
    UNBIASED_DRAWS = 1000, /* draws of each: 10^6 in all */
    UNBIASED_LANES = 16,
    UNBIASED_QUARTERS = 4,
    UNBIASED_GROUPS = 2 * (1 + UNBIASED_LANES + UNBIASED_QUARTERS)
};
#define UNBIASED_LIMIT 6.0

/* Draw number t of x (n) into decoded (n). */
typedef void unbiased_draw(void *arg, uint64_t t, const float *x, size_t n, float *decoded);

/* The vector has both signs and more small values than large ones. It has no outliers (the largest
 * is 2.2 standard deviations), so a codec that clips at 2.5 of them does not clip here. */
static inline void unbiased_vector(float *x)
{
    uint64_t state = 1;
    for (size_t i = 0; i < UNBIASED_N; i++) {
        state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        double u = (double)(state >> 11) * 0x1p-53;
        x[i] = (float)((state >> 9 & 1 ? 0.03 : -0.03) * u * u);
    }
}

static inline void unbiased_add(double sums[UNBIASED_GROUPS], size_t group, double error,
                                double sign)
{
    sums[2 * group] += error;
    sums[2 * group + 1] += error * sign;
}

/* The largest |z| over all groups. */
static inline double unbiased_z(unbiased_draw *draw, void *arg)
{
    static float x[UNBIASED_N], decoded[UNBIASED_N];
    double mean[UNBIASED_GROUPS] = {0}, squares[UNBIASED_GROUPS] = {0}, scale = 0, worst = 0;
    unbiased_vector(x);
    for (size_t i = 0; i < UNBIASED_N; i++)
        scale += fabs((double)x[i]);
    for (uint64_t t = 0; t < UNBIASED_DRAWS; t++) {
        double sums[UNBIASED_GROUPS] = {0};
        draw(arg, t, x, UNBIASED_N, decoded);
        for (size_t i = 0; i < UNBIASED_N; i++) {
            double error = (double)decoded[i] - (double)x[i], sign = x[i] < 0 ? -1 : 1;
            size_t quarter = (size_t)(sqrt(fabs((double)x[i]) / 0.03) * UNBIASED_QUARTERS);
            quarter = quarter < UNBIASED_QUARTERS ? quarter : UNBIASED_QUARTERS - 1;
            unbiased_add(sums, 0, error, sign);
            unbiased_add(sums, 1 + i % UNBIASED_LANES, error, sign);
            unbiased_add(sums, 1 + UNBIASED_LANES + quarter, error, sign);
        }
        for (size_t g = 0; g < UNBIASED_GROUPS; g++) {
            mean[g] += sums[g] / UNBIASED_DRAWS;
            squares[g] += sums[g] * sums[g] / UNBIASED_DRAWS;
        }
    }
    for (size_t g = 0; g < UNBIASED_GROUPS; g++) {
        double variance = fmax(squares[g] - mean[g] * mean[g], 0) / (UNBIASED_DRAWS - 1);
        double rounding = 1e-9 * scale; /* rounding of the values themselves: f32 */
        worst = fmax(worst, fabs(mean[g]) / (sqrt(variance) + rounding));
    }
    return worst;
}

#endif
