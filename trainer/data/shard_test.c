/* Sharding: every sample is on one rank, ranks have few classes, and every machine computes the
 * same. Also the exact functions that it uses. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>
#include "trainer/data/gamma.h"
#include "trainer/data/shard.h"
#include "trainer/data/dataset.h"

#define OK(expr) assert_int_equal((expr), TG_OK)

enum { CLASSES = 10, SAMPLES = 4000 };

static uint8_t labels[SAMPLES];
static uint32_t owner[SAMPLES];

/* Fill counts (world, CLASSES); every owner must be a rank. */
static void assign(const char *text, uint64_t seed, int world, size_t counts[][CLASSES])
{
    tg_spec *spec;
    for (size_t i = 0; i < SAMPLES; i++)
        labels[i] = (uint8_t)(i * i % 7 % CLASSES == 0 ? 9 : i % CLASSES);
    OK(shard_parse(text, &spec));
    memset(owner, 0xff, sizeof owner);
    OK(shard_assign(spec, labels, SAMPLES, CLASSES, seed, world, owner));
    tg_spec_free(spec);
    memset(counts, 0, (size_t)world * sizeof counts[0]);
    for (size_t i = 0; i < SAMPLES; i++) {
        assert_in_range(owner[i], 0, world - 1);
        counts[owner[i]][labels[i]]++;
    }
}

static size_t total(const size_t count[CLASSES])
{
    size_t sum = 0;
    for (size_t c = 0; c < CLASSES; c++)
        sum += count[c];
    return sum;
}

/* The largest share of a class on a rank, averaged over the ranks. */
static double skew(size_t counts[][CLASSES], int world)
{
    double sum = 0;
    for (int r = 0; r < world; r++) {
        size_t most = 0;
        for (size_t c = 0; c < CLASSES; c++)
            most = counts[r][c] > most ? counts[r][c] : most;
        sum += (double)most / (double)total(counts[r]);
    }
    return sum / world;
}

static void test_dirichlet(void **state)
{
    (void)state;
    enum { P = 8 };
    size_t counts[P][CLASSES], again[P][CLASSES];
    static uint32_t before[SAMPLES];
    assign("dirichlet:alpha=0.1", 3, P, counts);
    memcpy(before, owner, sizeof owner);
    for (int r = 0; r < P; r++)
        assert_true(total(counts[r]) >= SHARD_LEAST);
    const double few = skew(counts, P);
    assign("dirichlet:alpha=0.1", 3, P, again);
    assert_memory_equal(before, owner, sizeof owner);
    assign("dirichlet:alpha=0.1", 4, P, again);
    assert_true(memcmp(before, owner, sizeof owner) != 0);
    assign("dirichlet:alpha=1000", 3, P, again);
    const double even = skew(again, P);
    assert_true(few > 0.4);
    assert_true(even < 0.3); /* class 9 has more than the others */
    /* Every machine draws this; another drawing would change published figures. */
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < SAMPLES; i++)
        hash = (hash ^ before[i]) * UINT64_C(0x100000001b3);
    if (hash != UINT64_C(0x571ac1025a592034))
        fail_msg("hash 0x%016llx", (unsigned long long)hash);
}

static void test_label(void **state)
{
    (void)state;
    enum { P = 20 };
    size_t counts[P][CLASSES];
    assign("label:classes=2", 5, P, counts);
    for (int r = 0; r < P; r++) {
        size_t classes = 0;
        for (size_t c = 0; c < CLASSES; c++)
            classes += counts[r][c] > 0;
        assert_in_range(classes, 1, 4); /* a piece may cross a border between classes */
        assert_int_equal(total(counts[r]), SAMPLES / P);
    }
    assign("label:classes=7", 5, 3, counts); /* 21 pieces of 190 or 191 */
    assert_in_range(total(counts[0]), 7 * 190, 7 * 191);
}

static void test_contiguous(void **state)
{
    (void)state;
    enum { P = 7 };
    size_t counts[P][CLASSES];
    assign("contiguous", 5, P, counts);
    for (int r = 0; r < P; r++)
        assert_in_range(total(counts[r]), SAMPLES / P, SAMPLES / P + 1);
    for (size_t i = 1; i < SAMPLES; i++)
        assert_true(owner[i] >= owner[i - 1]);
}

