/* Columns become orthonormal, dependent ones 0; those are drawn again. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "kernel/kernel.h"
#include "method/orthonormalize.h"

#include <math.h>

static void columns_become_orthonormal(void **state)
{
    (void)state;
    enum { LEN = 300, COUNT = 6 };
    static float a[COUNT * LEN];
    const tg_rng_key key = {.seed = 2, .purpose = TG_PURPOSE_TEST};
    for (size_t i = 0; i < LEN; i++) {
        for (size_t k = 0; k < COUNT; k++)
            a[k * LEN + i] = (float)tg_rng_normal(&key, k * LEN + i);
        a[2 * LEN + i] = 3 * a[i] - a[LEN + i];         /* depends on the columns before */
        a[3 * LEN + i] = 0;                             /* zero */
        a[4 * LEN + i] = a[i] + 1e-4f * a[4 * LEN + i]; /* nearly dependent */
        a[5 * LEN + i] *= 1e-30f;                       /* tiny */
    }
    tg__orthonormalize(a, LEN, COUNT);
    for (size_t k = 0; k < COUNT; k++)
        for (size_t l = 0; l <= k; l++) {
            const double dot = tg__kernel()->dot(a + k * LEN, a + l * LEN, LEN);
            const bool zero = k == 2 || k == 3;
            assert_true(fabs(dot - (k == l && !zero)) < 1e-6);
        }
    tg__draw_zero_columns(a, LEN, COUNT, &key);
    for (size_t k = 0; k < COUNT; k++)
        for (size_t i = 0; i < LEN; i++) {
            const float drawn = (float)(2 * tg_rng_uniform(&key, k * LEN + i) - 1);
            assert_true((a[k * LEN + i] == drawn) == (k == 2 || k == 3));
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(columns_become_orthonormal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
