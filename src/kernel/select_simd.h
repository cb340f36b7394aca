/* Template of select_*.c: threshold and compact: idx, val = the i, x_i with |x_i| >= threshold, x_i
 * != 0. The including file defines wide_range, widen and selected (one vector; missing lanes, 0 or
 * NaN, are not), lanes and any_lane (the result of selected), and pick (one vector).
 *
 * With vectors, one branch for 64 elements is taken if at least one is selected. Selected lanes
 * move to the front of a vector, which is stored whole; TG__SELECT_SLACK gives room. */
#include "kernel/dgc_step_simd.h"

static inline void pick64(tg__picked *to, wide_range range, size_t i, const vec x[64 / WIDTH])
{
    lanes chosen[64 / WIDTH], any = {0};
    for (size_t j = 0; j < 64 / WIDTH; j++) {
        chosen[j] = selected(range, x[j]);
        any |= chosen[j];
    }
    if (any_lane(any))
        for (size_t j = 0; j < 64 / WIDTH; j++)
            pick(to, chosen[j], i + WIDTH * j, x[j]);
}

/* Select from the vectors that the expression gives for i and left. */
#define SELECT(value)                                       \
    do {                                                    \
        const wide_range range = widen(threshold);          \
        tg__picked to = {idx, val, cap, 0};                 \
        size_t begin = 0;                                   \
        for (; WIDTH > 1 && begin + 64 <= n; begin += 64) { \
            vec all[64 / WIDTH];                            \
            for (size_t j = 0; j < 64 / WIDTH; j++) {       \
                const size_t i = begin + WIDTH * j;         \
                const size_t left = WIDTH;                  \
                all[j] = (value);                           \
            }                                               \
            pick64(&to, range, begin, all);                 \
        }                                                   \
        for (size_t i = begin; i < n; i += WIDTH) {         \
            const size_t left = n - i;                      \
            const vec one = (value);                        \
            pick(&to, selected(range, one), i, one);        \
        }                                                   \
        return to.count;                                    \
    } while (0)

static size_t threshold_select(const float *x, size_t n, float threshold, uint32_t *idx, float *val,
                               size_t cap)
{
    SELECT(GET(x));
}

static size_t ahead_select(const float *x, const float *g, size_t n, float ahead, float threshold,
                           uint32_t *idx, float *val, size_t cap)
{
    SELECT(vec_get(x + i, left) + ahead * vec_get(g + i, left));
}

static inline vec add_step(float *r, const float *g, float ahead, size_t left)
{
    const vec last = vec_get(g, left), sum = vec_get(r, left) + last;
    vec_put(r, left, sum);
    return sum + ahead * last;
}

static size_t add_select(float *r, const float *g, size_t n, float ahead, float threshold,
                         uint32_t *idx, float *val, size_t cap)
{
    SELECT(add_step(r + i, g + i, ahead, left));
}

static inline vec dgc_score(float *u, float *v, const float *g, size_t left, float m, bool nesterov,
                            float ahead)
{
    const vec sum = dgc_step(u, v, g, left, m, nesterov);
    return sum + ahead * vec_get(u, left);
}

static size_t dgc_select(float *u, float *v, const float *g, size_t n, float m, bool nesterov,
                         float ahead, float threshold, uint32_t *idx, float *val, size_t cap)
{
    if (ahead == 0) /* 0 * u may be NaN */
        SELECT(dgc_step(u + i, v + i, g + i, left, m, nesterov));
    SELECT(dgc_score(u + i, v + i, g + i, left, m, nesterov, ahead));
}

static void fill(tg__kernels *table)
{
    table->select = threshold_select;
    table->ahead_select = ahead_select;
    table->add_select = add_select;
    table->dgc_select = dgc_select;
}
