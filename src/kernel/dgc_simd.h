/* Template of dgc_avx2.c and dgc_avx512.c: dgc_ref.c in vectors. */
#include "kernel/dgc_step_simd.h"

enum { VECS = TG__LANES / WIDTH };

static double dgc_sum_abs(float *u, float *v, const float *g, size_t n, float m, bool nesterov)
{
    const vec vm = vec_splat(m);
    double total = 0;
    for (size_t begin = 0; begin < n; begin += TG__CHUNK) {
        size_t end = begin + TG__MIN(n - begin, (size_t)TG__CHUNK), i = begin;
        wide sum[VECS];
        double lanes[TG__LANES];
        for (size_t j = 0; j < VECS; j++)
            sum[j] = wide_zero();
        for (; i + TG__LANES <= end; i += TG__LANES)
            for (size_t j = 0; j < VECS; j++) {
                size_t at = i + WIDTH * j;
                wide_add(&sum[j], vec_abs(dgc_step(u + at, v + at, g + at, WIDTH, vm, nesterov)));
            }
        for (size_t j = 0; j < VECS; j++)
            wide_put(lanes + WIDTH * j, sum[j]);
        tg__dgc_abs_add(lanes, u + begin, v + begin, g + begin, i - begin, end - begin, m,
                        nesterov);
        total += tg__lanes_sum(lanes);
    }
    return isfinite(total) ? total : (double)NAN;
}

static void fill(tg__kernels *table)
{
    table->dgc_sum_abs = dgc_sum_abs;
}
