/* TernGrad with several ranks: the scaler is the largest of all ranks for each tensor; what is sent
 * is unbiased; the gradient is not needed after begin. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "method_ranks.h"
#include "telegrad/random.h"

enum { P = 3, N = RANKS_N, FIRST = RANKS_FIRST };

static const float *aggregate(void)
{
    return ranks_aggregate(0);
}

static void fill(float size)
{
    for (int r = 0; r < P; r++) {
        tg_rng_key key = {.seed = 4, .purpose = TG_PURPOSE_TEST, .rank = (uint32_t)r};
        for (size_t i = 0; i < N; i++)
            ranks[r].g[i] = size * (float)(r + 1) * (float)tg_rng_normal(&key, i);
    }
}

/* Every rank's elements are 0, s and -s for the common s: the mean is exact. */
static void ternary_gradients_are_exact(void **state)
{
    (void)state;
    static const char *const texts[] = {"terngrad:clip=0", "terngrad:clip=0,exchange=direct",
                                        "terngrad:clip=0,scaler=local"};
    for (size_t c = 0; c < TG_COUNT(texts); c++) {
        ranks_start(texts[c], P);
        for (uint64_t t = 0; t < 5; t++) {
            for (int r = 0; r < P; r++)
                for (size_t i = 0; i < N; i++) {
                    float s = (float)(t + 1) * (i < FIRST ? 0.25f : 32);
                    ranks[r].g[i] = s * (float)((int)((i * 7 + (size_t)r * 5 + t) % 3) - 1);
                }
            assert_int_equal(ranks_step(t, true, -1), c == 2 ? 1 : 2);
            for (size_t i = 0; i < N; i++) {
                float sum = ranks[0].g[i] + ranks[1].g[i] + ranks[2].g[i];
                assert_true(aggregate()[i] == sum * (1.0f / P));
            }
        }
        ranks_stop();
    }
}

/* What is sent is a multiple of the largest rank's s of the tensor, on all ranks. */
static void the_largest_scaler_counts(void **state)
{
    (void)state;
    ranks_start("terngrad:clip=0", P);
    fill(1);
    float s[2] = {0};
    for (int r = 0; r < P; r++)
        for (size_t i = 0; i < N; i++)
            s[i >= FIRST] = fmaxf(s[i >= FIRST], fabsf(ranks[r].g[i]));
    assert_int_equal(ranks_step(0, true, -1), 2);
    for (size_t i = 0; i < N; i++) {
        float unit = s[i >= FIRST];
        bool found = false;
        for (int k = -P; k <= P; k++) { /* sums of P terms are rounded in the same way here */
            float sum = 0;
            for (int j = 0; j < (k < 0 ? -k : k); j++)
                sum += k < 0 ? -unit : unit;
            found |= aggregate()[i] == sum * (1.0f / P);
        }
        assert_true(found);
    }
    assert_true(ranks[0].task.kept > 0 && ranks[0].task.kept < N);
    assert_int_equal(ranks[0].task.coded_bytes, 12 + 2 * 4 + 12 + 4 + 2 * 8 + 64 * 3 + 4 * 15);
    ranks_stop();
}

/* The mean over many steps is that of the clipped gradients. */
static void the_mean_is_right(void **state)
{
    (void)state;
    enum { STEPS = 400 };
    static const char *const texts[] = {"terngrad", "terngrad:scaler=local,exchange=direct"};
    for (size_t c = 0; c < TG_COUNT(texts); c++) {
        static double sum[N];
        double z = 0;
        ranks_start(texts[c], P);
        fill(0.01f);
        memset(sum, 0, sizeof sum);
        for (uint64_t t = 0; t < STEPS; t++) {
            (void)ranks_step(t, true, -1);
            for (size_t i = 0; i < N; i++)
                sum[i] += (double)aggregate()[i];
        }
        for (size_t i = 0; i < N; i++) {
            double want = 0, s = 0;
            for (int r = 0; r < P; r++) {
                size_t lo = i < FIRST ? 0 : FIRST, hi = i < FIRST ? FIRST : N;
                double mean = 0, sq = 0;
                for (size_t j = lo; j < hi; j++)
                    mean += (double)ranks[r].g[j] / (double)(hi - lo);
                for (size_t j = lo; j < hi; j++)
                    sq += pow((double)ranks[r].g[j] - mean, 2);
                double limit = 2.5 * sqrt(sq / (double)(hi - lo));
                want += fmin(limit, fmax(-limit, (double)ranks[r].g[i])) / P;
                s = fmax(s, limit);
            }
            double error = (sum[i] / STEPS - want) / (s / sqrt((double)P * STEPS));
            assert_true(fabs(error) < 4.5); /* a draw deviates by at most s / 2 */
            z += error;
        }
        assert_true(fabs(z) / sqrt(N) < 3);
        ranks_stop();
    }
}

static void dense_steps_and_ranks_without_a_gradient(void **state)
{
    (void)state;
    ranks_start("terngrad:clip=0", P);
    fill(1);
    assert_int_equal(ranks_step(0, false, -1), 1);
    for (size_t i = 0; i < N; i++)
        assert_true(aggregate()[i] ==
                    ((ranks[0].g[i] + ranks[1].g[i]) + ranks[2].g[i]) * (1.0f / P));
    assert_int_equal(ranks_step(1, true, 2), 2); /* its zeros do not raise the scaler */
    assert_int_equal(ranks[2].task.kept, 0);
    ranks_settle(true);
    memset(ranks[0].g, 0, sizeof ranks[0].g);
    memset(ranks[1].g, 0, sizeof ranks[1].g);
    (void)ranks_step(2, true, 2);
    for (size_t i = 0; i < N; i++)
        assert_true(aggregate()[i] == 0);
    ranks_stop();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ternary_gradients_are_exact),
        cmocka_unit_test(the_largest_scaler_counts),
        cmocka_unit_test(the_mean_is_right),
        cmocka_unit_test(dense_steps_and_ranks_without_a_gradient),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
