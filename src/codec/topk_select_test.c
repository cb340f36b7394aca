/* Exact top-k against sorting: every distribution, with and without hints, however the threshold
 * misses. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/mem.h"
#include "codec/topk_select.h"
#include "each_level.h"
#include "vectors.h"
#include <stdlib.h>
#include <string.h>

enum { MAX_N = 150000 };

static float x[MAX_N];
static uint32_t order[MAX_N];
static uint8_t chosen[MAX_N];

static int larger_first(const void *a, const void *b)
{
    uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;
    float xi = fabsf(x[i]), xj = fabsf(x[j]);
    return xi > xj ? -1 : xi < xj ? 1 : i < j ? -1 : i > j;
}

static void sort(size_t n)
{
    for (size_t i = 0; i < n; i++)
        order[i] = (uint32_t)i;
    qsort(order, n, sizeof(order[0]), larger_first);
}

/* After sort(n): mark the k to choose; how many of them are not 0. */
static size_t mark(size_t n, size_t k)
{
    memset(chosen, 0, n);
    size_t count = 0;
    for (; count < k && x[order[count]] != 0; count++)
        chosen[order[count]] = 1;
    return count;
}

static size_t passed, peeks;

static float peek(const tg__topk_source *s, size_t i)
{
    peeks++;
    return s->x[i];
}

/* Called for ranges that follow each other. */
static size_t pass(const tg__topk_source *s, size_t begin, size_t m, float threshold, uint32_t *idx,
                   float *val, size_t cap)
{
    assert_int_equal(begin, passed);
    passed += m;
    return tg__kernel()->select(s->x + begin, m, threshold, idx, val, cap);
}

static const tg__topk_source source = {.x = x, .peek = peek, .pass = pass};

static tg_status select_into(tg__topk *t, size_t n, size_t k, size_t *count_p)
{
    passed = 0;
    peeks = 0;
    TG_TRY(tg__topk_reserve(t, n, k));
    tg_status status = tg__topk_select(t, &source, n, k, count_p);
    assert_int_equal(passed, n);
    assert_true(peeks <= 65536);
    return status;
}

static void check(tg__topk *t, size_t n, size_t k, size_t want)
{
    size_t count;
    assert_int_equal(select_into(t, n, k, &count), TG_OK);
    assert_int_equal(count, want);
    for (size_t i = 0; i < count; i++) {
        assert_true(t->idx[i] < n && (i == 0 || t->idx[i] > t->idx[i - 1]));
        assert_true(chosen[t->idx[i]]);
        assert_memory_equal(&t->val[i], &x[t->idx[i]], sizeof(float));
    }
}

/* One selector goes through everything (its hints are stale, or close); another is always fresh. */
static void equals_sorting(void **state)
{
    (void)state;
    static const size_t ns[] = {1, 2, 33, 1000, 70000, MAX_N};
    tg__topk hinted = {0};
    for (size_t i = 0; i < TG__COUNT(ns); i++) {
        size_t n = ns[i], ks[] = {1, n / 1000, n / 100, n / 4, n / 2, n - 1, n};
        for (unsigned v = 0; v < TEST_VECTORS; v++) {
            test_vector(x, n, (enum test_vector)v, i);
            sort(n);
            for (size_t j = 0; j < TG__COUNT(ks); j++) {
                size_t k = TG__MAX(ks[j], (size_t)1), want = mark(n, k);
                tg__topk fresh = {0};
                check(&fresh, n, k, want);
                check(&fresh, n, k, want); /* the hint of the very same vector */
                check(&hinted, n, k, want);
                tg__topk_free(&fresh);
            }
        }
    }
    tg__topk_free(&hinted);
}

