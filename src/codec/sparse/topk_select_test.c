/* Exact top-k, compared with sorting: every distribution, with and without hints, however wrong the
 * threshold is. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/mem.h"
#include "codec/sparse/topk_select.h"
#include "each_level.h"
#include "vectors.h"
#include <stdatomic.h>
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

/* After sort(n): mark the k elements to choose; returns how many of them are not 0. */
static size_t mark(size_t n, size_t k)
{
    memset(chosen, 0, n);
    size_t count = 0;
    for (; count < k && x[order[count]] != 0; count++)
        chosen[order[count]] = 1;
    return count;
}

static size_t peeks;
static atomic_size_t passed;
static tg__pool *pool; /* of three threads */

/* A vector's selector with its hint. */
typedef struct selector {
    tg__topk t;
    tg__topk_hint hint;
} selector;
static bool in_order; /* the current selector has no pool */

static float peek(const tg__source *s, size_t i)
{
    peeks++;
    return s->x[i];
}

/* Called for consecutive ranges, unless by several threads. */
static size_t pass(const tg__source *s, size_t begin, size_t m, float threshold, uint32_t *idx,
                   float *val, size_t cap)
{
    if (in_order)
        assert_int_equal(begin, passed);
    atomic_fetch_add(&passed, m);
    return tg__kernel()->select(s->x + begin, m, threshold, idx, val, cap);
}

static const tg__source source = {.x = x, .peek = peek, .pass = pass};

static tg_status select_into(selector *sel, size_t n, size_t k, size_t *count_p)
{
    tg__topk *t = &sel->t;
    in_order = !t->pool;
    passed = 0;
    peeks = 0;
    TG_TRY(tg__topk_reserve(t, tg__topk_room(t, n, k)));
    tg_status status = tg__topk_select(t, &sel->hint, &source, 0, n, k);
    *count_p = t->count;
    assert_int_equal(passed, n);
    assert_true(peeks <= 65536);
    return status;
}

static void check(selector *sel, size_t n, size_t k, size_t want)
{
    const tg__topk *t = &sel->t;
    size_t count;
    assert_int_equal(select_into(sel, n, k, &count), TG_OK);
    assert_int_equal(count, want);
    for (size_t i = 0; i < count; i++) {
        assert_true(t->idx[i] < n && (i == 0 || t->idx[i] > t->idx[i - 1]));
        assert_true(chosen[t->idx[i]]);
        assert_memory_equal(&t->val[i], &x[t->idx[i]], sizeof(float));
    }
}

/* One selector is used for everything (its hints are stale, or close); another is always new. */
static void equals_sorting(void **state)
{
    (void)state;
    static const size_t ns[] = {1, 2, 33, 1000, 70000, MAX_N};
    selector hinted = {0}, shared = {.t.pool = pool};
    for (size_t i = 0; i < TG_COUNT(ns); i++) {
        size_t n = ns[i], ks[] = {1, n / 1000, n / 100, n / 4, n / 2, n - 1, n};
        for (unsigned v = 0; v < TEST_VECTORS; v++) {
            test_vector(x, n, (enum test_vector)v, i);
            sort(n);
            for (size_t j = 0; j < TG_COUNT(ks); j++) {
                size_t k = TG__MAX(ks[j], (size_t)1), want = mark(n, k);
                selector fresh = {0};
                check(&fresh, n, k, want);
                check(&fresh, n, k, want); /* with the hint of the same vector */
                check(&hinted, n, k, want);
                check(&shared, n, k, want);
                tg__topk_free(&fresh.t);
            }
        }
    }
    tg__topk_free(&hinted.t);
    tg__topk_free(&shared.t);
}

