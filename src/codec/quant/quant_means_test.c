/* qsgd and terngrad are unbiased, over 10^6 draws. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/mem.h"
#include "codec/codec_impl.h"
#include "codec/quant/quant.h"
#include "each_level.h"
#include "vectors.h"
#include "telegrad/random.h"
#include <stdio.h>

enum { N = 1000, STEPS = 1000 };

static float x[N], out[N];

static void encode_and_decode(tg_codec *c, uint64_t step)
{
    static uint8_t frame[12 + 4 * N];
    const tg_encode_context ctx = {.struct_size = sizeof(ctx),
                                   .rng = {.seed = 11, .purpose = TG_PURPOSE_CODEC, .step = step}};
    tg_array ax = tg_array_f32(x, N), aout = tg_array_f32(out, N);
    size_t len;
    assert_int_equal(tg_codec_encode(c, &ctx, &ax, frame, sizeof(frame), &len), TG_OK);
    assert_int_equal(tg_frame_decode(frame, len, &aout), TG_OK);
}

/* Sums over 10^6 draws of (decoded - expected mean), in standard deviations: of all elements, and
 * of each residue class modulo 16. unit (N): of each element; limit: the bound that x is clipped
 * to. */
static void check_means(const char *spec, const float *unit, double limit)
{
    double sum[16] = {0}, var[16] = {0}, all = 0, all_var = 0;
    tg_codec *c;
    assert_int_equal(tg_codec_create(spec, &c), TG_OK);
    for (uint64_t t = 0; t < STEPS; t++) {
        encode_and_decode(c, t);
        for (size_t i = 0; i < N; i++) {
            double want = fmin(limit, fmax(-limit, (double)x[i])), u = (double)unit[i];
            double fraction = want / u - floor(want / u);
            sum[i % 16] += ((double)out[i] - want) / u;
            var[i % 16] += fraction * (1 - fraction);
        }
    }
    for (size_t i = 0; i < 16; i++) {
        double z = sum[i] / sqrt(var[i]);
        if (!(fabs(z) < 4.5))
            fail_msg("%s: class %zu: z = %g", spec, i, z);
        all += sum[i];
        all_var += var[i];
    }
    if (!(fabs(all / sqrt(all_var)) < 4.5))
        fail_msg("%s: z = %g", spec, all / sqrt(all_var));
    tg_codec_destroy(c);
}

static void qsgd_has_no_bias(void **state)
{
    (void)state;
    static float unit[N];
    test_vector(x, N, TEST_GRADIENT, 77);
    for (int bits = 2; bits <= 8; bits++) {
        for (int l2 = 0; l2 < 2; l2++) {
            char spec[64];
            snprintf(spec, sizeof(spec), "qsgd:bits=%d,norm=%s,rounds=%d%s", bits,
                     l2 ? "l2" : "max", bits % 2 ? 7 : 10, bits == 4 ? ",coding=elias" : "");
            for (size_t b = 0; b < N; b += 512) {
                size_t m = TG__MIN((size_t)512, N - b);
                tg__stats stats;
                tg__kernel()->copy_stats(NULL, x + b, m, &stats);
                double norm = l2 ? sqrt(stats.sum_sq) : (double)tg__kernel()->abs_max(x + b, m);
                for (size_t i = b; i < b + m; i++)
                    unit[i] = tg__quant_unit(norm, (1 << (bits - 1)) - 1);
            }
            check_means(spec, unit, INFINITY);
        }
    }
}

static void terngrad_has_no_bias_but_the_clipping(void **state)
{
    (void)state;
    static float unit[N];
    double sum = 0, sq = 0;
    test_vector(x, N, TEST_GRADIENT, 78);
    float max = tg__kernel()->abs_max(x, N);
    for (size_t i = 0; i < N; i++)
        sum += (double)x[i];
    for (size_t i = 0; i < N; i++)
        sq += pow((double)x[i] - sum / N, 2);
    for (size_t i = 0; i < N; i++)
        unit[i] = max;
    check_means("terngrad:clip=0", unit, INFINITY);
    check_means("terngrad:clip=0,rounds=10", unit, INFINITY);
    float limit = (float)(2.5 * sqrt(sq / N));
    assert_true(limit < max);
    for (size_t i = 0; i < N; i++)
        unit[i] = limit;
    check_means("terngrad", unit, (double)limit);
}

int main(void)
{
    each_level();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(qsgd_has_no_bias),
        cmocka_unit_test(terngrad_has_no_bias_but_the_clipping),
    };
    return cmocka_run_group_tests_name("quant_means", tests, NULL, NULL);
}
