/* The watch over residuals, with synthetic gradients and a compressor: whether it reports a
 * problem. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "session/watch.h"
#include "vectors.h"
#include <math.h>
#include <stdlib.h>

enum { N = 200 };

/* The input at step t: signal * direction[i] + noise[i]. */
typedef struct source {
    double signal, noise, fade; /* the scale falls by `fade` per step */
    double momentum;
} source;

typedef struct rank {
    double r[N], u[N];
    double threshold; /* 0: use k */
    size_t k;         /* the k largest; 0: one bit per element */
} rank;

/* Nearly normal. */
static double draw(uint64_t *state)
{
    double sum = -6;
    for (int i = 0; i < 12; i++)
        sum += test_random(state) * 0x1p-32;
    return sum;
}

static int descending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x < y) - (x > y);
}

/* Send part of r; returns the number of elements. */
static size_t send(rank *x)
{
    double sorted[N], plus = 0, minus = 0, limit = x->threshold;
    size_t kept = 0, above = 0;
    for (size_t i = 0; i < N; i++) {
        sorted[i] = fabs(x->r[i]);
        above += x->r[i] >= 0;
        *(x->r[i] >= 0 ? &plus : &minus) += x->r[i];
    }
    if (limit == 0 && x->k == 0) {
        for (size_t i = 0; i < N; i++)
            x->r[i] -= x->r[i] >= 0 ? plus / (double)above : minus / (double)(N - above);
        return N;
    }
    if (limit == 0) {
        qsort(sorted, N, sizeof *sorted, descending);
        limit = sorted[x->k - 1];
    }
    for (size_t i = 0; i < N; i++) {
        if (fabs(x->r[i]) < limit)
            continue;
        x->r[i] -= x->threshold == 0 ? x->r[i] : copysign(limit, x->r[i]);
        kept++;
    }
    return kept;
}

/* The step at which the watch reports a problem; 0: never. */
static uint64_t play(rank x, const source *s, uint64_t steps)
{
    tg__watch w;
    tg__watch_init(&w, 1 / (1 - s->momentum));
    uint64_t found = 0, state = 1;
    double direction[N], scale = 1;
    for (size_t i = 0; i < N; i++)
        direction[i] = draw(&state);
    for (uint64_t t = 0; t < steps; t++) {
        double sq = 0, residual = 0;
        for (size_t i = 0; i < N; i++) {
            double g = scale * (s->signal * direction[i] + s->noise * draw(&state));
            sq += g * g;
            x.u[i] = s->momentum * x.u[i] + g;
            x.r[i] += x.u[i];
        }
        scale *= s->fade;
        size_t kept = send(&x);
        for (size_t i = 0; i < N; i++)
            residual += x.r[i] * x.r[i];
        if (tg__watch_step(&w, N, kept, sqrt(sq), false) &&
            tg__watch_residual(&w, sqrt(residual))) {
            assert_int_equal(found, 0); /* once */
            found = t + 1;
        }
        assert_false(tg__watch_dense(&w));
    }
    return found;
}

/* More comes in than can be sent, with noise and without; thresholds small and tiny. */
static void test_growth_is_found(void **state)
{
    (void)state;
    static const double thresholds[] = {1e-6, 1e-3, 0.05, 0.2};
    static const source sources[] = {{.signal = 1, .fade = 1},
                                     {.signal = 1, .noise = 1, .fade = 1},
                                     {.signal = 1, .noise = 0.2, .fade = 0.9998}};
    for (size_t s = 0; s < 3; s++)
        for (size_t i = 0; i < 4; i++)
            assert_in_range(play((rank){.threshold = thresholds[i]}, &sources[s], 1500), 100, 600);
}

/* Residuals that grow for a long time and then stop: nothing is reported. */
static void test_no_false_alarm(void **state)
{
    (void)state;
    static const source sources[] = {{.signal = 1, .fade = 1},
                                     {.noise = 1, .fade = 1},
                                     {.signal = 0.3, .noise = 1, .fade = 1},
                                     {.signal = 0.3, .noise = 1, .fade = 0.998},
                                     {.signal = 1, .noise = 1, .fade = 1, .momentum = 0.9},
                                     {.signal = 0.1, .noise = 1, .fade = 0.999, .momentum = 0.9}};
    static const rank ranks[] = {{.k = 1},          {.k = 4},          {.k = 40},
                                 {.k = N},          {.k = 0},          {.threshold = 10},
                                 {.threshold = 50}, {.threshold = 1e4}};
    for (size_t s = 0; s < sizeof sources / sizeof *sources; s++)
        for (size_t i = 0; i < sizeof ranks / sizeof *ranks; i++)
            /* With momentum, more than 10 comes in. */
            if (ranks[i].threshold != 10 || sources[s].momentum == 0)
                assert_int_equal(play(ranks[i], &sources[s], 4000), 0);
}

/* A random walk does not count as unbounded growth, however small the steps sent. */
static void test_noise_alone_is_no_growth(void **state)
{
    (void)state;
    static const source noise = {.noise = 1, .fade = 1};
    assert_int_equal(play((rank){.threshold = 1e-3}, &noise, 4000), 0);
}

static void test_dense_steps(void **state)
{
    (void)state;
    tg__watch w;
    tg__watch_init(&w, 1);
    for (int t = 0; t < 19; t++) {
        (void)tg__watch_step(&w, 10, 10, 1, true);
        assert_false(tg__watch_dense(&w)); /* too few */
    }
    (void)tg__watch_step(&w, 10, 10, 1, true);
    assert_true(tg__watch_dense(&w));
    assert_false(tg__watch_dense(&w)); /* once */
    tg__watch_init(&w, 1);
    for (int t = 0; t < 100; t++) {
        (void)tg__watch_step(&w, 10, 10, 1, t % 2 == 1);
        assert_false(tg__watch_dense(&w)); /* exactly half */
    }
}

/* Empty and non-finite figures are ignored. */
static void test_odd_figures(void **state)
{
    (void)state;
    tg__watch w;
    tg__watch_init(&w, 1);
    assert_false(tg__watch_step(&w, 0, 0, 1, false));
    assert_false(tg__watch_step(&w, 10, 10, (double)NAN, false));
    assert_true(tg__watch_step(&w, 10, 10, 1, false)); /* the first measurement */
    assert_false(tg__watch_residual(&w, (double)INFINITY));
    for (int t = 0; t < 1000; t++)
        if (tg__watch_step(&w, 10, 10, 0, false))
            assert_false(tg__watch_residual(&w, 0)); /* all zero */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_growth_is_found),
        cmocka_unit_test(test_no_false_alarm),
        cmocka_unit_test(test_noise_alone_is_no_growth),
        cmocka_unit_test(test_dense_steps),
        cmocka_unit_test(test_odd_figures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
