/* Threshold and compact, the specification: idx, val = the i, x_i with |x_i| >= threshold, x_i !=
 * 0. */
#include "kernel/element.h"
#include "kernel/variants.h"

static size_t threshold_select(const float *x, size_t n, float threshold, uint32_t *idx, float *val,
                               size_t cap)
{
    tg__range range = tg__select_range(threshold);
    tg__picked picked = {idx, val, cap, 0};
    for (size_t i = 0; i < n; i++)
        tg__pick(&picked, range, i, x[i]);
    return picked.count;
}

static size_t add_select(float *r, const float *g, size_t n, float threshold, uint32_t *idx,
                         float *val, size_t cap)
{
    tg__range range = tg__select_range(threshold);
    tg__picked picked = {idx, val, cap, 0};
    for (size_t i = 0; i < n; i++) {
        r[i] = r[i] + g[i];
        tg__pick(&picked, range, i, r[i]);
    }
    return picked.count;
}

static size_t dgc_select(float *u, float *v, const float *g, size_t n, float m, bool nesterov,
                         float threshold, uint32_t *idx, float *val, size_t cap)
{
    tg__range range = tg__select_range(threshold);
    tg__picked picked = {idx, val, cap, 0};
    for (size_t i = 0; i < n; i++)
        tg__pick(&picked, range, i, tg__dgc_step(&u[i], &v[i], g[i], m, nesterov));
    return picked.count;
}

/* Used by every level. Memory latency dominates, so elements are prefetched; scatter instructions
 * gain nothing. */
static void scatter_add(float *dst, const uint32_t *idx, const float *val, size_t k)
{
    enum { AHEAD = 32 };
    size_t i = 0;
    for (; i + AHEAD < k; i++) {
        __builtin_prefetch(&dst[idx[i + AHEAD]], 1);
        dst[idx[i]] += val[i];
    }
    for (; i < k; i++)
        dst[idx[i]] += val[i];
}

void tg__select_ref(tg__kernels *table)
{
    table->select = threshold_select;
    table->add_select = add_select;
    table->dgc_select = dgc_select;
    table->scatter_add = scatter_add;
}