/* The same k on a vector that changes: slowly, by a factor, in its shape. */
static void hints_never_change_the_result(void **state)
{
    (void)state;
    static const float factors[] = {1, 1.01f, 0.98f, 1000, 1e-4f, 1.5f, 0.5f, 1, 1e-20f, 1e20f};
    size_t n = 100000, ks[] = {100, 5000, 40000};
    for (size_t j = 0; j < TG_COUNT(ks); j++) {
        selector t = {0}, shared = {.t.pool = pool};
        size_t k = ks[j];
        for (size_t step = 0; step < 24; step++) {
            test_vector(x, n, step < 14 ? TEST_GRADIENT : (enum test_vector)(step % TEST_VECTORS),
                        step);
            for (size_t i = 0; i < n; i++)
                x[i] *= factors[step % TG_COUNT(factors)];
            sort(n);
            check(&t, n, k, mark(n, k));
            check(&shared, n, k, mark(n, k));
        }
        tg__topk_free(&t.t);
        tg__topk_free(&shared.t);
    }
}

/* Far more candidates than expected, all nearly equal, with the largest anywhere: thresholds rise
 * during the pass. */
static void a_flood_of_candidates(void **state)
{
    (void)state;
    size_t n = 100000, ks[] = {100, 5000, 20000};
    for (size_t j = 0; j < TG_COUNT(ks); j++) {
        selector t = {0}, shared = {.t.pool = pool};
        for (uint32_t step = 0; step < 6; step++) {
            for (size_t i = 0; i < n; i++) {
                uint32_t value = (uint32_t)i * 7919 % (step % 2 ? 10007 : 101);
                x[i] = (1 + 0x1p-23f * (float)value) * (step % 3 ? 1.0f : 1e-3f);
            }
            sort(n);
            check(&t, n, ks[j], mark(n, ks[j]));
            check(&shared, n, ks[j], mark(n, ks[j]));
        }
        tg__topk_free(&t.t);
        tg__topk_free(&shared.t);
    }
}

/* An unchanged vector needs only one pass: the hint is used and good. */
static void a_good_hint_needs_no_sample(void **state)
{
    (void)state;
    size_t n = MAX_N, k = 200, count;
    selector t = {0}, shared = {.t.pool = pool};
    for (size_t step = 0; step < 5; step++) {
        test_vector(x, n, TEST_GRADIENT, step);
        assert_int_equal(select_into(&t, n, k, &count), TG_OK);
        assert_int_equal(count, k);
        assert_true(step == 0 ? peeks > 0 : peeks == 0);
        float least = INFINITY;
        for (size_t i = 0; i < k; i++)
            least = fminf(least, fabsf(t.t.val[i]));
        assert_true(t.hint.threshold > 0.6f * least && t.hint.threshold < least);
    }
    tg__topk_free(&t.t);
    tg__topk_free(&shared.t);
}

/* Scores decide, and values are those of the vector, zeros too. The scores are x, which sort()
 * sorts, and the vector is y. */
static float y[MAX_N];

static size_t scores(const tg__source *s, size_t begin, size_t m, float threshold, uint32_t *idx,
                     float *val, size_t cap)
{
    assert_ptr_equal(s->x, y);
    return tg__kernel()->select(x + begin, m, threshold, idx, val, cap);
}

static size_t scores_once(const tg__source *s, size_t begin, size_t m, float threshold,
                          uint32_t *idx, float *val, size_t cap)
{
    atomic_fetch_add(&passed, m);
    return scores(s, begin, m, threshold, idx, val, cap);
}

static float score(const tg__source *s, size_t i)
{
    assert_ptr_equal(s->x, y);
    return x[i];
}

