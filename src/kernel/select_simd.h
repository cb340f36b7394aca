/* Template of select_avx2.c and select_avx512.c: select_ref.c in vectors. The including file
 * defines widen, selected, pick (one vector) and pick64 (64 / WIDTH vectors, one branch). */
#include "kernel/dgc_step_simd.h"

static size_t threshold_select(const float *x, size_t n, float threshold, uint32_t *idx, float *val,
                               size_t cap)
{
    const wide_range range = widen(threshold);
    tg__picked to = {idx, val, cap, 0};
    size_t i = 0;
    for (; i + 64 <= n; i += 64) {
        vec v[64 / WIDTH];
        for (size_t j = 0; j < 64 / WIDTH; j++)
            v[j] = vec_get(x + i + WIDTH * j, WIDTH);
        pick64(&to, range, i, v);
    }
    for (; i < n; i += WIDTH) { /* missing lanes are 0: never selected */
        vec v = vec_get(x + i, n - i);
        pick(&to, selected(range, v), i, v);
    }
    return to.count;
}

static inline vec add_step(float *r, const float *g, size_t left)
{
    vec sum = vec_add(vec_get(r, left), vec_get(g, left));
    vec_put(r, left, sum);
    return sum;
}

static size_t add_select(float *r, const float *g, size_t n, float threshold, uint32_t *idx,
                         float *val, size_t cap)
{
    const wide_range range = widen(threshold);
    tg__picked to = {idx, val, cap, 0};
    size_t i = 0;
    for (; i + 64 <= n; i += 64) {
        vec sum[64 / WIDTH];
        for (size_t j = 0; j < 64 / WIDTH; j++)
            sum[j] = add_step(r + i + WIDTH * j, g + i + WIDTH * j, WIDTH);
        pick64(&to, range, i, sum);
    }
    for (; i < n; i += WIDTH) {
        vec sum = add_step(r + i, g + i, n - i);
        pick(&to, selected(range, sum), i, sum);
    }
    return to.count;
}

static size_t dgc_select(float *u, float *v, const float *g, size_t n, float m, bool nesterov,
                         float threshold, uint32_t *idx, float *val, size_t cap)
{
    const wide_range range = widen(threshold);
    const vec vm = vec_splat(m);
    tg__picked to = {idx, val, cap, 0};
    size_t i = 0;
    for (; i + 64 <= n; i += 64) {
        vec sum[64 / WIDTH];
        for (size_t j = 0; j < 64 / WIDTH; j++) {
            size_t at = i + WIDTH * j;
            sum[j] = dgc_step(u + at, v + at, g + at, WIDTH, vm, nesterov);
        }
        pick64(&to, range, i, sum);
    }
    for (; i < n; i += WIDTH) { /* missing lanes: m * 0 + 0 is 0, or NaN; neither is selected */
        vec sum = dgc_step(u + i, v + i, g + i, n - i, vm, nesterov);
        pick(&to, selected(range, sum), i, sum);
    }
    return to.count;
}

static void fill(tg__kernels *table)
{
    table->select = threshold_select;
    table->add_select = add_select;
    table->dgc_select = dgc_select;
}
