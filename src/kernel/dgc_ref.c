/* DGC's momentum correction with the L1 norm of the accumulated velocity, the specification. */
#include "kernel/dgc_lanes.h"
#include "kernel/variants.h"

static double dgc_sum_abs(float *u, float *v, const float *g, size_t n, float m, bool nesterov)
{
    double sum = 0;
    for (size_t begin = 0; begin < n; begin += TG__CHUNK) {
        double lanes[TG__LANES] = {0};
        tg__dgc_abs_add(lanes, u + begin, v + begin, g + begin, 0,
                        TG__MIN(n - begin, (size_t)TG__CHUNK), m, nesterov);
        sum += tg__lanes_sum(lanes);
    }
    return isfinite(sum) ? sum : (double)NAN;
}

void tg__dgc_ref(tg__kernels *table)
{
    table->dgc_sum_abs = dgc_sum_abs;
}