static void scores_decide(void **state)
{
    (void)state;
    static const size_t ns[] = {1, 1000, MAX_N}, shares[] = {1000, 100, 3, 1};
    const tg__source scored = {
        .x = y, .ahead = 2, .peek = score, .pass = scores_once, .again = scores};
    selector both[2] = {{.t.pool = NULL}, {.t.pool = pool}};
    for (size_t i = 0; i < TG_COUNT(ns); i++) {
        for (unsigned v = 0; v < TEST_VECTORS; v++) {
            test_vector(x, ns[i], (enum test_vector)v, i);
            test_vector(y, ns[i], TEST_GRADIENT, v);
            sort(ns[i]);
            for (size_t j = 0; j < ns[i]; j += 3)
                y[order[j]] = 0;
            for (size_t j = 0; j < 2 * TG_COUNT(shares); j++) {
                selector *sel = &both[j % 2];
                passed = 0;
                const size_t k = TG__MAX(ns[i] / shares[j / 2], (size_t)1);
                assert_int_equal(tg__topk_reserve(&sel->t, tg__topk_room(&sel->t, ns[i], k)),
                                 TG_OK);
                assert_int_equal(tg__topk_select(&sel->t, &sel->hint, &scored, 0, ns[i], k), TG_OK);
                size_t seen = 0;
                assert_int_equal(passed, ns[i]);
                assert_int_equal(sel->t.count, mark(ns[i], k));
                for (size_t e = 0; e < ns[i]; e++) {
                    if (!chosen[e])
                        continue;
                    assert_int_equal(sel->t.idx[seen], e);
                    assert_memory_equal(&sel->t.val[seen++], &y[e], sizeof(float));
                }
            }
        }
    }
    tg__topk_free(&both[0].t);
    tg__topk_free(&both[1].t);
}

/* An infinite element is found, though finite ones have infinite scores, and a NaN that an old hint
 * passes over. */
static void scores_hide_nothing(void **state)
{
    (void)state;
    enum { FEW = 1000 };
    const tg__source scored = {.x = y, .ahead = 2, .peek = score, .pass = scores, .again = scores};
    selector sel = {0};
    assert_int_equal(tg__topk_reserve(&sel.t, tg__topk_room(&sel.t, FEW, 1)), TG_OK);
    for (size_t i = 0; i < FEW; i++)
        x[i] = y[i] = 1;
    x[5] = x[9] = INFINITY;
    y[5] = 3e38f;
    assert_int_equal(tg__topk_select(&sel.t, &sel.hint, &scored, 0, FEW, 1), TG_OK);
    assert_int_equal(sel.t.idx[0], 5);
    sel.t.count = 0;
    y[9] = INFINITY;
    assert_int_equal(tg__topk_select(&sel.t, &sel.hint, &scored, 0, FEW, 1), TG_E_NONFINITE);
    sel.t.count = 0;
    x[5] = x[9] = y[9] = 1;
    x[7] = y[7] = NAN;
    sel.hint = (tg__topk_hint){.threshold = 100, .n = FEW, .k = 1};
    assert_int_equal(tg__topk_select(&sel.t, &sel.hint, &scored, 0, FEW, 1), TG_E_NONFINITE);
    tg__topk_free(&sel.t);
}

static void infinities_are_refused(void **state)
{
    (void)state;
    static const size_t ns[] = {10, 1000, MAX_N};
    for (size_t i = 0; i < TG_COUNT(ns); i++) {
        selector t = {0}, shared = {.t.pool = pool};
        size_t n = ns[i], count;
        for (size_t step = 0; step < 3; step++) {
            test_vector(x, n, TEST_GRADIENT, i);
            x[n / 2] = step == 1 ? -INFINITY : 1;
            assert_int_equal(select_into(&t, n, 3, &count), step == 1 ? TG_E_NONFINITE : TG_OK);
        }
        for (size_t j = 0; j < n; j++) /* the threshold is too high, and the second pass sees NaN */
            x[j] = NAN;
        assert_int_equal(select_into(&t, n, 3, &count), TG_E_NONFINITE);
        tg__topk_free(&t.t);
        tg__topk_free(&shared.t);
    }
}

