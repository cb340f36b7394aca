/* The loops over rows: accuracy compared with libm, and the same bits at every level. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "trainer/nn/nn.h"
#include "trainer/nn/row_kernels.h"
#include "telegrad/tools.h"
#include "telegrad/random.h"

/* ---- accuracy -------------------------------------------------------------------------------- */

enum { MANY = 1000 };

/* Units in the last place of a float between got and want. */
static double ulps(float got, double want)
{
    if (isnan(want) || isnan(got))
        return isnan(want) && isnan(got) ? 0 : INFINITY;
    if (isinf(got) || isinf((float)want))
        return got == (float)want ? 0 : INFINITY;
    int e = -125;
    if (want != 0)
        frexp(want, &e);
    return fabs((double)got - want) / ldexp(1, (e < -125 ? -125 : e) - 24);
}

/* Floats of all signs and exponents, a few of each, and special ones. */
static size_t next_floats(uint32_t *at, float *x)
{
    size_t n = 0;
    for (; n < MANY && *at != UINT32_MAX; n++) {
        memcpy(&x[n], at, sizeof x[n]);
        const uint32_t step = 0x2f3a1;
        *at = *at > UINT32_MAX - step ? UINT32_MAX : *at + step;
    }
    return n;
}

static double logistic(double x)
{
    return 1 / (1 + exp(-x));
}

static void check_ulps(const char *name, const float *x, const float *got, size_t n,
                       double (*f)(double), double bound)
{
    for (size_t i = 0; i < n; i++) {
        const double want = f((double)x[i]);
        if (!(ulps(got[i], want) <= bound))
            fail_msg("%s(%.9g): %.9g, expected %.9g", name, (double)x[i], (double)got[i], want);
    }
}

/* If the previous cell is 0, a gate of 1 lets the other gate through. */
static void through_lstm(const row_kernels *k, const float *x, size_t which, float *got)
{
    static float bias[4 * MANY], c0[MANY], gates[4 * MANY], h[MANY];
    const size_t other = which == 0 ? 2 : 0;
    memcpy(gates + which * MANY, x, MANY * sizeof *x);
    for (size_t i = 0; i < MANY; i++)
        gates[other * MANY + i] = 100;
    const row_lstm r = {.bias = bias, .c0 = c0, .gates = gates, .c = got, .h = h};
    k->lstm(MANY, &r);
}

static void test_accuracy(void **state)
{
    (void)state;
    const row_kernels *k = row_kernels_of(tg_cpu_level());
    static float x[MANY], got[MANY];
    size_t seen = 0;
    for (uint32_t at = 0; at != UINT32_MAX;) {
        const size_t n = next_floats(&at, x);
        k->exp_sum(MANY, x, 0, got);
        check_ulps("exp", x, got, n, exp, 1);
        through_lstm(k, x, 0, got);
        check_ulps("logistic", x, got, n, logistic, 3);
        through_lstm(k, x, 2, got);
        check_ulps("tanh", x, got, n, tanh, 3);
        seen += n;
    }
    assert_true(seen > 20000);
    const float special[] = {0, -0.0f, INFINITY, -INFINITY, NAN, 88.7f, 88.8f, -103.9f, -104.1f};
    memcpy(x, special, sizeof special);
    k->exp_sum(TG_COUNT(special), x, 0, got);
    check_ulps("exp", x, got, TG_COUNT(special), exp, 1);
    through_lstm(k, x, 0, got);
    check_ulps("logistic", x, got, TG_COUNT(special), logistic, 3);
    through_lstm(k, x, 2, got);
    check_ulps("tanh", x, got, TG_COUNT(special), tanh, 3);
}

/* The sum over a long row does not lose small terms. */
static void test_long_sum(void **state)
{
    (void)state;
    enum { N = 1 << 20 };
    float *x;
    assert_int_equal(tg_alloc(N, sizeof *x, &x), TG_OK);
    const row_kernels *k = row_kernels_of(tg_cpu_level());
    assert_true(k->max(N, x) == 0);
    assert_true(k->exp_sum(N, x, 0, NULL) == N);
    x[N - 3] = 12;
    assert_true(k->max(N, x) == 12);
    const double want = 1 + (N - 1) * exp(-12.0);
    assert_true(fabs(k->exp_sum(N, x, 12, NULL) - want) < 1e-5 * want);
    free(x);
}

/* ---- levels ---------------------------------------------------------------------------------- */

enum { ROWS = 3, WIDTH = 1100, ARRAYS = 16, SIZE = 4 * ROWS * WIDTH };

/* Run all kernels on rows of n; returns the hash of the results. Memory after an array's end must
 * not change. */
