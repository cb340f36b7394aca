/* Batch normalisation: the same bits at every instruction set level, and cases without an
 * oracle. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "trainer/nn/norm.h"
#include "trainer/nn/norm_kernels.h"
#include "trainer/nn/spatial.h"
#include "telegrad/tools.h"
#include "telegrad/random.h"

#define OK(expr) assert_int_equal((expr), TG_OK)

static float *noise(size_t n, uint32_t stream)
{
    const tg_rng_key key = {.seed = 5, .purpose = TG_PURPOSE_TEST, .tensor = stream};
    float *x;
    OK(tg_alloc(n, sizeof *x, &x));
    for (size_t i = 0; i < n; i++)
        x[i] = (float)tg_rng_normal(&key, i);
    return x;
}

/* ---- levels ---------------------------------------------------------------------------------- */

enum { ROWS = 261, WIDTH = 67 };

/* A hash of everything that the kernels write, for some rows of some width. */
static uint64_t hash_of(const norm_kernels *k, size_t rows, size_t width, int variant)
{
    const size_t n = rows * width;
    float *x = noise(n, 1), *y = noise(n, 2), *dy = noise(n, 3), *dy2 = noise(n, 4);
    float *c[5], *out, *sums;
    for (uint32_t i = 0; i < 5; i++)
        c[i] = noise(width, 10 + i);
    OK(tg_alloc(n, sizeof *out, &out));
    OK(tg_alloc(2 * width, sizeof *sums, &sums));
    const norm_channels channels = {c[0], c[1], c[2], c[3], c[4]};
    const bool relu = variant > 0, shortcut = variant > 1;
    uint64_t hash = TG_HASH_START;
    k->moments(rows, width, x, sums, sums + width);
    hash = tg_hash(hash, sums, 2 * width * sizeof *sums);
    k->apply(rows, width, &channels, relu, x, shortcut ? y : NULL, out);
    hash = tg_hash(hash, out, n * sizeof *out);
    k->reduce(rows, width, &channels, relu, x, shortcut ? y : NULL, dy, variant == 3 ? dy2 : NULL,
              shortcut ? out : NULL, sums, sums + width);
    hash = tg_hash(hash, sums, 2 * width * sizeof *sums);
    hash = tg_hash(hash, out, n * sizeof *out);
    k->spread(rows, width, &channels, relu, x, dy, out);
    hash = tg_hash(hash, out, n * sizeof *out);
    for (size_t i = 0; i < 5; i++)
        free(c[i]);
    free(x), free(y), free(dy), free(dy2), free(out), free(sums);
    return hash;
}

static void check_level(const norm_kernels *k, const char *level)
{
    static const size_t rows[] = {1, 3, 4, 9, ROWS}, widths[] = {1, 7, 16, 20, 48, WIDTH};
    for (size_t r = 0; r < TG_COUNT(rows); r++) {
        for (size_t w = 0; w < TG_COUNT(widths); w++) {
            for (int variant = 0; variant < 4; variant++) {
                if (hash_of(k, rows[r], widths[w], variant) !=
                    hash_of(&norm_kernels_ref, rows[r], widths[w], variant))
                    fail_msg("%s: %zu rows of %zu, variant %d", level, rows[r], widths[w], variant);
            }
        }
    }
}

static void test_levels(void **state)
{
    (void)state;
#if defined(__x86_64__)
    const char *level = tg_cpu_level();
    if (strcmp(level, "ref") != 0)
        check_level(&norm_kernels_avx2, "avx2");
    if (strcmp(level, "avx512") == 0)
        check_level(&norm_kernels_avx512, "avx512");
#endif
    check_level(&norm_kernels_ref, "ref"); /* the same again */
}

/* ---- statistics ------------------------------------------------------------------------------ */

/* Values far from zero, over many chunks, in both layouts. */
static void test_statistics(void **state)
{
    (void)state;
    enum { BATCH = 3, PLACES = 900, CHANNELS = 32, N = BATCH * PLACES * CHANNELS };
    float *x = noise(N, 6);
    for (size_t i = 0; i < N; i++)
        x[i] = 1000 + x[i] * (float)(1 + i % CHANNELS);
    double mean[CHANNELS] = {0}, variance[CHANNELS] = {0};
    for (size_t i = 0; i < N; i++)
        mean[i % CHANNELS] += (double)x[i] / (BATCH * PLACES);
    for (size_t i = 0; i < N; i++) {
        const double d = (double)x[i] - mean[i % CHANNELS];
        variance[i % CHANNELS] += d * d / (BATCH * PLACES);
    }
    float *blocked, got_mean[CHANNELS], got_variance[CHANNELS];
    OK(tg_alloc(N, sizeof *blocked, &blocked));
    nn_block(BATCH, (nn_image){30, 30, CHANNELS, true}, x, blocked);
    for (int layout = 0; layout < 2; layout++) {
        nn_norm *s;
        OK(nn_norm_create(&(nn_norm_shape){BATCH, PLACES, CHANNELS, layout == 1, false}, &s));
        nn_norm_statistics(s, BATCH, layout ? blocked : x, got_mean, got_variance);
        for (size_t c = 0; c < CHANNELS; c++) {
            assert_true(fabs((double)got_mean[c] / mean[c] - 1) < 1e-6);
            assert_true(fabs((double)got_variance[c] / variance[c] - 1) < 2e-5);
        }
        nn_norm_destroy(s);
    }
    free(x);
    free(blocked);
}

/* Samples that do not count change nothing, even if they are NaN, and get no gradient. */
static void test_part_of_a_batch(void **state)
{
    (void)state;
    enum { BATCH = 4, COUNT = 3, PLACES = 6, CHANNELS = 20, EACH = PLACES * CHANNELS };
    float *x = noise(BATCH * EACH, 7), *y = noise(BATCH * EACH, 8), *dy = noise(BATCH * EACH, 9);
    float *gamma = noise(CHANNELS, 10), *beta = noise(CHANNELS, 11), *dx, sums[2][CHANNELS];
    float dgamma[2][CHANNELS], dbeta[2][CHANNELS], saved[COUNT * EACH];
    OK(tg_alloc(BATCH * EACH, sizeof *dx, &dx));
    for (int whole = 0; whole < 2; whole++) {
        const size_t batch = whole ? COUNT : BATCH;
        nn_norm *s;
        OK(nn_norm_create(&(nn_norm_shape){batch, PLACES, CHANNELS, false, true}, &s));
        for (size_t i = COUNT * EACH; i < BATCH * EACH; i++) {
            x[i] = NAN;
            dx[i] = 1;
        }
        nn_norm_statistics(s, COUNT, x, sums[0], sums[1]);
        nn_norm_forward(s, x, NULL, sums[0], sums[1], gamma, beta, y);
        nn_norm_backward_weights(s, COUNT, x, y, dy, NULL, NULL, dgamma[whole], dbeta[whole]);
        nn_norm_backward_data(s, COUNT, x, NULL, dy, dx);
        if (whole)
            assert_memory_equal(dx, saved, sizeof saved);
        memcpy(saved, dx, sizeof saved);
        for (size_t i = COUNT * EACH; i < BATCH * EACH; i++)
            assert_true(dx[i] == (whole ? 1 : 0));
        nn_norm_destroy(s);
    }
    assert_memory_equal(dgamma[0], dgamma[1], sizeof dgamma[0]);
    assert_memory_equal(dbeta[0], dbeta[1], sizeof dbeta[0]);
    free(x), free(y), free(dy), free(gamma), free(beta), free(dx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_levels),
        cmocka_unit_test(test_statistics),
        cmocka_unit_test(test_part_of_a_batch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
