/* Kernels on vectors: sums and statistics, selection, steps of optimizers. Every level gives the
 * bits of plain loops, and touches nothing outside its arrays (kernel_world.h). */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "kernel_world.h"

/* ---- one adaptor for each kernel: variant v of a call on the arrays of a world --------------- */

static const float factors[] = {0.9f, 0.0f, -3.5f};

CALL(add, k->add(w->f[0], w->f[1], w->n))
CALL(axpy, k->axpy(w->f[0], factors[v], w->f[1], w->n))
CALL(scale, k->scale(w->f[0], factors[v], w->n))
CALL(sub, k->sub(w->f[0], w->f[1], w->n))
CALL(abs_max, w->result[0] = tg__f32_bits(k->abs_max(w->f[0], w->n)))
CALL(all_finite, w->result[0] = k->all_finite(w->f[0], w->n))
CALL(dot, w->result[0] = double_bits(k->dot(w->f[0], w->f[1], w->n)))
CALL(histogram, k->histogram(w->f[0], w->n, w->hist))
CALL(scatter_add, k->scatter_add(w->f[0], w->idx, w->val, TG__MIN(w->cap, w->n)))
CALL(sgd, k->sgd(w->f[0], w->f[1], w->n, 0.1f, factors[v]))
CALL(sgd_to, k->sgd_to(w->f[0], v ? w->f[0] : w->f[1], w->f[2], w->n, 0.1f, 1e-4f))
CALL(sgd_momentum, k->sgd_momentum(w->f[0], w->f[1], w->f[2], w->n, 0.1f, 0.9f, 1e-4f, v))
CALL(lars, k->lars(w->f[0], w->f[1], w->f[2], w->n, 0.1f, 0.9f, factors[v]))
CALL(lars_preview_to,
     k->lars_preview_to(w->f[0], w->f[0], w->f[1], w->f[2], w->n, 0.1f, 0.9f, factors[v]))
CALL(sub_to, k->sub_to(w->f[v], w->f[0], w->f[1], w->n))
CALL(mix, k->mix(w->f[0], w->f[1], w->n, factors[v], 0.3f))
CALL(nesterov, k->nesterov(w->f[0], w->f[1], w->f[2], w->n, 0.7f, factors[v]))
CALL(sign_step, k->sign_step(w->f[0], w->f[1], w->n, factors[v], 0.1f))
CALL(clamp, k->clamp(w->f[0], v ? w->f[0] : w->f[1], w->n, 0.25f))

static void run_sgd_preview_to(const tg__kernels *k, world *w, unsigned v)
{
    float *dst = v ? w->f[0] : w->val; /* val has room for n when cap is n */
    if (w->cap >= w->n)
        k->sgd_preview_to(dst, w->f[0], w->f[1], w->f[2], w->n, 0.1f, 0.9f, 1e-4f, v);
}

/* Second moments should not be negative, but some of these are, which gives NaN at every level. */
static const tg__adam adam_steps[] = {
    {1, 0, 0.9f, 0.1f, 0.999f, 0.001f, 0.01f, 31.6f, 1e-8f},
    {0.999f, 0.01f, 0.5f, 0.5f, 0.75f, 0.25f, 0.125f, 1, 1e-3f},
};

static void run_adam(const tg__kernels *k, world *w, unsigned v)
{
    if (w->cap >= w->n) /* val has room for n then */
        k->adam(w->val, w->f[0], w->f[1], w->f[2], w->n, &adam_steps[v]);
}

static void run_adam_preview_to(const tg__kernels *k, world *w, unsigned v)
{
    float *dst = v ? w->f[0] : w->val;
    if (w->cap >= w->n)
        k->adam_preview_to(dst, w->f[0], w->f[1], w->f[2], w->f[1], w->n, &adam_steps[v]);
}

static void run_settle(const tg__kernels *k, world *w, unsigned v)
{
    (void)v;
    if (w->cap >= w->n) /* val has room for n then */
        k->settle(w->val, w->f[0], w->f[1], w->f[2], w->n);
}

static void run_go_on(const tg__kernels *k, world *w, unsigned v)
{
    (void)v;
    if (w->cap >= w->n)
        k->go_on(w->f[0], w->f[1], w->f[2], w->val, w->n);
}

static void run_dcasgd(const tg__kernels *k, world *w, unsigned v)
{
    static const tg__dcasgd steps[] = {{0.1f, 0, 0.04f, 1}, {0.5f, 1e-4f, 2, 0.25f}};
    k->dcasgd(w->f[0], w->f[1], w->f[2], w->n, &steps[v]);
}

