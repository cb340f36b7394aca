#include "method/orthonormalize.h"
#include "kernel/kernel.h"

#include <float.h>
#include <math.h>
#include <string.h>

static double norm(const float *x, size_t n)
{
    return sqrt(tg__kernel()->dot(x, x, n));
}

/* Subtract from column k of a its projection on the columns before it. */
static void project_out(float *a, size_t n, size_t k)
{
    const tg__kernels *kernel = tg__kernel();
    for (size_t i = 0; i < k; i++)
        kernel->axpy(a + k * n, -(float)kernel->dot(a + i * n, a + k * n, n), a + i * n, n);
}

void tg__orthonormalize(float *a, size_t n, size_t count)
{
    for (size_t k = 0; k < count; k++) {
        float *column = a + k * n;
        const double before = norm(column, n);
        double after = before;
        for (int times = 0; k > 0 && times < 2; times++) {
            const double last = after;
            project_out(a, n, k);
            after = norm(column, n);
            if (after > last / 2) /* little was removed, so little of it remains */
                break;
        }
        if (isfinite(after) && after >= FLT_MIN && after >= TG__DEPENDENT * before)
            tg__kernel()->scale(column, (float)(1 / after), n);
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
