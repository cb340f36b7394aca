/* Kernels on several cores give the bits of one core: sums over more chunks than one batch, and
 * vectors with elements that are not finite. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "each_level.h"
#include "kernel/parallel.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static float *numbers(size_t n)
{
    float *x = malloc((n + 1) * sizeof *x);
    uint32_t state = 7;
    assert_non_null(x);
    for (size_t i = 0; i < n; i++) {
        state = state * UINT32_C(1664525) + UINT32_C(1013904223);
        x[i] = ((float)(state >> 8) * 0x1p-23f - 1) * (i % 999 == 0 ? 1e20f : 1e-3f);
    }
    return x;
}

static void check_stats(tg__pool *pool, const float *x, float *dst, size_t n)
{
    tg__stats one, many;
    tg__kernel()->copy_stats(NULL, x, n, &one);
    if (dst)
        memset(dst, 0, n * sizeof *dst);
    tg__parallel_copy_stats(pool, dst, x, n, &many);
    assert_memory_equal(&one.sum_sq, &many.sum_sq, sizeof one.sum_sq);
    assert_memory_equal(&one.sum_abs, &many.sum_abs, sizeof one.sum_abs);
    assert_int_equal(one.finite, many.finite);
    if (dst && n > 0)
        assert_memory_equal(dst, x, n * sizeof *dst);
}

static void stats(void **state)
{
    (void)state;
    static const size_t ns[] = {
        0, 1, TG__CHUNK, TG__CHUNK + 1, 300000, 129 * (size_t)TG__CHUNK + 5};
    tg__pool *pool = NULL;
    assert_int_equal(tg__pool_create(3, &pool), TG_OK);
    for (size_t k = 0; k < sizeof ns / sizeof *ns; k++) {
        size_t n = ns[k];
        float *x = numbers(n), *dst = malloc((n + 1) * sizeof *dst);
        check_stats(pool, x, dst, n);
        check_stats(NULL, x, dst, n);
        if (n > 0) {
            x[n - 1] = INFINITY;
            check_stats(pool, x, NULL, n);
            x[n / 2] = NAN;
            check_stats(pool, x, dst, n);
        }
        free(x);
        free(dst);
    }
    tg__pool_destroy(pool);
}

static void vectors(void **state)
{
    (void)state;
    enum { N = 200003 };
    tg__pool *pool = NULL;
    assert_int_equal(tg__pool_create(3, &pool), TG_OK);
    float *x = numbers(N), *a = numbers(N), *b = numbers(N);
    tg__parallel_add(pool, a, x, N);
    tg__kernel()->add(b, x, N);
    assert_memory_equal(a, b, N * sizeof *a);
    tg__parallel_sub(pool, a, x, N);
    tg__kernel()->sub(b, x, N);
    assert_memory_equal(a, b, N * sizeof *a);
    tg__parallel_copy(pool, a, x, N);
    assert_memory_equal(a, x, N * sizeof *a);
    tg__pool_destroy(pool);
    free(x);
    free(a);
    free(b);
}

int main(void)
{
    each_level();
    const struct CMUnitTest tests[] = {cmocka_unit_test(stats), cmocka_unit_test(vectors)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