static void run_copy_stats(const tg__kernels *k, world *w, unsigned v)
{
    tg__stats stats;
    k->copy_stats(v ? w->f[1] : NULL, w->f[0], w->n, &stats);
    memcpy(&w->result[0], &stats.sum_sq, 8);
    memcpy(&w->result[1], &stats.sum_abs, 8);
    w->result[2] = stats.finite;
}

static void run_moments(const tg__kernels *k, world *w, unsigned v)
{
    tg__moments sums;
    k->moments(w->f[0], w->n, v ? 0.7f : 0, &sums);
    memcpy(&w->result[0], &sums.sum, 8);
    memcpy(&w->result[1], &sums.sum_sq, 8);
}

static const float thresholds[] = {0.0f, 0.5f, INFINITY, 0x1p-149f, 1e-3f};

/* The slack after the selected entries may have any value. */
static void forget_slack(world *w, size_t count)
{
    w->result[0] = count;
    for (size_t i = count; i < w->cap; i++) {
        w->idx[i] = 0;
        w->val[i] = 0;
    }
}

static void run_select(const tg__kernels *k, world *w, unsigned v)
{
    forget_slack(w, k->select(w->f[0], w->n, thresholds[v], w->idx, w->val, w->cap));
}

static void run_ahead_select(const tg__kernels *k, world *w, unsigned v)
{
    forget_slack(w, k->ahead_select(w->f[0], w->f[1], w->n, v % 2 ? 2.0f : 0.3f, thresholds[v / 2],
                                    w->idx, w->val, w->cap));
}

static void run_add_select(const tg__kernels *k, world *w, unsigned v)
{
    forget_slack(w, k->add_select(w->f[0], w->f[1], w->n, v % 2 ? 1.7f : 0, thresholds[v / 2],
                                  w->idx, w->val, w->cap));
}

static void run_dgc_select(const tg__kernels *k, world *w, unsigned v)
{
    forget_slack(w, k->dgc_select(w->f[0], w->f[1], w->f[2], w->n, 0.9f, v % 2,
                                  v / 2 % 2 ? 2.0f : 0, thresholds[v / 4], w->idx, w->val, w->cap));
}

static void run_dgc_sum_abs(const tg__kernels *k, world *w, unsigned v)
{
    w->result[0] = double_bits(k->dgc_sum_abs(w->f[0], w->f[1], w->f[2], w->n, 0.9f, v));
}

static void run_adacomp_select(const tg__kernels *k, world *w, unsigned v)
{
    static const size_t bin[] = {50, 500, 1, 16, 37};
    tg__bins bins;
    size_t count = k->adacomp_select(w->f[0], v % 2 ? w->f[0] : w->f[1], w->n, bin[v], w->idx,
                                     w->val, w->cap, &bins);
    forget_slack(w, count);
    memcpy(&w->result[1], &bins.sum, 8);
    w->result[2] = bins.count;
}

static const kernel_case cases[] = {
    {"add", run_add, 1},
    {"axpy", run_axpy, 3},
    {"scale", run_scale, 3},
    {"sub", run_sub, 1},
    {"abs_max", run_abs_max, 1},
    {"all_finite", run_all_finite, 1},
    {"copy_stats", run_copy_stats, 2},
    {"moments", run_moments, 2},
    {"dot", run_dot, 1},
    {"histogram", run_histogram, 1},
    {"scatter_add", run_scatter_add, 1},
    {"select", run_select, TG_COUNT(thresholds)},
    {"ahead_select", run_ahead_select, 2 * TG_COUNT(thresholds)},
    {"add_select", run_add_select, 2 * TG_COUNT(thresholds)},
    {"dgc_select", run_dgc_select, 4 * TG_COUNT(thresholds)},
    {"dgc_sum_abs", run_dgc_sum_abs, 2},
    {"adacomp_select", run_adacomp_select, 5},
    {"sgd", run_sgd, 3},
    {"sgd_to", run_sgd_to, 2},
    {"sgd_momentum", run_sgd_momentum, 2},
    {"sgd_preview_to", run_sgd_preview_to, 2},
    {"adam", run_adam, 2},
    {"adam_preview_to", run_adam_preview_to, 2},
    {"lars", run_lars, 3},
    {"lars_preview_to", run_lars_preview_to, 3},
    {"sub_to", run_sub_to, 3},
    {"settle", run_settle, 1},
    {"go_on", run_go_on, 1},
    {"mix", run_mix, 3},
    {"nesterov", run_nesterov, 3},
    {"dcasgd", run_dcasgd, 2},
    {"sign_step", run_sign_step, 3},
    {"clamp", run_clamp, 2},
};

static void test_vectors(void **state)
{
    (void)state;
    compare_levels(cases, TG_COUNT(cases));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vectors),
    };
    return cmocka_run_group_tests_name("kernel", tests, NULL, NULL);
}
