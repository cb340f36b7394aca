/* Philox4x32-10, compared with the known answers of Random123 (kat_vectors), and the draws derived
 * from it. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "base/mem.h"
#include "base/philox.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const tg_rng_key test_key = {.seed = 42, .purpose = TG_PURPOSE_TEST};

static void known_answers(void **state)
{
    (void)state;
    static const struct {
        uint32_t counter[4], key[2], want[4];
    } cases[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < TG_COUNT(cases); i++) {
        uint32_t out[4];
        tg__philox(cases[i].counter, cases[i].key, out);
        assert_memory_equal(out, cases[i].want, sizeof out);
        memcpy(out, cases[i].counter, sizeof out);
        tg__philox(out, cases[i].key, out); /* in place */
        assert_memory_equal(out, cases[i].want, sizeof out);
    }
}

static void block_is_philox_of_derived_key(void **state)
{
    (void)state;
    const tg_rng_key key = {.seed = UINT64_C(0x0123456789abcdef),
                            .purpose = TG_PURPOSE_CODEC,
                            .rank = 3,
                            .step = UINT64_C(0x100000002),
                            .tensor = 5};
    const uint32_t first[4] = {2, 1, TG_PURPOSE_CODEC, 3}, seed[2] = {0x89abcdef, 0x01234567};
    uint32_t a[4], b[4], want[4], got[4];
    tg__philox(first, seed, a);
    const uint32_t second[4] = {a[2], a[3], 5, 1};
    tg__philox(second, a, b);
    const uint32_t counter[4] = {7, 9, 0, 0};
    tg__philox(counter, b, want);
    tg_rng_block(&key, UINT64_C(0x900000007), got);
    assert_memory_equal(got, want, sizeof got);
    /* docs/wire-format.md */
    tg_rng_block(&(tg_rng_key){.seed = 7, .purpose = 4}, 0, got);
    const uint32_t documented[4] = {0x48af840e, 0x9bc2d6d5, 0xc1d85d4c, 0x54af92d5};
    assert_memory_equal(got, documented, sizeof got);
}

static void every_field_counts(void **state)
{
    (void)state;
    tg_rng_key keys[] = {test_key, test_key, test_key, test_key,
                         test_key, test_key, test_key, test_key};
    keys[1].seed ^= 1;
    keys[2].seed ^= UINT64_C(1) << 63;
    keys[3].purpose = TG_PURPOSE_CODEC;
    keys[4].rank = 1;
    keys[5].step = 1;
    keys[6].step = UINT64_C(1) << 32;
    keys[7].tensor = 1;
    for (size_t i = 0; i < TG_COUNT(keys); i++) {
        uint32_t x[4], y[4];
        tg_rng_block(&keys[i], 0, x);
        for (size_t j = 0; j < i; j++) {
            tg_rng_block(&keys[j], 0, y);
            assert_memory_not_equal(x, y, sizeof x);
        }
        tg_rng_block(&keys[i], UINT64_C(1) << 32, y);
        assert_memory_not_equal(x, y, sizeof x);
    }
}

static void unit_interval(void **state)
{
    (void)state;
    assert_true(tg__unit(0, 0) == 0.0);
    assert_true(tg__unit(UINT32_MAX, UINT32_MAX) == 1.0 - 0x1p-53);
    assert_true(tg__unit(0, UINT32_C(0x80000000)) == 0.5);
    assert_true(tg__unit(1u << 11, 0) == 0x1p-53);
}

/* The key is fixed, so there is no chance involved: the bounds are about five standard errors. */
static void moments(void **state)
{
    (void)state;
    enum { N = 200000 };
    double u1 = 0, u2 = 0, z1 = 0, z2 = 0, z4 = 0, zz = 0, last = 0;
    for (uint64_t i = 0; i < N; i++) {
        double u = tg_rng_uniform(&test_key, i), z = tg_rng_normal(&test_key, i);
        assert_true(u >= 0 && u < 1 && isfinite(z));
        u1 += u;
        u2 += u * u;
        z1 += z;
        z2 += z * z;
        z4 += z * z * z * z;
        zz += z * last;
        last = z;
    }
    const double s = 5 / sqrt(N);
    assert_true(fabs(u1 / N - 0.5) < 0.289 * s);
    assert_true(fabs(u2 / N - 1.0 / 3) < 0.299 * s);
    assert_true(fabs(z1 / N) < s);
    assert_true(fabs(z2 / N - 1) < 1.42 * s);
    assert_true(fabs(z4 / N - 3) < 9.8 * s);
    assert_true(fabs(zz / N) < s);
}

static void uniform_is_of_the_block(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 10; i++) {
        uint32_t w[4];
        tg_rng_block(&test_key, i, w);
        double u = tg_rng_uniform(&test_key, i);
        assert_true(u == ldexp((double)(((uint64_t)w[1] << 32 | w[0]) >> 11), -53));
    }
}

static void permutations(void **state)
{
    (void)state;
    enum { N = 1000 };
    uint32_t order[N], again[N];
    bool seen[N] = {0};
    tg_rng_permutation(&test_key, order, 0);
    order[0] = 9;
    tg_rng_permutation(&test_key, order, 1);
    assert_int_equal(order[0], 0);
    tg_rng_permutation(&test_key, order, N);
    tg_rng_permutation(&test_key, again, N);
    assert_memory_equal(order, again, sizeof order);
    size_t fixed = 0;
    for (size_t i = 0; i < N; i++) {
        assert_true(order[i] < N && !seen[order[i]]);
        seen[order[i]] = true;
        fixed += order[i] == i;
    }
    assert_true(fixed < 10); /* 1 is expected */
    tg_rng_key other = test_key;
    other.step = 1;
    tg_rng_permutation(&other, again, N);
    assert_memory_not_equal(order, again, sizeof order);
}

/* All six permutations of three are equally frequent. */
static void permutations_are_fair(void **state)
{
    (void)state;
    enum { N = 30000 };
    int counts[27] = {0};
    tg_rng_key key = test_key;
    for (uint32_t i = 0; i < N; i++) {
        uint32_t o[3];
        key.tensor = i;
        tg_rng_permutation(&key, o, 3);
        counts[o[0] * 9 + o[1] * 3 + o[2]]++;
    }
    size_t kinds = 0;
    for (size_t i = 0; i < TG_COUNT(counts); i++) {
        if (counts[i] == 0)
            continue;
        kinds++;
        assert_true(abs(counts[i] - N / 6) < 325); /* five standard deviations */
    }
    assert_int_equal(kinds, 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_answers),
        cmocka_unit_test(block_is_philox_of_derived_key),
        cmocka_unit_test(every_field_counts),
        cmocka_unit_test(unit_interval),
        cmocka_unit_test(moments),
        cmocka_unit_test(uniform_is_of_the_block),
        cmocka_unit_test(permutations),
        cmocka_unit_test(permutations_are_fair),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
