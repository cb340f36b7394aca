#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "trainer/nn/gemm.h"
#include "trainer/nn/nn.h"
#include "telegrad/tools.h"
#include "telegrad/random.h"

#define OK(expr) assert_int_equal((expr), TG_OK)

static bool native; /* this CPU has avx512_bf16 */

static int look(void **state)
{
    (void)state;
    nn *n;
    if (nn_create(&n) != TG_OK)
        return -1;
    native = nn_use_bf16(n) == TG_OK;
    nn_destroy(n);
    return 0;
}

/* Uniform in [-1, 1); coarse: with 8 significant bits, which bf16 holds. */
static float *noise(size_t n, uint32_t stream, bool coarse)
{
    const tg_rng_key key = {.seed = 11, .purpose = TG_PURPOSE_TEST, .tensor = stream};
    float *x;
    OK(tg_alloc(n, sizeof *x, &x));
    for (size_t i = 0; i < n; i++) {
        const double u = 2 * tg_rng_uniform(&key, i) - 1;
        x[i] = (float)(coarse ? floor(u * 128) / 128 : u);
    }
    return x;
}

struct product_case {
    char transa, transb;
    size_t m, n, k;
};

/* Smaller than a tile, tiles and rests of them, more than a block in each direction. */
static const struct product_case cases[] = {
    {'N', 'N', 1, 1, 1},     {'N', 'T', 13, 15, 2},   {'T', 'N', 14, 16, 33},
    {'T', 'T', 15, 17, 31},  {'N', 'N', 28, 33, 65},  {'N', 'T', 43, 48, 64},
    {'T', 'N', 17, 49, 97},  {'T', 'T', 40, 64, 32},  {'N', 'N', 9, 40, 1600},
    {'N', 'T', 3, 770, 800}, {'T', 'N', 450, 20, 70}, {'N', 'T', 800, 700, 771},

};

static size_t stride_of(size_t columns)
{
    return columns + 3; /* rows do not touch */
}

/* c = op(a) op(b) [+ row, or + what is in c] of one case by g, or in fp32 by NULL */
static void multiply(gemm16 *g, const struct product_case *p, bool coarse, int beta, bool row,
                     float **c_p)
{
    const size_t lda = stride_of(p->transa == 'N' ? p->k : p->m),
                 ldb = stride_of(p->transb == 'N' ? p->n : p->k), ldc = stride_of(p->n);
    float *a = noise(lda * (p->transa == 'N' ? p->m : p->k), 1, coarse),
          *b = noise(ldb * (p->transb == 'N' ? p->k : p->n), 2, coarse),
          *c = noise(ldc * p->m, 3, coarse), *added = noise(p->n, 4, coarse);
    for (size_t i = 0; beta == 0 && i < p->m; i++) {
        for (size_t j = 0; j < p->n; j++)
            c[i * ldc + j] = NAN; /* is overwritten */
    }
    if (g) {
        gemm16_run(g, p->transa, p->transb, p->m, p->n, p->k, a, lda, b, ldb, beta,
                   row ? added : NULL, c, ldc);
    } else {
        OK(gemm(p->transa, p->transb, p->m, p->n, p->k, a, lda, b, ldb, (float)beta, c, ldc));
        for (size_t i = 0; row && i < p->m; i++) {
            for (size_t j = 0; j < p->n; j++)
                c[i * ldc + j] += added[j];
        }
    }
    free(a);
    free(b);
    free(added);
    *c_p = c;
}

static double distance(const float *a, const float *b, size_t n)
{
    double d = 0, norm = 0;
    for (size_t i = 0; i < n; i++) {
        d += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
        norm += (double)b[i] * (double)b[i];
    }
    return norm > 0 ? sqrt(d / norm) : sqrt(d);
}

/* Where operands are bf16 numbers already only the order of sums differs from fp32's. */
static void check(gemm16 *g, const struct product_case *p, int beta, bool row)
{
    float *mine, *fp32;
    const size_t n = stride_of(p->n) * p->m;
    for (int coarse = 0; coarse < 2; coarse++) {
        multiply(g, p, coarse, beta, row, &mine);
        multiply(NULL, p, coarse, beta, row, &fp32);
        const double d = distance(mine, fp32, n);
        if (!(d <= (coarse ? 1e-6 : 0.006)))
            fail_msg("%c%c %zu x %zu x %zu, beta %d: %g", p->transa, p->transb, p->m, p->n, p->k,
                     beta, d);
        free(mine);
        free(fp32);
    }
}

static void check_all(bool is_native)
{
    gemm16 *g;
    OK(gemm16_create(is_native, &g));
    for (size_t i = 0; i < TG_COUNT(cases); i++) {
        if (!is_native && cases[i].m * cases[i].k > 500000)
            continue;
        check(g, &cases[i], 0, false);
        check(g, &cases[i], 1, false);
        check(g, &cases[i], 0, true);
    }
    gemm16_destroy(g);
}

static void test_ref(void **state)
{
    (void)state;
    check_all(false);
}

static void test_native(void **state)
{
    (void)state;
    if (!native)
        skip();
    check_all(true);
}

/* The plain loops say which bits are right. */
static void test_same_bits(void **state)
{
    (void)state;
    gemm16 *plain, *fast;
    float *a, *b;
    if (!native)
        skip();
    OK(gemm16_create(false, &plain));
    OK(gemm16_create(true, &fast));
    for (size_t i = 0; i + 1 < TG_COUNT(cases); i++) {
        multiply(plain, &cases[i], false, 0, true, &a);
        multiply(fast, &cases[i], false, 0, true, &b);
        assert_memory_equal(a, b, stride_of(cases[i].n) * cases[i].m * sizeof *a);
        free(a);
        free(b);
    }
    gemm16_destroy(plain);
    gemm16_destroy(fast);
}

/* What is not finite comes through; ties are rounded to even. */
static void test_rounding(void **state)
{
    (void)state;
    static const float in[] = {1.00390625F, 1.01171875F, INFINITY, -INFINITY, NAN, 3.4e38F, -0.0F},
                       out[] = {1, 1.015625F, INFINITY, -INFINITY, NAN, INFINITY, 0};
    const float one = 1;
    for (int is_native = 0; is_native <= (native ? 1 : 0); is_native++) {
        gemm16 *g;
        OK(gemm16_create(is_native, &g));
        for (size_t i = 0; i < TG_COUNT(in); i++) {
            float c = 7;
            gemm16_run(g, 'N', 'N', 1, 1, 1, &in[i], 1, &one, 1, 0, NULL, &c, 1);
            assert_true(c == out[i] || (isnan(c) && isnan(out[i])));
        }
        gemm16_destroy(g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_ref), cmocka_unit_test(test_native),
                                       cmocka_unit_test(test_same_bits),
                                       cmocka_unit_test(test_rounding)};
    return cmocka_run_group_tests(tests, look, NULL);
}