static void refused(const char *text, size_t samples, int world, const char *says)
{
    tg_spec *spec;
    OK(shard_parse(text, &spec));
    assert_int_equal(shard_assign(spec, labels, samples, CLASSES, 1, world, owner), TG_E_ARG);
    if (!strstr(tg_error(), says))
        fail_msg("\"%s\" does not say \"%s\"", tg_error(), says);
    tg_spec_free(spec);
}

static void test_refused(void **state)
{
    (void)state;
    tg_spec *spec;
    refused("label:classes=3", 8, 3, "9 pieces, but there are 8 samples");
    refused("label:classes=11", SAMPLES, 2, "the data have 10 classes: allowed: 1 to 10");
    refused("dirichlet", 8, 9, "allowed: 1 to 8");
    refused("dirichlet:alpha=0.001", SAMPLES, 300, "use a larger alpha");
    assert_int_equal(shard_parse("zipf", &spec), TG_E_SPEC);
    assert_int_equal(shard_parse("dirichlet:alpha=0", &spec), TG_E_SPEC);
}

static void test_of_data(void **state)
{
    (void)state;
    train_data *d;
    uint64_t counts[3][CLASSES];
    OK(train_data_open("glyphs:train=600,test=10", 0, &d));
    OK(train_data_shards(d, NULL, 1, 3, &counts[0][0]));
    for (size_t i = 0; i < CLASSES; i++)
        assert_int_equal(counts[2][i], 60);
    OK(train_data_shards(d, "dirichlet", 1, 3, &counts[0][0]));
    for (size_t i = 0; i < CLASSES; i++)
        assert_int_equal(counts[0][i] + counts[1][i] + counts[2][i], 60);
    train_data_close(d);
}

/* ---- the functions behind it ----------------------------------------------------------------- */

static void test_exact(void **state)
{
    (void)state;
    const tg_rng_key key = {.seed = 1, .purpose = TG_PURPOSE_TEST};
    for (uint64_t i = 0; i < 20000; i++) {
        const double u = tg_rng_uniform(&key, i), x = ldexp(u + 1e-9, (int)(i % 200) - 100);
        const double l = log(x), close = 1 + (u - 0.5) * 1e-3;
        assert_true(fabs(exact_log(x) - l) <= 4e-16 + fabs(l) * 9e-16);
        assert_true(fabs(exact_log(close) - log(close)) <= fabs(log(close)) * 9e-16);
        const double y = (u - 0.5) * 1300;
        assert_true(fabs(exact_exp(y) - exp(y)) <= exp(y) * 9e-16);
    }
    assert_true(exact_exp(-1e9) == 0 && exact_exp(0) == 1 && exact_log(1) == 0);
}

/* Mean and variance are alpha; for small alphas, check the mean of the logarithm (digamma). */
static void test_gamma(void **state)
{
    (void)state;
    enum { N = 20000 };
    const double alphas[] = {0.5, 1, 2.5, 40};
    for (size_t a = 0; a < 4; a++) {
        double sum = 0, squares = 0;
        for (size_t i = 0; i < N; i++) {
            const tg_rng_key key = {.seed = 2, .purpose = TG_PURPOSE_TEST, .step = i};
            const double g = exp(gamma_log(&key, alphas[a]));
            sum += g;
            squares += g * g;
        }
        const double mean = sum / N, variance = squares / N - mean * mean;
        assert_true(fabs(mean / alphas[a] - 1) < 5 * sqrt(1 / (alphas[a] * N)));
        assert_true(fabs(variance / alphas[a] - 1) < 5 * sqrt((2 + 6 / alphas[a]) / N));
    }
    double sum = 0;
    for (size_t i = 0; i < N; i++) {
        const tg_rng_key key = {.seed = 3, .purpose = TG_PURPOSE_TEST, .step = i};
        sum += gamma_log(&key, 0.01);
    }
    /* digamma(0.01) = -100.5609, trigamma(0.01) = 10001.6 */
    assert_true(fabs(sum / N + 100.5609) < 5 * 100.01 / sqrt(N));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dirichlet),  cmocka_unit_test(test_label),
        cmocka_unit_test(test_contiguous), cmocka_unit_test(test_refused),
        cmocka_unit_test(test_of_data),    cmocka_unit_test(test_exact),
        cmocka_unit_test(test_gamma),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
