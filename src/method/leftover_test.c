/* Nothing is lost: what was applied, times the number of ranks, plus the memory of all ranks, is
 * the sum of the gradients, whatever an exchange drops. With a low-pass filter the memory is beta
 * times what remains. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "method_ranks.h"
#include "telegrad/random.h"

enum { STEPS = 8, DENSE_STEP = 3, DROPPED_STEP = 5 };

static const int sizes[] = {1, 2, 3, 4, 7, 8};

static void dyadic_gradients(uint64_t t)
{
    for (int r = 0; r < ranks_size; r++) {
        const tg_rng_key key = {
            .seed = 9, .purpose = TG_PURPOSE_TEST, .rank = (uint32_t)r, .step = t};
        for (size_t i = 0; i < RANKS_N; i++)
            ranks[r].g[i] = (float)(floor(tg_rng_normal(&key, i) * 16) / 16);
    }
}

/* Run the steps, one of them dense, one dropped because the last rank's gradient is not finite.
 * Returns the largest difference of the two sums. grid: applied sums are multiples of 1/16, apart
 * from the division by the number of ranks. */
static double lost(const char *text, int size, bool grid)
{
    static double given[RANKS_N], kept[RANKS_N];
    double worst = 0;
    ranks_start(text, size);
    memset(given, 0, sizeof given);
    memset(kept, 0, sizeof kept);
    for (uint64_t t = 0; t < STEPS; t++) {
        const bool dropped = t == DROPPED_STEP;
        dyadic_gradients(t);
        ranks_step(t, t != DENSE_STEP, dropped ? size - 1 : -1);
        for (int r = 0; r < size; r++)
            for (size_t i = 0; i < RANKS_N && !(dropped && r == size - 1); i++)
                given[i] += (double)ranks[r].g[i];
        for (size_t i = 0; i < RANKS_N && !dropped; i++) {
            const double sum = (double)ranks_aggregate(0)[i] * size;
            kept[i] += grid ? rint(sum * 16) / 16 : sum;
        }
        ranks_settle(dropped);
    }
    for (int r = 0; r < size; r++)
        for (size_t i = 0; i < RANKS_N; i++)
            kept[i] += (double)tg__feedback_pending(ranks[r].m->feedback)[i] /
                       (double)tg__feedback_share(ranks[r].m->feedback);
    for (size_t i = 0; i < RANKS_N; i++)
        worst = fmax(worst, fabs(given[i] - kept[i]));
    ranks_stop();
    return worst;
}

static void exact(void **state)
{
    static const char *const specs[] = {
        "topk:density=0.02,values=f32,exchange=reducescatter",
        "topk:density=0.05,values=fp16,scope=tensor,exchange=reducescatter",
        "topk:density=0.02,warmup=6,exchange=reducescatter",
        "topk:density=1,values=f32,exchange=reducescatter",
        "dgc:density=0.02,values=f32,warmup=0,momentum=0,exchange=reducescatter",
        "dgc:density=0.02,values=fp16,warmup=6,momentum=0,nesterov=yes,exchange=reducescatter",
        "topk:density=0.02,values=f32,exchange=gtopk",
        "topk:density=0.05,values=fp16,scope=tensor,exchange=gtopk",
        "topk:density=0.02,warmup=6,exchange=gtopk",
        "dgc:density=0.02,values=f32,warmup=0,momentum=0,exchange=gtopk",
        "randomk:density=0.1,values=fp16,exchange=ring",
        "randomk:density=0.1,values=fp16,exchange=direct",
        "topk:density=0.05,select=trimmed,exchange=reducescatter",
        "cltk:density=0.05,warmup=6",
        "cltk:density=0.05,values=fp16,exchange=ring",
        "cltk:density=0.05,exchange=halving",
        "fp16:feedback=residual,exchange=ring",
        "bf16:feedback=residual,exchange=ring",
        "fp16:feedback=residual,exchange=reducescatter",
        "bf16:feedback=residual,exchange=reducescatter",
    };
    (void)state;
    for (size_t c = 0; c < TG_COUNT(specs); c++)
        for (size_t p = 0; p < TG_COUNT(sizes); p++) {
            const double worst = lost(specs[c], sizes[p], true);
            if (worst != 0)
                fail_msg("%s, %d ranks: %g is lost", specs[c], sizes[p], worst);
        }
}

