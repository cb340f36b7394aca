/* RedSync's selection: a search worked out by hand; k to 2 k of the largest for every distribution;
 * the same on several cores and at every level; all values equal; after other tensors. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/mem.h"
#include "codec/sparse/trimmed_select.h"
#include "each_level.h"
#include "vectors.h"

enum { MAX_N = 150000 };

static float x[MAX_N];
static size_t passed;

static float peek(const tg__source *s, size_t i)
{
    return s->x[i];
}

static size_t pass(const tg__source *s, size_t begin, size_t m, float threshold, uint32_t *idx,
                   float *val, size_t cap)
{
    __atomic_fetch_add(&passed, m, __ATOMIC_RELAXED);
    return tg__kernel()->select(s->x + begin, m, threshold, idx, val, cap);
}

static const tg__source source = {.x = x, .peek = peek, .pass = pass};

static tg_status take(tg__topk *t, size_t lo, size_t n, size_t k)
{
    tg__topk_hint hint = {0};
    passed = 0;
    const tg_status status = tg__trimmed_select(t, &hint, &source, lo, n, k);
    assert_int_equal(passed, n);
    return status;
}

/* Magnitudes 1 to 100, of either sign: mean 50.5; at ratio 0.8 the threshold is 90.1. */
static void by_hand(void **state)
{
    static const struct {
        size_t k, taken;
    } cases[] = {
        {10, 10},  /* 91 to 100 */
        {5, 10},   /* the same, 2 k */
        {4, 5},    /* 0.9: 95.05 */
        {3, 5},    /* the same */
        {2, 3},    /* 0.95: 97.525 */
        {1, 2},    /* 0.95 has 3; 0.975: 98.7625 */
        {11, 20},  /* 0.6: 80.2 */
        {21, 30},  /* 0.4: 70.3 */
        {50, 50},  /* 0: 50.5 */
        {51, 51},  /* fewer reach the mean: the 51 largest */
        {100, 100} /* all */
    };
    (void)state;
    for (size_t c = 0; c < TG_COUNT(cases); c++) {
        tg__topk t = {0};
        for (size_t i = 0; i < 100; i++)
            x[i] = i % 2 == 0 ? (float)(i * 37 % 100 + 1) : -(float)(i * 37 % 100 + 1);
        assert_int_equal(tg__topk_reserve(&t, tg__topk_room(&t, 100, cases[c].k)), TG_OK);
        assert_int_equal(take(&t, 0, 100, cases[c].k), TG_OK);
        assert_int_equal(t.count, cases[c].taken);
        for (size_t i = 0; i < t.count; i++)
            assert_true(fabsf(t.val[i]) > (float)(100 - t.count));
        tg__topk_free(&t);
    }
}

static size_t nonzero(size_t n)
{
    size_t count = 0;
    for (size_t i = 0; i < n; i++)
        count += x[i] != 0;
    return count;
}

/* Ascending, with their values; none that is left is larger than one that was taken. */
static void check(const tg__topk *t, size_t n, size_t k)
{
    const size_t count = nonzero(n);
    float least = HUGE_VALF, left = 0;
    assert_true(t->count >= TG__MIN(k, count) && t->count <= tg__trimmed_most(n, k));
    for (size_t i = 0, at = 0; i < n; i++) {
        const bool taken = at < t->count && t->idx[at] == i;
        if (taken) {
            assert_true(x[i] != 0);
            assert_memory_equal(&t->val[at], &x[i], sizeof(float));
            at++;
            least = fminf(least, fabsf(x[i]));
        } else {
            left = fmaxf(left, fabsf(x[i]));
        }
        assert_true(i + 1 < n || at == t->count);
    }
    assert_true(left <= least);
}

