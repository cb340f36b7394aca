/* The choice of chunks, compared with plain sorting; ties, and bits that no honest rank sends. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/mem.h"
#include "method/chunk_choice.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <vectors.h> /* tests */

enum { MAX = 300 };

/* ---- which ----------------------------------------------------------------------------------- */

static const float *compared;

/* Larger first, then the lower index. */
static int before(const void *a, const void *b)
{
    const uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;
    if (compared[i] != compared[j])
        return compared[i] > compared[j] ? -1 : 1;
    return i < j ? -1 : 1;
}

static int by_index(const void *a, const void *b)
{
    const uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;
    return (i > j) - (i < j);
}

static void check(const float *norm, size_t count, size_t k)
{
    uint32_t want[MAX], got[MAX + 1];
    for (uint32_t i = 0; i < count; i++)
        want[i] = i;
    compared = norm;
    qsort(want, count, sizeof *want, before);
    qsort(want, k, sizeof *want, by_index);
    got[k] = 12345;
    tg__chunks_choose(norm, count, k, got);
    assert_memory_equal(want, got, k * sizeof *want);
    assert_int_equal(got[k], 12345);
}

static void as_sorting_would(void **state)
{
    float x[MAX];
    (void)state;
    for (int kind = 0; kind < TEST_VECTORS; kind++)
        for (size_t count = 1; count <= MAX; count += 1 + count / 3) {
            test_vector(x, count, (enum test_vector)kind, count);
            for (size_t i = 0; i < count; i++)
                x[i] = fabsf(x[i]);
            for (size_t k = 0; k <= count; k += 1 + k / 2)
                check(x, count, k);
            check(x, count, count);
        }
}

/* NaN counts as infinity, negative values as 0. */
static void any_bits(void **state)
{
    static const float norm[] = {1, NAN, -5, 0, INFINITY, -INFINITY, 3, -0.0f, -NAN};
    static const uint32_t want[][9] = {{1},
                                       {1, 4},
                                       {1, 4, 8},
                                       {1, 4, 6, 8},
                                       {0, 1, 4, 6, 8},
                                       {0, 1, 2, 4, 6, 8},
                                       {0, 1, 2, 3, 4, 6, 8}};
    uint32_t got[9];
    (void)state;
    for (size_t k = 1; k <= 7; k++) {
        tg__chunks_choose(norm, 9, k, got);
        assert_memory_equal(got, want[k - 1], k * sizeof *got);
    }
}

/* ---- how large ------------------------------------------------------------------------------- */

static void sizes(void **state)
{
    static const struct {
        size_t n;
        double density;
        size_t chunk;
    } cases[] = {
        {1, 0.1, 64},
        {63 * 64, 0.1, 64},
        {63 * 128, 0.1, 64},
        {63 * 128 + 1, 0.1, 128},
        {431080, 0.1, 4096},
        {431080, 1, 4096},
        {431080, 0.05, 4096},
        {431080, 0.01, 1024}, /* 421 chunks; of 2048 there would be 211, and 2 sent */
        {431080, 1e-9, 64},
        {63 * 32768, 0.1, 16384},
        {63 * 32768 + 1, 0.1, 32768},
        {11173962, 0.1, 32768},
        {11173962, 0.01, 16384},
        {11173962, 0.001, 2048},
        {((size_t)1 << 32) - 1, 0.1, 32768},
    };
    (void)state;
    for (size_t i = 0; i < TG_COUNT(cases); i++)
        if (tg__chunk_for(cases[i].n, cases[i].density) != cases[i].chunk)
            fail_msg("%zu elements, density %g: chunks of %zu", cases[i].n, cases[i].density,
                     tg__chunk_for(cases[i].n, cases[i].density));
}

static bool enough(size_t n, size_t chunk, double density)
{
    const double count = ceil((double)n / (double)chunk);
    return count >= 64 && floor(count * density + 0.5) >= 4;
}

/* Enough chunks wherever the bounds allow, and too few with chunks of twice the size. */
static void as_large_as_can_be(void **state)
{
    static const double densities[] = {1, 0.3, 0.1, 0.02, 0.003};
    (void)state;
    for (size_t d = 0; d < TG_COUNT(densities); d++)
        for (size_t n = 1; n < (size_t)1 << 23; n += 1 + n / 7) {
            const size_t chunk = tg__chunk_for(n, densities[d]);
            assert_true((chunk & (chunk - 1)) == 0 && chunk >= 64 && chunk <= 32768);
            assert_true(chunk == 64 || enough(n, chunk, densities[d]));
            assert_true(chunk == 32768 || !enough(n, 2 * chunk, densities[d]));
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_sorting_would),
        cmocka_unit_test(any_bits),
        cmocka_unit_test(sizes),
        cmocka_unit_test(as_large_as_can_be),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