static uint64_t results(const row_kernels *k, size_t n)
{
    static float a[ARRAYS][SIZE];
    const tg_rng_key key = {.seed = 11, .purpose = TG_PURPOSE_TEST};
    for (size_t i = 0; i < sizeof a / sizeof a[0][0]; i++)
        a[i / SIZE][i % SIZE] = (float)(3 * tg_rng_normal(&key, i));
    float most = k->max(n, a[0]);
    double sum[2] = {k->exp_sum(n, a[0], most, NULL), k->exp_sum(n, a[0], most, a[1])};
    assert_true(sum[0] == sum[1]);
    k->scale(n, 0.7f, a[2]);
    k->add(n, a[0], a[3]);
    k->softmax(n, 0.5f, a[4]);
    k->softmax_backward(n, 0.5f, a[4], a[5]);
    k->gelu(n, a[0], a[6]);
    k->gelu_backward(n, a[0], a[6], a[7]);
    const row_lstm r = {a[0], a[3], a[8], a[9], a[10]};
    k->lstm(n, &r);
    const row_lstm_backward b = {a[3], a[9], a[6], a[7], a[8], a[11]};
    k->lstm_backward(n, &b);
    k->layernorm(ROWS, n, 1e-5f, a[0], a[1], a[2], a[12], a[13], a[13] + ROWS);
    k->layernorm_weights(ROWS, n, a[0], a[13], a[13] + ROWS, a[12], a[14], a[14] + 2 * WIDTH);
    k->layernorm_data(ROWS, n, a[0], a[1], a[13], a[13] + ROWS, a[12], a[15]);
    uint64_t hash = tg_hash(TG_HASH_START, a, sizeof a);
    hash = tg_hash(hash, &most, sizeof most);
    return tg_hash(hash, sum, sizeof sum);
}

static void test_levels(void **state)
{
    (void)state;
    static const char *const levels[] = {"ref", "avx2", "avx512"};
    static const size_t widths[] = {1, 7, 15, 16, 17, 31, 33, 100, 1024, 1025, 1100};
    for (size_t w = 0; w < TG_COUNT(widths); w++) {
        const uint64_t want = results(&row_kernels_ref, widths[w]);
        for (size_t l = 0; l < TG_COUNT(levels); l++) {
            assert_true(results(row_kernels_of(levels[l]), widths[w]) == want);
            if (strcmp(levels[l], tg_cpu_level()) == 0)
                break; /* higher levels may not run here */
        }
    }
}

/* ---- the loss of a large vocabulary ---------------------------------------------------------- */

static void test_loss(void **state)
{
    (void)state;
    enum { ROWS_ = 3, CLASSES = 5003 };
    static float z[ROWS_ * CLASSES], d[ROWS_ * CLASSES];
    const int32_t labels[ROWS_] = {17, -1, 5002};
    const tg_rng_key key = {.seed = 12, .purpose = TG_PURPOSE_TEST};
    for (size_t i = 0; i < ROWS_ * CLASSES; i++)
        z[i] = (float)(4 * tg_rng_normal(&key, i));
    z[2 * CLASSES + 5002] = 30; /* the largest in its row */
    double want = 0, loss;
    double sums[ROWS_] = {0};
    for (size_t i = 0; i < ROWS_; i++) {
        for (size_t j = 0; j < CLASSES; j++)
            sums[i] += exp((double)z[i * CLASSES + j]);
        if (labels[i] >= 0)
            want += log(sums[i]) - (double)z[i * CLASSES + (size_t)labels[i]];
    }
    size_t correct;
    nn_softmax_loss(ROWS_, ROWS_, CLASSES, z, labels, 2, d, &loss, &correct);
    assert_true(fabs(loss - want) < 1e-6 * want);
    assert_int_equal(correct, 1);
    for (size_t i = 0; i < ROWS_; i++) {
        for (size_t j = 0; j < CLASSES; j++) {
            const double p = exp((double)z[i * CLASSES + j]) / sums[i];
            const double g = labels[i] < 0 ? 0 : (p - ((int32_t)j == labels[i])) / 2;
            assert_true(fabs((double)d[i * CLASSES + j] - g) <= 1e-6 * fabs(g) + 1e-7);
        }
    }
    nn_softmax_loss(ROWS_, ROWS_, CLASSES, z, labels, 2, z, &loss, &correct); /* in place */
    assert_memory_equal(z, d, sizeof d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_accuracy),
                                       cmocka_unit_test(test_long_sum),
                                       cmocka_unit_test(test_levels), cmocka_unit_test(test_loss)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
