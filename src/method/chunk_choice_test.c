/* The choice of chunks against plain sorting; ties, and bits that no honest rank sends. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "method/chunk_choice.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <vectors.h> /* tests */

enum { MAX = 300 };

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

/* NaN is as infinity, what is below 0 as 0. */
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_sorting_would),
        cmocka_unit_test(any_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
