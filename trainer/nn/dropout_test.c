/* Dropout's masks: how many elements they keep, what they depend on, and that they are
 * repeatable. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include "trainer/nn/dropout.h"
#include "telegrad/tools.h"

#define OK(expr) assert_int_equal((expr), TG_OK)

static void test_dropout(void **state)
{
    (void)state;
    enum { N = 100003 };
    tg_rng_key key = {.seed = 1, .purpose = TG_PURPOSE_DROPOUT, .rank = 2, .step = 3, .tensor = 4};
    uint8_t *keep, *other;
    float *x, *y;
    OK(tg_alloc(N, sizeof *x, &x));
    for (size_t i = 0; i < N; i++)
        x[i] = (float)i - 50000;
    OK(tg_alloc(N, 1, &keep));
    OK(tg_alloc(N, 1, &other));
    OK(tg_alloc(N, sizeof *y, &y));
    static const double ps[] = {0.1, 0.5, 0.999999};
    for (size_t i = 0; i < TG_COUNT(ps); i++) {
        nn_dropout_draw(&key, ps[i], N, keep);
        size_t kept = 0;
        for (size_t k = 0; k < N; k++)
            kept += keep[k];
        assert_true(fabs((double)kept / N - (1 - ps[i])) < 0.006);
        nn_dropout_apply(ps[i], N, keep, x, y);
        for (size_t k = 0; k < N; k++) {
            if (!keep[k])
                assert_true(y[k] == 0);
            else if (ps[i] == 0.5)
                assert_true(y[k] == 2 * x[k]);
        }
    }
    /* The same mask again, also for fewer elements; another one for another step, rank or layer. */
    nn_dropout_draw(&key, 0.5, N, keep);
    nn_dropout_draw(&key, 0.5, 1001, other);
    assert_memory_equal(keep, other, 1001);
    for (int what = 0; what < 3; what++) {
        tg_rng_key changed = key;
        changed.step += what == 0;
        changed.rank += what == 1;
        changed.tensor += what == 2;
        nn_dropout_draw(&changed, 0.5, N, other);
        size_t same = 0;
        for (size_t k = 0; k < N; k++)
            same += keep[k] == other[k];
        assert_true(fabs((double)same / N - 0.5) < 0.01);
    }
    free(keep), free(other), free(x), free(y);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_dropout)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