/* The hash of all selections is that of the reference kernels. */
static void every_distribution(void **state)
{
    static const size_t ns[] = {1, 2, 33, 1000, 70000, MAX_N};
    tg__pool *pool = NULL;
    uint64_t hash = TG_HASH_START;
    (void)state;
    assert_int_equal(tg__pool_create(3, &pool), TG_OK);
    for (size_t i = 0; i < TG_COUNT(ns); i++) {
        const size_t n = ns[i], ks[] = {1, n / 1000, n / 100, n / 4, n / 2, n - 1, n};
        for (unsigned v = 0; v < TEST_VECTORS; v++) {
            test_vector(x, n, (enum test_vector)v, i);
            for (size_t j = 0; j < TG_COUNT(ks); j++) {
                const size_t k = TG__MAX(ks[j], (size_t)1);
                tg__topk one = {0}, several = {.pool = pool};
                assert_int_equal(tg__topk_reserve(&one, tg__topk_room(&one, n, k)), TG_OK);
                assert_int_equal(tg__topk_reserve(&several, tg__topk_room(&several, n, k)), TG_OK);
                assert_int_equal(take(&one, 0, n, k), TG_OK);
                assert_int_equal(take(&several, 0, n, k), TG_OK);
                check(&one, n, k);
                assert_int_equal(one.count, several.count);
                assert_memory_equal(one.idx, several.idx, one.count * sizeof *one.idx);
                hash = tg_hash(hash, one.idx, one.count * sizeof *one.idx);
                tg__topk_free(&one);
                tg__topk_free(&several);
            }
        }
    }
    assert_int_equal(hash, UINT64_C(0xca889a36ecc9811b));
    tg__pool_destroy(pool);
}

/* No threshold lies between the mean and the maximum: the first k. */
static void all_equal(void **state)
{
    (void)state;
    for (size_t k = 1; k <= 1000; k += 111) {
        tg__topk t = {0};
        for (size_t i = 0; i < 1000; i++)
            x[i] = i % 3 == 0 ? -0.1f : 0.1f;
        assert_int_equal(tg__topk_reserve(&t, tg__topk_room(&t, 1000, k)), TG_OK);
        assert_int_equal(take(&t, 0, 1000, k), TG_OK);
        assert_true(t.count == k || (k >= 500 && t.count == 1000));
        for (size_t i = 0; i < t.count; i++)
            assert_int_equal(t.idx[i], i);
        tg__topk_free(&t);
    }
}

/* Selections of several tensors follow each other. */
static void ranges_are_appended(void **state)
{
    tg__topk t = {0};
    (void)state;
    test_vector(x, 3000, TEST_GRADIENT, 4);
    assert_int_equal(tg__topk_reserve(&t, 100 + tg__topk_room(&t, 2000, 50)), TG_OK);
    assert_int_equal(take(&t, 0, 1000, 20), TG_OK);
    const size_t first = t.count;
    assert_int_equal(take(&t, 1000, 2000, 50), TG_OK);
    assert_true(first >= 20 && first <= 40 && t.count >= first + 50 && t.count <= first + 100);
    for (size_t i = 0; i < t.count; i++) {
        assert_true((t.idx[i] < 1000) == (i < first));
        assert_true(t.val[i] == x[t.idx[i]]);
    }
    tg__topk_free(&t);
}

static void refused(void **state)
{
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    (void)state;
    for (size_t i = 0; i < TG_COUNT(bad); i++) {
        tg__topk t = {0};
        test_vector(x, 1000, TEST_GRADIENT, 4);
        x[777] = bad[i];
        assert_int_equal(tg__topk_reserve(&t, tg__topk_room(&t, 1000, 20)), TG_OK);
        assert_int_equal(take(&t, 0, 1000, 20), TG_E_NONFINITE);
        tg__topk_free(&t);
    }
}

int main(void)
{
    each_level();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_hand),   cmocka_unit_test(every_distribution),
        cmocka_unit_test(all_equal), cmocka_unit_test(ranges_are_appended),
        cmocka_unit_test(refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