/* The same k over a vector that changes: slowly, by a factor, in its shape. */
static void hints_never_change_the_result(void **state)
{
    (void)state;
    static const float factors[] = {1, 1.01f, 0.98f, 1000, 1e-4f, 1.5f, 0.5f, 1, 1e-20f, 1e20f};
    size_t n = 100000, ks[] = {100, 5000, 40000};
    for (size_t j = 0; j < TG__COUNT(ks); j++) {
        tg__topk t = {0};
        size_t k = ks[j];
        for (size_t step = 0; step < 24; step++) {
            test_vector(x, n, step < 14 ? TEST_GRADIENT : (enum test_vector)(step % TEST_VECTORS),
                        step);
            for (size_t i = 0; i < n; i++)
                x[i] *= factors[step % TG__COUNT(factors)];
            sort(n);
            check(&t, n, k, mark(n, k));
        }
        tg__topk_free(&t);
    }
}

/* Far more candidates than expected, all nearly equal, the largest anywhere: thresholds that rise
 * on the way. */
static void a_flood_of_candidates(void **state)
{
    (void)state;
    size_t n = 100000, ks[] = {100, 5000, 20000};
    for (size_t j = 0; j < TG__COUNT(ks); j++) {
        tg__topk t = {0};
        for (uint32_t step = 0; step < 6; step++) {
            for (size_t i = 0; i < n; i++) {
                uint32_t value = (uint32_t)i * 7919 % (step % 2 ? 10007 : 101);
                x[i] = (1 + 0x1p-23f * (float)value) * (step % 3 ? 1.0f : 1e-3f);
            }
            sort(n);
            check(&t, n, ks[j], mark(n, ks[j]));
        }
        tg__topk_free(&t);
    }
}

/* A steady vector is found in the one pass: the hint is used and good. */
static void a_good_hint_needs_no_sample(void **state)
{
    (void)state;
    size_t n = MAX_N, k = 200, count;
    tg__topk t = {0};
    for (size_t step = 0; step < 5; step++) {
        test_vector(x, n, TEST_GRADIENT, step);
        assert_int_equal(select_into(&t, n, k, &count), TG_OK);
        assert_int_equal(count, k);
        assert_true(step == 0 ? peeks > 0 : peeks == 0);
        float least = INFINITY;
        for (size_t i = 0; i < k; i++)
            least = fminf(least, fabsf(t.val[i]));
        assert_true(t.hint > 0.6f * least && t.hint < least);
    }
    tg__topk_free(&t);
}

static void infinities_are_refused(void **state)
{
    (void)state;
    static const size_t ns[] = {10, 1000, MAX_N};
    for (size_t i = 0; i < TG__COUNT(ns); i++) {
        tg__topk t = {0};
        size_t n = ns[i], count;
        for (size_t step = 0; step < 3; step++) {
            test_vector(x, n, TEST_GRADIENT, i);
            x[n / 2] = step == 1 ? -INFINITY : 1;
            assert_int_equal(select_into(&t, n, 3, &count), step == 1 ? TG_E_NONFINITE : TG_OK);
        }
        for (size_t j = 0; j < n; j++) /* the threshold misses, and the second look sees NaN */
            x[j] = NAN;
        assert_int_equal(select_into(&t, n, 3, &count), TG_E_NONFINITE);
        tg__topk_free(&t);
    }
}

static void counts(void **state)
{
    (void)state;
    assert_int_equal(tg__topk_count(0.01, 0), 0);
    assert_int_equal(tg__topk_count(0.01, 1), 1);
    assert_int_equal(tg__topk_count(0.01, 149), 1);
    assert_int_equal(tg__topk_count(0.01, 150), 2);
    assert_int_equal(tg__topk_count(0.5, 5), 3);
    assert_int_equal(tg__topk_count(1, 12345), 12345);
    assert_int_equal(tg__topk_count(0.9999999, 100), 100);
    assert_int_equal(tg__topk_count(1e-300, 100), 1);
}

int main(int argc, char **argv)
{
    (void)argc;
    each_level(argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_sorting),         cmocka_unit_test(hints_never_change_the_result),
        cmocka_unit_test(a_flood_of_candidates),  cmocka_unit_test(a_good_hint_needs_no_sample),
        cmocka_unit_test(infinities_are_refused), cmocka_unit_test(counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
