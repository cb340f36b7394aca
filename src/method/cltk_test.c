/* CLT-k: ranks take turns leading; the support is the leader's top-k; a single rank equals top-k;
 * with many ranks the choice is sent via owners; the low-pass filter is ScaleCom's. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "method_ranks.h"
#include "telegrad/random.h"

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
    ranks_start("cltk:density=0.05,lookahead=0", 3);
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

/* Frames and memory equal those of top-k with f32 values. */
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

/* A leader without a finite gradient chooses nothing, and nothing is lost. */
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

/* 12 ranks: the choice is sent via owners, and is the same. */
static void many_ranks(void **state)
{
    static float p[RANKS_N];
    (void)state;
    ranks_start("cltk:density=0.05,lookahead=0", 12);
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

/* ---- the filter ------------------------------------------------------------------------------ */

static void normal_gradients(uint64_t t)
{
    for (int r = 0; r < ranks_size; r++) {
        const tg_rng_key key = {
            .seed = 6, .purpose = TG_PURPOSE_TEST, .rank = (uint32_t)r, .step = t};
        for (size_t i = 0; i < RANKS_N; i++)
            ranks[r].g[i] = (float)tg_rng_normal(&key, i);
    }
}

/* ScaleCom, algorithm 1 and equation 5, on plain arrays in f64: memories and the mean. leader < 0:
 * the step is dropped, as if nothing were sent. The leader ranks by |p + ahead * g|. */
typedef struct paper {
    double memory[HAND_RANKS][RANKS_N], mean[RANKS_N];
} paper;

static int by_size(const void *a, const void *b)
{
    const double x = **(double *const *)a, y = **(double *const *)b;
    return (fabs(x) < fabs(y)) - (fabs(x) > fabs(y));
}

static void paper_step(paper *w, int size, int leader, size_t k, double beta, double ahead)
{
    static double p[HAND_RANKS][RANKS_N], score[RANKS_N], *order[RANKS_N];
    bool chosen[RANKS_N] = {false};
    for (int r = 0; r < size; r++)
        for (size_t i = 0; i < RANKS_N; i++)
            p[r][i] = w->memory[r][i] + (double)ranks[r].g[i];
    for (size_t i = 0; leader >= 0 && i < RANKS_N; i++) {
        score[i] = p[leader][i] + ahead * (double)ranks[leader].g[i];
        order[i] = &score[i];
    }
    if (leader >= 0)
        qsort(order, RANKS_N, sizeof *order, by_size);
    for (size_t i = 0; leader >= 0 && i < k; i++)
        chosen[order[i] - score] = true;
    for (size_t i = 0; i < RANKS_N; i++) {
        w->mean[i] = 0;
        for (int r = 0; r < size; r++) {
            const double sent = chosen[i] ? p[r][i] : 0;
            w->mean[i] += sent / size;
            w->memory[r][i] = (1 - beta) * w->memory[r][i] + beta * (p[r][i] - sent);
        }
    }
}

static void assert_near(const float *got, const double *want, const char *what, int r, uint64_t t)
{
    for (size_t i = 0; i < RANKS_N; i++)
        if (!(fabs((double)got[i] - want[i]) <= 2e-6))
            fail_msg("step %d, rank %d: %s[%zu] is %.9g, not %.9g", (int)t, r, what, i,
                     (double)got[i], want[i]);
}

/* One step is dense (memories do not change). One is dropped because a rank, not the leader if
 * there is another, has no finite gradient: that rank's memory does not change, and the others take
 * back what they sent. */
static void filter_against_the_paper(const char *text, double beta, double ahead, int size)
{
    enum { STEPS = 14, DENSE = 4, DROPPED = 8 };
    static paper w;
    memset(&w, 0, sizeof w);
    ranks_start(text, size);
    for (uint64_t t = 0; t < STEPS; t++) {
        const bool dropped = t == DROPPED;
        const int leader = (int)(t % (uint64_t)size), without = (leader + 1) % size;
        normal_gradients(t);
        ranks_step(t, t != DENSE, dropped ? without : -1);
        ranks_settle(dropped);
        if (dropped)
            memset(ranks[without].g, 0, sizeof ranks[without].g);
        if (t != DENSE)
            paper_step(&w, size, dropped ? -1 : leader, 50, beta, ahead);
        if (t != DENSE && !dropped)
            assert_near(ranks_aggregate(0), w.mean, "the mean", 0, t);
        for (int r = 0; r < size; r++)
            assert_near(tg__feedback_pending(ranks[r].m->feedback), w.memory[r], "the memory", r,
                        t);
    }
    ranks_stop();
}

static void the_filter_is_the_papers(void **state)
{
    (void)state;
    static const int sizes[] = {1, 2, 3, 12};
    for (size_t s = 0; s < TG_COUNT(sizes); s++) {
        filter_against_the_paper("cltk:density=0.05,beta=0.1,lookahead=0", 0.1, 0, sizes[s]);
        filter_against_the_paper("cltk:density=0.05,beta=0.75,lookahead=0,exchange=ring", 0.75, 0,
                                 sizes[s]);
        filter_against_the_paper("cltk:density=0.05,lookahead=0", 1, 0, sizes[s]);
        filter_against_the_paper("cltk:density=0.05", 1, 2, sizes[s]);
        filter_against_the_paper("cltk:density=0.05,beta=0.5,lookahead=0.25", 0.5, 0.25, sizes[s]);
    }
}

/* 0.99999999 uses the filter, and is 1 in f32. */
static void beta_1_is_error_feedback(void **state)
{
    static const char *const specs[] = {"cltk:density=0.05", "cltk:density=0.05,beta=1",
                                        "cltk:density=0.05,beta=0.99999999"};
    static float mean[8][RANKS_N], kept[3][RANKS_N];
    (void)state;
    for (size_t s = 0; s < TG_COUNT(specs); s++) {
        ranks_start(specs[s], 3);
        assert_int_equal(tg__feedback_filters(ranks[0].m->feedback), s == 2);
        for (uint64_t t = 0; t < 8; t++) {
            const int without = t == 5 ? 1 : -1;
            normal_gradients(t);
            ranks_step(t, t != 3, without);
            ranks_settle(without >= 0);
            if (s == 0)
                memcpy(mean[t], ranks_aggregate(0), sizeof mean[t]);
            assert_memory_equal(mean[t], ranks_aggregate(0), sizeof mean[t]);
        }
        for (int r = 0; r < 3; r++) {
            const float *pending = tg__feedback_pending(ranks[r].m->feedback);
            if (s == 0)
                memcpy(kept[r], pending, sizeof kept[r]);
            assert_memory_equal(kept[r], pending, sizeof kept[r]);
        }
        ranks_stop();
    }
}

/* The amount that a checkpoint must add if it is saved between encoding a step and knowing whether
 * it is dropped. */
static void what_is_owed_is_filtered(void **state)
{
    static float owed[RANKS_N], before[RANKS_N];
    (void)state;
    ranks_start("cltk:density=0.05,beta=0.25", 2);
    gradients(0);
    ranks_step(0, true, -1);
    for (int r = 0; r < 2; r++) {
        tg__method *m = ranks[r].m;
        float *pending = tg__feedback_pending(m->feedback);
        size_t some = 0;
        memcpy(before, pending, sizeof before);
        assert_int_equal(tg__method_owed(m, &ranks[r].task, true, owed), TG_OK);
        assert_memory_equal(before, pending, sizeof before);
        for (size_t i = 0; i < RANKS_N; i++) {
            some += owed[i] != 0;
            assert_true(before[i] + owed[i] == 0.25f * ranks[r].g[i]);
        }
        assert_in_range(some, 45, 50);
    }
    ranks_stop();
}

static void betas_that_are_refused(void **state)
{
    static const char *const specs[] = {"cltk:beta=0", "cltk:beta=-0.1", "cltk:beta=1.1",
                                        "cltk:beta=nan"};
    (void)state;
    for (size_t s = 0; s < TG_COUNT(specs); s++) {
        tg_spec *spec;
        const tg__method_def *def;
        assert_int_equal(tg__method_parse(specs[s], &spec, &def), TG_E_SPEC);
        assert_non_null(strstr(tg_error(), "beta"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_leader_chooses),          cmocka_unit_test(alone_it_is_topk),
        cmocka_unit_test(a_leader_without_a_gradient), cmocka_unit_test(many_ranks),
        cmocka_unit_test(the_filter_is_the_papers),    cmocka_unit_test(beta_1_is_error_feedback),
        cmocka_unit_test(what_is_owed_is_filtered),    cmocka_unit_test(betas_that_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
