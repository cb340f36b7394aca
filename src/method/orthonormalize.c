#include "method/orthonormalize.h"
#include "kernel/kernel.h"

#include <float.h>
#include <math.h>
#include <string.h>

static double norm(const float *x, size_t n)
{
    return sqrt(tg__kernel()->dot(x, x, n));
}

void tg__orthonormalize(float *a, size_t n, size_t count)
{
    const tg__kernels *kernel = tg__kernel();
    for (size_t k = 0; k < count; k++) {
        float *column = a + k * n;
        const double before = norm(column, n);
        for (size_t i = 0; i < k; i++)
            kernel->axpy(column, -(float)kernel->dot(a + i * n, column, n), a + i * n, n);
        const double after = k == 0 ? before : norm(column, n);
        if (isfinite(after) && after >= FLT_MIN && after >= TG__DEPENDENT * before)
            kernel->scale(column, (float)(1 / after), n);
        else
            memset(column, 0, n * sizeof *column);
    }
}

void tg__draw_zero_columns(float *a, size_t n, size_t count, const tg_rng_key *key)
{
    for (size_t k = 0; k < count; k++) {
        float *column = a + k * n;
        if (tg__kernel()->abs_max(column, n) > 0)
            continue;
        for (size_t i = 0; i < n; i++)
            column[i] = (float)(2 * tg_rng_uniform(key, k * n + i) - 1);
    }
}