/* Consecutive selections into the same scratch: ranges of one vector. */
static void ranges_are_appended(void **state)
{
    (void)state;
    static const size_t begin[] = {0, 1, 5, 40000, 40000, MAX_N}, ks[] = {1, 2, 400, 0, 30000};
    tg__topk t = {0};
    tg__topk_hint hints[5] = {{0}};
    for (size_t round = 0; round < 3; round++) {
        size_t room = 0, total = 0;
        test_vector(x, MAX_N, TEST_GRADIENT, round);
        t.pool = round == 2 ? pool : NULL;
        for (size_t i = 0; i < 5; i++) {
            room = TG__MAX(room, total + tg__topk_room(&t, begin[i + 1] - begin[i], ks[i]));
            total += ks[i];
        }
        assert_int_equal(tg__topk_reserve(&t, room), TG_OK);
        in_order = !t.pool;
        passed = 0;
        for (size_t i = 0, at = 0; i < 5; at += ks[i++]) {
            size_t n = begin[i + 1] - begin[i];
            if (n == 0)
                continue;
            assert_int_equal(tg__topk_select(&t, &hints[i], &source, begin[i], n, ks[i]), TG_OK);
            assert_int_equal(t.count, at + ks[i]);
            selector alone = {0};
            tg__source part = source;
            part.x = x + begin[i];
            bool was = in_order;
            size_t so_far = passed;
            in_order = false;
            assert_int_equal(tg__topk_reserve(&alone.t, tg__topk_room(&alone.t, n, ks[i])), TG_OK);
            assert_int_equal(tg__topk_select(&alone.t, &alone.hint, &part, 0, n, ks[i]), TG_OK);
            in_order = was;
            passed = so_far;
            for (size_t j = 0; j < ks[i]; j++)
                assert_int_equal(t.idx[at + j], alone.t.idx[j] + begin[i]);
            assert_memory_equal(t.val + at, alone.t.val, ks[i] * sizeof(float));
            tg__topk_free(&alone.t);
        }
    }
    tg__topk_free(&t);
}

/* Many pieces: too many candidates in some of them, ties across them. Sorting is tested above. */
static void threads_give_the_same(void **state)
{
    (void)state;
    enum { N = 700001 };
    float *big;
    assert_int_equal(tg_alloc(N, sizeof(*big), &big), TG_OK);
    tg__source whole = {.x = big, .peek = peek, .pass = pass};
    static const size_t ks[] = {1, 700, 7000, 300000, N};
    for (unsigned v = 0; v < TEST_VECTORS; v++) {
        test_vector(big, N, (enum test_vector)v, v);
        for (size_t i = 0; v == TEST_GRADIENT && i < 100000; i++)
            /* where nearly all of the largest elements are */
            big[300000 + i] *= 1 + (float)(i % 300);
        for (size_t i = 0; i < TG_COUNT(ks); i++) {
            selector one = {0}, several = {.t.pool = pool};
            in_order = false;
            for (int again = 0; again < 2; again++) {
                selector *both[] = {&one, &several};
                for (size_t j = 0; j < 2; j++) {
                    tg__topk *t = &both[j]->t;
                    assert_int_equal(tg__topk_reserve(t, tg__topk_room(t, N, ks[i])), TG_OK);
                    assert_int_equal(tg__topk_select(t, &both[j]->hint, &whole, 0, N, ks[i]),
                                     TG_OK);
                }
                assert_int_equal(one.t.count, several.t.count);
                assert_memory_equal(one.t.idx, several.t.idx, one.t.count * sizeof(uint32_t));
                assert_memory_equal(one.t.val, several.t.val, one.t.count * sizeof(float));
            }
            tg__topk_free(&one.t);
            tg__topk_free(&several.t);
        }
    }
    free(big);
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

int main(void)
{
    each_level();
    if (tg__pool_create(3, &pool) != TG_OK)
        return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_sorting),         cmocka_unit_test(hints_never_change_the_result),
        cmocka_unit_test(a_flood_of_candidates),  cmocka_unit_test(a_good_hint_needs_no_sample),
        cmocka_unit_test(infinities_are_refused), cmocka_unit_test(counts),
        cmocka_unit_test(ranges_are_appended),    cmocka_unit_test(threads_give_the_same),
        cmocka_unit_test(scores_decide),          cmocka_unit_test(scores_hide_nothing),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    tg__pool_destroy(pool);
    return failed;
}
