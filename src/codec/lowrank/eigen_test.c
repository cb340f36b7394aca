/* The eigendecomposition: A v = value v and orthonormal vectors, also if eigenvalues are equal, 0,
 * or far apart. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "codec/lowrank/eigen.h"
#include "telegrad/random.h"
#include <math.h>
#include <string.h>

enum { MAX = 150 };

static double a[MAX * MAX], v[MAX][MAX];
static tg__eigen e;

static double entry(size_t n, size_t i, size_t j)
{
    return i >= j ? a[i * n + j] : a[j * n + i];
}

/* |A v - value v| <= tolerance |A| and |V^T V - 1| <= tolerance, for all vectors. */
static void check(const char *what, size_t n)
{
    double most = 0;
    bool ok;
    assert_int_equal(tg__eigen_reserve(&e, n), TG_OK);
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j <= i; j++) {
            e.a[i * n + j] = a[i * n + j];
            most = fmax(most, fabs(a[i * n + j]));
        }
    assert_int_equal(tg__eigen_decompose(&e, &ok), TG_OK);
    assert_true(ok);
    for (size_t k = 0; k < n; k++)
        tg__eigen_vector(&e, k, v[k]);
    for (size_t k = 0; k < n; k++) {
        for (size_t i = 0; i < n; i++) {
            double sum = 0;
            for (size_t j = 0; j < n; j++)
                sum += entry(n, i, j) * v[k][j];
            if (fabs(sum - e.value[k] * v[k][i]) > 1e-13 * (double)n * most)
                fail_msg("%s, n=%zu: vector %zu is none of this value", what, n, k);
        }
        for (size_t l = 0; l <= k; l++) {
            double sum = 0;
            for (size_t j = 0; j < n; j++)
                sum += v[k][j] * v[l][j];
            if (fabs(sum - (k == l)) > 1e-13)
                fail_msg("%s, n=%zu: vectors %zu and %zu: %g", what, n, k, l, sum);
        }
    }
}

static double uniform(size_t i)
{
    const tg_rng_key key = {.seed = 4, .purpose = TG_PURPOSE_TEST};
    return 2 * tg_rng_uniform(&key, i) - 1;
}

/* The Gram matrix of n vectors in `rank` dimensions, whose lengths grow by `grow`. */
static void gram(size_t n, size_t rank, double grow)
{
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j <= i; j++) {
            a[i * n + j] = 0;
            for (size_t k = 0; k < rank; k++)
                a[i * n + j] += uniform(i * MAX + k) * uniform(j * MAX + k);
            a[i * n + j] *= pow(grow, (double)(i + j));
        }
}

static void every_shape(void **state)
{
    (void)state;
    static const size_t ns[] = {1, 2, 3, 4, 7, 8, 9, 33, 64, MAX};
    for (size_t i = 0; i < sizeof ns / sizeof *ns; i++) {
        size_t n = ns[i];
        memset(a, 0, sizeof a);
        check("zero", n);
        for (size_t k = 0; k < n; k++)
            a[k * n + k] = 3;
        check("identity", n);
        a[n / 2 * n + n / 2] = -1e9;
        check("diagonal", n);
        for (size_t k = 0; k < n * n; k++)
            a[k] = 0.25;
        check("ones", n);
        for (size_t k = 0; k < n * n; k++)
            a[k] = uniform(k);
        check("indefinite", n);
        gram(n, n, 1);
        check("Gram", n);
        gram(n, n < 3 ? n : 3, 1);
        check("rank 3", n);
        gram(n, n, 0.5);
        check("falling", n);
        gram(n, n, 1.5);
        check("growing", n);
        for (size_t k = 0; k < n * n; k++)
            a[k] = uniform(k) * 1e-80;
        check("tiny", n);
        for (size_t k = 0; k < n * n; k++)
            a[k] = uniform(k) * 1e80;
        check("huge", n);
    }
    tg__eigen_free(&e);
}

/* The rotations of the last matrix do not count when room is made for the next one. */
static void room_is_that_of_the_matrix(void **state)
{
    (void)state;
    e = (tg__eigen){0};
    for (size_t k = 0; k < MAX * MAX; k++)
        a[k] = uniform(k);
    check("small", 10);
    assert_true(e.turns > 0);
    assert_int_equal(tg__eigen_reserve(&e, MAX), TG_OK);
    assert_int_equal(e.turn_cap, MAX * MAX);
    tg__eigen_free(&e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_shape),
                                       cmocka_unit_test(room_is_that_of_the_matrix)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
