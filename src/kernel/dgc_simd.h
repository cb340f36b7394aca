/* Template: DGC's momentum correction with the L1 norm of the accumulated velocity. */
#include "kernel/dgc_step_simd.h"
#include <math.h>

static double dgc_sum_abs(float *u, float *v, const float *g, size_t n, float m, bool nesterov)
{
    double total = 0;
    EACH_CHUNK(n, {
        wide sum[VECS];
        lanes_clear(sum);
        EACH_LANES(wide_add(&sum[j], vec_abs(dgc_step(u + i, v + i, g + i, left, m, nesterov))););
        total += lanes_sum(sum);
    });
    return isfinite(total) ? total : (double)NAN;
}

static void fill_dgc(tg__kernels *table)
{
    table->dgc_sum_abs = dgc_sum_abs;
}
