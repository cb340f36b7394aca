/* Density warm-up, compared with the paper's numbers; the k-step rule. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "schedule/schedule.h"
#include <math.h>
#include <string.h>

static tg__density_schedule density(double value, double warmup, bool epochs, uint64_t per_epoch)
{
    tg__density_schedule s;
    tg_duration d = {.count = warmup, .epochs = epochs};
    assert_int_equal(tg__density_init(&s, value, d, (tg__epochs){.steps = per_epoch}), TG_OK);
    return s;
}

static void assert_near(double got, double want, double tolerance)
{
    if (!(fabs(got - want) <= tolerance))
        fail_msg("%.17g is not %g", got, want);
}

/* Lin et al. 2018, sec. 3.3: sparsity 75, 93.75, 98.4375, 99.6, 99.9 % in the first epochs. */
static void follows_the_paper(void **state)
{
    (void)state;
    const double paper[] = {0.25, 0.0625, 0.015625, 0.004, 0.001, 0.001};
    tg__density_schedule s = density(0.001, 4, true, 100);
    for (uint64_t epoch = 0; epoch < 6; epoch++) {
        assert_near(tg__density_at(&s, epoch * 100), paper[epoch], 0.015 * paper[epoch]);
        assert_true(tg__density_at(&s, epoch * 100) == tg__density_at(&s, epoch * 100 + 99));
    }
    assert_true(tg__density_at(&s, 400) == 0.001);
    s = density(1e-5, 4, true, 3);
    assert_near(tg__density_at(&s, 0), 0.1, 1e-12);
    assert_near(tg__density_at(&s, 11), 1e-4, 1e-12);
    assert_true(tg__density_at(&s, 12) == 1e-5);
}

static void steps_make_four_stages(void **state)
{
    (void)state;
    tg__density_schedule s = density(1e-5, 10, false, 0);
    const int stage[] = {1, 1, 1, 2, 2, 3, 3, 3, 4, 4, 5, 5};
    for (uint64_t step = 0; step < 12; step++)
        assert_near(tg__density_at(&s, step) / pow(10, -stage[step]), 1, 1e-12);
}

static void a_started_epoch_is_a_stage(void **state)
{
    (void)state;
    tg__density_schedule s = density(1e-4, 2.5, true, 10);
    assert_int_equal(s.warmup_steps, 25);
    const int stage[] = {1, 2, 3, 4};
    const uint64_t begin[] = {0, 10, 20, 25}, last[] = {9, 19, 24, 1000};
    for (int i = 0; i < 4; i++) {
        assert_near(tg__density_at(&s, begin[i]) / pow(10, -stage[i]), 1, 1e-12);
        assert_near(tg__density_at(&s, last[i]) / pow(10, -stage[i]), 1, 1e-12);
    }
}

static void no_warmup(void **state)
{
    (void)state;
    tg__density_schedule s = density(0.01, 0, false, 0);
    assert_true(tg__density_at(&s, 0) == 0.01);
    s = density(1, 4, true, 5);
    assert_true(tg__density_at(&s, 0) == 1 && tg__density_at(&s, 100) == 1);
    s = density(0.5, 1, false, 0); /* shorter than its stages */
    assert_true(tg__density_at(&s, 0) > 0.5 && tg__density_at(&s, 1) == 0.5);
}

static void refuses(void **state)
{
    (void)state;
    tg__density_schedule s;
    const tg_duration none = {0}, epochs = {.count = 4, .epochs = true},
                      many = {.count = 1e10, .epochs = true};
    const tg__epochs unknown = {.steps = 0};
    const double bad[] = {0, -1, 1.5, NAN, INFINITY};
    for (int i = 0; i < 5; i++)
        assert_int_equal(tg__density_init(&s, bad[i], none, unknown), TG_E_SPEC);
    assert_int_equal(tg__density_init(&s, 2, none, unknown), TG_E_SPEC);
    assert_string_equal(tg_error(), "density=2: allowed: 0 < density <= 1");
    assert_int_equal(tg__density_init(&s, 0.1, epochs, unknown), TG_E_SPEC);
    assert_non_null(strstr(tg_error(), "warmup"));
    assert_int_equal(tg__density_init(&s, 0.1, many, (tg__epochs){.steps = 1}), TG_E_SPEC);
}

static void kstep(void **state)
{
    (void)state;
    for (uint64_t count = 0; count < 20; count++) {
        assert_false(tg__kstep_dense(0, count));
        assert_true(tg__kstep_dense(1, count));
        assert_int_equal(tg__kstep_dense(5, count),
                         count == 0 || count == 5 || count == 10 || count == 15);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(follows_the_paper),
        cmocka_unit_test(steps_make_four_stages),
        cmocka_unit_test(a_started_epoch_is_a_stage),
        cmocka_unit_test(no_warmup),
        cmocka_unit_test(refuses),
        cmocka_unit_test(kstep),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