/* Values whose rounding is not dyadic: equal up to f32 rounding. */
static void rounded(void **state)
{
    static const char *const specs[] = {
        "topk:density=0.05,values=int8,exchange=reducescatter",
        "topk:density=0.05,values=1bit,exchange=reducescatter",
        "dgc:density=0.02,warmup=0,momentum=0,exchange=reducescatter",
        "topk:density=0.05,values=4bit,exchange=gtopk",
        "int8:feedback=residual,exchange=ring",
        "int8:feedback=residual,exchange=reducescatter",
        "qsgd:feedback=residual,exchange=reducescatter",
        "cltk:density=0.05,warmup=6,beta=0.5",
        "cltk:density=0.05,values=fp16,exchange=ring,beta=0.25",
        "cltk:density=0.05,exchange=halving,beta=0.1",
    };
    (void)state;
    for (size_t c = 0; c < TG_COUNT(specs); c++)
        for (size_t p = 0; p < TG_COUNT(sizes); p++) {
            const double worst = lost(specs[c], sizes[p], false);
            if (worst > 2e-5)
                fail_msg("%s, %d ranks: %g is lost", specs[c], sizes[p], worst);
        }
}

/* Each owner keeps the density for its block. */
static void sums_stay_sparse(void **state)
{
    (void)state;
    for (size_t p = 0; p < TG_COUNT(sizes); p++) {
        ranks_start("topk:density=0.03,exchange=reducescatter", sizes[p]);
        for (uint64_t t = 0; t < STEPS; t++) {
            size_t sent = 0;
            dyadic_gradients(t);
            ranks_step(t, true, -1);
            for (size_t i = 0; i < RANKS_N; i++)
                sent += ranks_aggregate(0)[i] != 0;
            if (fabs((double)sent - 30) > (sizes[p] + 1) / 2) /* each block's share is rounded */
                fail_msg("%d ranks: %zu elements of 30", sizes[p], sent);
            ranks_settle(false);
        }
        ranks_stop();
    }
}

/* Density 1 in f32 gives the exact mean. */
static void all_is_the_mean(void **state)
{
    (void)state;
    for (size_t p = 0; p < TG_COUNT(sizes); p++) {
        ranks_start("topk:density=1,values=f32,exchange=reducescatter", sizes[p]);
        dyadic_gradients(0);
        ranks_step(0, true, -1);
        for (size_t i = 0; i < RANKS_N; i++) {
            float sum = 0;
            for (int r = 0; r < sizes[p]; r++)
                sum += ranks[r].g[i];
            assert_true(ranks_aggregate(0)[i] == sum * (1.0f / (float)sizes[p]));
        }
        ranks_stop();
    }
}

/* Random rounding is unbiased in both rounds: owners draw numbers of their own. */
static void owners_draw_their_own(void **state)
{
    enum { DRAWS = 2000 };
    static double sum[RANKS_N];
    double bias = 0, first = 0;
    (void)state;
    ranks_start("qsgd:bits=2,exchange=reducescatter", 2);
    memset(sum, 0, sizeof sum);
    dyadic_gradients(0);
    for (uint64_t t = 0; t < DRAWS; t++) {
        ranks_step(t, true, -1);
        for (size_t i = 0; i < RANKS_N; i++)
            sum[i] += (double)ranks_aggregate(0)[i];
    }
    for (size_t i = 0; i < RANKS_N; i++) {
        const double mean = ((double)ranks[0].g[i] + (double)ranks[1].g[i]) / 2;
        const double off = sum[i] / DRAWS - mean;
        bias += off;
        first += off * off;
    }
    ranks_stop();
    /* deviations are below 3 (a unit of the sum is below 8, and half of it is applied) */
    assert_true(fabs(bias / RANKS_N) < 5 * 3 / sqrt((double)DRAWS * RANKS_N));
    assert_true(sqrt(first / RANKS_N) < 2 * 3 / sqrt(DRAWS));
}

static void refused(void **state)
{
    static const refusal cases[] = {
        {"topk:feedback=none,exchange=reducescatter", "feedback=none"},
        {"topk:feedback=none,exchange=gtopk", "feedback=none"},
        {"strom:exchange=reducescatter", "allowed: allgather, direct, star, twoway, auto, none"},
        {"2bit:exchange=reducescatter", "allowed: allgather, direct, star, twoway, auto, none"},
        {"signsgd:exchange=reducescatter", "allowed: allgather, direct, star, auto, none"},
    };
    (void)state;
    ranks_refuse(cases, TG_COUNT(cases));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exact),
        cmocka_unit_test(rounded),
        cmocka_unit_test(sums_stay_sparse),
        cmocka_unit_test(all_is_the_mean),
        cmocka_unit_test(owners_draw_their_own),
        cmocka_unit_test(refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
