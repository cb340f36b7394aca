/* Optimizers and the one-cycle schedule, compared with runs of PyTorch in float64. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "base/mem.h"
#include <golden/golden_optim.h> /* tests/golden */
#include "strategy/optimizers.h"
#include <math.h>
#include <string.h>

enum { MATRIX = 12, N = 17, STEPS = 12 };

static void gradient(uint64_t t, float *g)
{
    for (uint64_t i = 0; i < N; i++)
        g[i] = ldexpf((float)((i * 7 + t * 13 + i * t % 5) % 17) - 8, (int)(t % 4) - 6);
}

static void sequences(void **state)
{
    (void)state;
    for (size_t c = 0; c < TG_COUNT(golden_optim); c++) {
        const struct golden_optim *golden = &golden_optim[c];
        tg_optimizer *o;
        assert_int_equal(tg_optimizer_create(golden->spec, &o), TG_OK);
        float w[N], g[N], u[N] = {0}, v[N] = {0};
        size_t kept = 0;
        for (int i = 0; i < N; i++)
            w[i] = (float)(i * 5 % 11 - 5) / 8;
        for (uint64_t t = 0; t < STEPS && golden->clipped == 0; t++) { /* see session_clip_test.c */
            const double lr = t < STEPS / 2 ? o->lr : o->lr / 2;
            gradient(t, g);
            assert_int_equal(tg_optimizer_step(o, &(tg_update){sizeof(tg_update), lr, t + 1, 2}, w,
                                               g, MATRIX, (float *[]){u, v}),
                             TG_OK);
            assert_int_equal(tg_optimizer_step(o, &(tg_update){sizeof(tg_update), lr, t + 1, 1},
                                               w + MATRIX, g + MATRIX, N - MATRIX,
                                               (float *[]){u + MATRIX, v + MATRIX}),
                             TG_OK);
            if (t != 0 && t != 5 && t != 11)
                continue;
            for (int i = 0; i < N; i++)
                if (!(fabs(w[i] - golden->w[kept][i]) <= 1e-6 * fmax(1, fabs(golden->w[kept][i]))))
                    fail_msg("%s, step %d, element %d: %.9g is not %.9g", golden->spec, (int)t + 1,
                             i, (double)w[i], golden->w[kept][i]);
            kept++;
        }
        tg_optimizer_destroy(o);
    }
}

static void cycles(void **state)
{
    (void)state;
    for (size_t c = 0; c < TG_COUNT(golden_cycle); c++) {
        const struct golden_cycle *golden = &golden_cycle[c];
        const uint64_t total = (uint64_t)golden->total;
        tg_lr_schedule *s;
        assert_int_equal(tg_lr_schedule_create(golden->spec, 0.8, total, 0, &s), TG_OK);
        for (uint64_t t = 0; t < total; t++)
            if (!(fabs(tg_lr_schedule_at(s, t) - golden->lr[t]) <= 1e-15))
                fail_msg("%s of %d, step %d: %.17g is not %.17g", golden->spec, golden->total,
                         (int)t, tg_lr_schedule_at(s, t), golden->lr[t]);
        tg_lr_schedule_destroy(s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(sequences), cmocka_unit_test(cycles)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
