/* The order of samples, shared by all ranks or for one rank alone. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>
#include "trainer/data/order.h"
#include "telegrad/random.h"

#define OK(expr) assert_int_equal((expr), TG_OK)

static void test_shared(void **state)
{
    (void)state;
    enum { SAMPLES = 103, P = 3, BATCH = 4, PER_EPOCH = 8, ALL = P * BATCH };
    order *one, *many[P], *parts;
    OK(order_create(9, SAMPLES, 1, 0, ALL, 1, &one));
    OK(order_create(9, SAMPLES, P, 1, BATCH / 2, 2, &parts));
    for (int j = 0; j < P; j++)
        OK(order_create(9, SAMPLES, P, j, BATCH, 1, &many[j]));
    uint32_t first[PER_EPOCH * ALL], all[ALL], some[ALL];
    uint64_t pass[ALL];
    for (uint64_t epoch = 0; epoch < 2; epoch++) {
        bool seen[SAMPLES] = {false};
        bool same = true;
        for (uint64_t s = 0; s < PER_EPOCH; s++) {
            const uint64_t step = epoch * PER_EPOCH + s;
            order_batch(one, step, all, pass);
            for (int j = 0; j < P; j++)
                order_batch(many[j], step, some + j * BATCH, pass);
            assert_memory_equal(some, all, sizeof all);
            for (uint64_t part = 0; part < 2; part++) /* rank 1 takes a step in two batches */
                order_batch(parts, 2 * step + part, some + part * (BATCH / 2), pass);
            assert_memory_equal(some, all + BATCH, BATCH * sizeof *all);
            for (size_t i = 0; i < ALL; i++) {
                assert_in_range(all[i], 0, SAMPLES - 1);
                assert_false(seen[all[i]]);
                seen[all[i]] = true;
                same = same && epoch > 0 && first[s * ALL + i] == all[i];
                if (epoch == 0)
                    first[s * ALL + i] = all[i];
            }
            assert_int_equal(pass[0], epoch);
        }
        assert_false(same); /* every epoch has an order of its own */
    }
    const tg_rng_key key = {.seed = 9, .purpose = TG_PURPOSE_SHUFFLE, .step = 0};
    uint32_t perm[SAMPLES];
    tg_rng_permutation(&key, perm, SAMPLES);
    assert_memory_equal(first, perm, sizeof first);
    /* Out of order: a batch is a function of its number alone. */
    order_batch(one, 2, all, pass);
    assert_memory_equal(all, first + 2 * ALL, sizeof all);
    order_destroy(one);
    order_destroy(parts);
    for (int j = 0; j < P; j++)
        order_destroy(many[j]);
    assert_int_equal(order_create(9, SAMPLES, P, 0, 35, 1, &one), TG_E_ARG);
    assert_int_equal(order_create(9, SAMPLES, P, 0, 18, 2, &one), TG_E_ARG);
    assert_int_equal(order_create(9, SAMPLES, P, 0, 0, 1, &one), TG_E_ARG);
}

/* Each pass contains every sample once; a batch may continue into the next pass. */
static void test_own(void **state)
{
    (void)state;
    enum { N = 7, BATCH = 5, PASSES = 10 };
    const uint32_t own[N] = {3, 5, 8, 13, 21, 34, 55};
    uint32_t index[BATCH], again[BATCH], seen[PASSES][N], count[PASSES] = {0};
    uint64_t pass[BATCH];
    order *o, *other;
    OK(order_create_own(4, own, N, 1, BATCH, &o));
    OK(order_create_own(4, own, N, 2, BATCH, &other));
    bool same = true;
    for (uint64_t number = 0; number < N * PASSES / BATCH; number++) {
        order_batch(other, number, again, pass);
        order_batch(o, number, index, pass);
        same = same && memcmp(index, again, sizeof index) == 0;
        for (size_t i = 0; i < BATCH; i++)
            seen[pass[i]][count[pass[i]]++] = index[i];
    }
    assert_false(same);
    for (size_t p = 0; p < PASSES; p++) {
        assert_int_equal(count[p], N);
        uint64_t sum = 0;
        for (size_t i = 0; i < N; i++)
            sum += seen[p][i];
        assert_int_equal(sum, 3 + 5 + 8 + 13 + 21 + 34 + 55);
    }
    assert_true(memcmp(seen[0], seen[1], sizeof seen[0]) != 0);
    order_batch(o, 3, index, pass);
    assert_memory_equal(index, (const uint32_t *)seen + 3 * BATCH, sizeof index);
    order_destroy(o);
    order_destroy(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_shared), cmocka_unit_test(test_own)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
