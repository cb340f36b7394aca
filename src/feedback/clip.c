/* DGC's local clipping: g_i * min(1, clip / (sqrt(P) * |g_i|)) for each tensor i. The sum of P
 * clipped gradients of independent direction then has norm <= clip in expectation.
 *
 * Source: Lin et al. 2018, arXiv:1712.01887, sec. 3.2 */
#include "feedback/feedback.h"
#include "kernel/kernel.h"
#include <math.h>

double tg__clip_limit(double clip, int world)
{
    return clip / sqrt((double)world);
}

void tg__clip_tensors(float *dst, const float *g, const size_t *begin, const size_t *len,
                      size_t nseg, double clip, int world)
{
    const tg__kernels *k = tg__kernel();
    const double limit = tg__clip_limit(clip, world);
    for (size_t i = 0; i < nseg; i++) {
        float *to = dst + begin[i];
        tg__stats stats;
        k->copy_stats(dst == g ? NULL : to, g + begin[i], len[i], &stats);
        double norm = sqrt(stats.sum_sq);
        /* a gradient that is not finite must remain recognisable */
        if (stats.finite && norm > limit)
            k->scale(to, (float)(limit / norm), len[i]);
    }
}
