/* CLT-k: ranks lead in turn; the support is the leader's top-k; one rank alone is top-k; many ranks
 * pass the choice on by way of owners. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "method_ranks.h"

#include <stdlib.h>

static void gradients(uint64_t t)
{
    for (int r = 0; r < ranks_size; r++) {
        const tg_rng_key key = {
            .seed = 5, .purpose = TG_PURPOSE_TEST, .rank = (uint32_t)r, .step = t};
        for (size_t i = 0; i < RANKS_N; i++)
            ranks[r].g[i] = (float)(floor(tg_rng_normal(&key, i) * 64) / 64);
    }
}

static int by_magnitude(const void *a, const void *b)
{
    const float x = fabsf(*(const float *)a), y = fabsf(*(const float *)b);
    return (x < y) - (x > y);
}

/* The k-th largest magnitude of r + g. */
static float threshold(int who, size_t k, float p[RANKS_N])
{
    static float sorted[RANKS_N];
    const float *r = tg__feedback_pending(ranks[who].m->feedback);
    for (size_t i = 0; i < RANKS_N; i++)
        sorted[i] = p[i] = r[i] + ranks[who].g[i];
    qsort(sorted, RANKS_N, sizeof *sorted, by_magnitude);
    return fabsf(sorted[k - 1]);
}

static void the_leader_chooses(void **state)
{
    static float p[3][RANKS_N];
    (void)state;
    ranks_start("cltk:density=0.05", 3);
    for (uint64_t t = 0; t < 7; t++) {
        const int leader = (int)(t % 3);
        float at_least = 0;
        size_t sent = 0;
        gradients(t);
        for (int r = 0; r < 3; r++) {
            const float kth = threshold(r, 50, p[r]);
            at_least = r == leader ? kth : at_least;
        }
        assert_int_equal(ranks_step(t, true, -1), 2);
        ranks_settle(false);
        for (size_t i = 0; i < RANKS_N; i++) {
            const float got = ranks_aggregate(0)[i];
            sent += got != 0;
            if (got != 0)
                assert_true(fabsf(p[leader][i]) >= at_least);
            if (fabsf(p[leader][i]) > at_least)
                assert_true(got == ((p[0][i] + p[1][i]) + p[2][i]) * (1.0f / 3));
        }
        assert_true(sent <= 50 && sent >= 45); /* some sums may be 0 */
        for (int r = 0; r < 3; r++) {
            assert_int_equal(ranks[r].task.kept, 50);
            assert_true((ranks[r].task.coded_bytes > 3 * 12 + 12 + 4 * 50) == (r == leader));
        }
    }
    ranks_stop();
}

/* Frames and memory of top-k with f32 values. */
static void alone_it_is_topk(void **state)
{
    static float sent[5][RANKS_N], r[RANKS_N];
    (void)state;
    ranks_start("topk:density=0.05,values=f32", 1);
    for (uint64_t t = 0; t < 5; t++) {
        gradients(t);
        ranks_step(t, true, -1);
        memcpy(sent[t], ranks_aggregate(0), sizeof sent[t]);
    }
    memcpy(r, tg__feedback_pending(ranks[0].m->feedback), sizeof r);
    ranks_stop();
    ranks_start("cltk:density=0.05", 1);
    for (uint64_t t = 0; t < 5; t++) {
        gradients(t);
        ranks_step(t, true, -1);
        assert_memory_equal(sent[t], ranks_aggregate(0), sizeof sent[t]);
    }
    assert_memory_equal(r, tg__feedback_pending(ranks[0].m->feedback), sizeof r);
    ranks_stop();
}

/* A leader without a gradient chooses nothing, and nothing is lost. */
static void a_leader_without_a_gradient(void **state)
{
    static float before[2][RANKS_N];
    (void)state;
    ranks_start("cltk:density=0.05", 2);
    gradients(0);
    ranks_step(0, true, -1);
    ranks_settle(false);
    for (int r = 0; r < 2; r++)
        memcpy(before[r], tg__feedback_pending(ranks[r].m->feedback), sizeof before[r]);
    gradients(1);
    assert_int_equal(ranks_step(1, true, 1), 2);
    for (size_t i = 0; i < RANKS_N; i++)
        assert_true(ranks_aggregate(0)[i] == 0);
    ranks_settle(true);
    for (size_t i = 0; i < RANKS_N; i++)
        before[0][i] += ranks[0].g[i];
    for (int r = 0; r < 2; r++)
        assert_memory_equal(before[r], tg__feedback_pending(ranks[r].m->feedback),
                            sizeof before[r]);
    ranks_stop();
}

/* 12 ranks: the choice goes by way of owners, and is the same. */
static void many_ranks(void **state)
{
    static float p[RANKS_N];
    (void)state;
    ranks_start("cltk:density=0.05", 12);
    for (uint64_t t = 0; t < 3; t++) {
        gradients(t);
        const float at_least = threshold((int)t, 50, p);
        size_t sent = 0;
        ranks_step(t, true, -1);
        for (size_t i = 0; i < RANKS_N; i++) {
            const float got = ranks_aggregate(0)[i];
            sent += got != 0;
            if (got != 0)
                assert_true(fabsf(p[i]) >= at_least);
        }
        assert_true(sent <= 50 && sent >= 45);
        ranks_settle(false);
    }
    ranks_stop();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_leader_chooses),
        cmocka_unit_test(alone_it_is_topk),
        cmocka_unit_test(a_leader_without_a_gradient),
        cmocka_unit_test(many_ranks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
