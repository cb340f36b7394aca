/* Stochastic gradient push, compared with a plain simulation that also sends weights; the cases in
 * which it is exact; the behaviour with one rank; values that are not finite. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "strategy_play.h"

/* Initial parameters with few bits, different on each rank, so that the mean is exact. */
static void scatter(play *p)
{
    for (int j = 0; j < p->ranks; j++)
        for (size_t e = 0; e < PLAY_N; e++)
            p->rank[j].w[e] = (float)((e * 7 + (size_t)j * 5) % 16) / 16;
}

static void start(play *p, const char *strategy, const char *optimizer, int ranks)
{
    play_create(p, strategy, optimizer, ranks);
    scatter(p);
    play_begin_run(p);
}

/* Two ranks agree after one push, four after two; with learning rate 0, on the mean. */
static void powers_of_two_agree(void **state)
{
    (void)state;
    for (int ranks = 2; ranks <= 4; ranks *= 2) {
        play p;
        start(&p, "gossip", "sgd:lr=0", ranks);
        float mean[PLAY_N] = {0};
        for (size_t e = 0; e < PLAY_N; e++) {
            for (int j = 0; j < ranks; j++)
                mean[e] += p.rank[j].w[e];
            mean[e] /= (float)ranks;
        }
        for (int t = 0; t < ranks / 2; t++)
            play_step(&p);
        for (int j = 0; j < ranks; j++)
            assert_same_bits(p.rank[j].w, mean);
        play_destroy(&p);
    }
}

/* Push-sum as published, with weights sent: x and m of each rank, and what is in flight. */
typedef struct sum {
    double x[PLAY_RANKS][PLAY_N], m[PLAY_RANKS];
    struct {
        double x[PLAY_RANKS][PLAY_N], m[PLAY_RANKS];
        bool out;
    } sent[100]; /* in each step */
} sum;

static void receive(sum *s, int ranks, size_t step, int hop)
{
    for (int j = 0; j < ranks; j++) {
        const int from = (j - hop + ranks) % ranks;
        for (size_t e = 0; e < PLAY_N; e++)
            s->x[j][e] += s->sent[step].x[from][e];
        s->m[j] += s->sent[step].m[from];
    }
    s->sent[step].out = false;
}

/* The hop of push number k. */
static int hop_of(int ranks, size_t k)
{
    int hops = 0;
    while (1 << hops < ranks)
        hops++;
    return 1 << k % (size_t)hops;
}

static void assert_near(const float *a, const double *b, double scale, const char *what, size_t t)
{
    for (size_t e = 0; e < PLAY_N; e++)
        if (fabs(a[e] - b[e] / scale) > 2e-5)
            fail_msg("%s, step %zu: element %zu is %g, not %g", what, t, e, (double)a[e],
                     b[e] / scale);
}

static void compare(const char *strategy, size_t overlap, int ranks)
{
    enum { STEPS = 23, MEAN = 1000 };
    static sum s;
    play p;
    start(&p, strategy, "sgd:lr=0.05,weight_decay=0.01", ranks);
    s = (sum){0};
    for (int j = 0; j < ranks; j++) {
        s.m[j] = 1;
        for (size_t e = 0; e < PLAY_N; e++)
            s.x[j][e] = p.rank[j].w[e];
    }
    for (size_t t = 0; t < STEPS; t++) {
        float g[PLAY_RANKS][PLAY_N];
        for (int j = 0; j < ranks; j++)
            play_gradient(g[j], p.rank[j].w, j, t);
        double z[PLAY_RANKS][PLAY_N];
        for (int j = 0; j < ranks; j++)
            for (size_t e = 0; e < PLAY_N; e++)
                z[j][e] = s.x[j][e] / s.m[j];
        const size_t every = overlap > 0 ? overlap : 1;
        const bool pushes = t % every == 0;
        if (overlap > 0 && pushes && t > 0)
            receive(&s, ranks, t - overlap, hop_of(ranks, t / every - 1));
        for (int j = 0; j < ranks; j++) {
            for (size_t e = 0; e < PLAY_N; e++) {
                s.x[j][e] -= 0.05 * (g[j][e] + 0.01 * z[j][e]);
                s.x[j][e] /= pushes ? 2 : 1;
                s.sent[t].x[j][e] = s.x[j][e];
            }
            s.m[j] /= pushes ? 2 : 1;
            s.sent[t].m[j] = s.m[j];
        }
        s.sent[t].out = pushes;
        if (overlap == 0)
            receive(&s, ranks, t, hop_of(ranks, t));
        play_step(&p);
        for (int j = 0; j < ranks; j++)
            assert_near(p.rank[j].w, s.x[j], s.m[j], strategy, t);
    }
    double mean[PLAY_N] = {0}, mass = 0;
    for (size_t t = 0; t < STEPS; t++)
        if (s.sent[t].out)
            receive(&s, ranks, t, hop_of(ranks, t / overlap));
    for (int j = 0; j < ranks; j++) {
        mass += s.m[j];
        for (size_t e = 0; e < PLAY_N; e++)
            mean[e] += s.x[j][e];
    }
    assert_true(mass == ranks); /* nothing is lost */
    play_drain(&p);
    for (int j = 0; j < ranks; j++) {
        assert_near(p.rank[j].w, mean, ranks, strategy, STEPS);
        assert_same_bits(p.rank[j].w, p.rank[0].w);
        assert_same_bits(play_global(&p, j), p.rank[0].w);
    }
    play_destroy(&p);
}

static void it_is_push_sum(void **state)
{
    (void)state;
    for (int ranks = 2; ranks <= PLAY_RANKS; ranks++) {
        compare("gossip:mean=1000", 0, ranks);
        compare("gossip:mean=1000,overlap=1", 1, ranks);
        compare("gossip:mean=1000,overlap=2", 2, ranks);
        compare("gossip:mean=1000,overlap=5", 5, ranks);
    }
}

/* A mean includes everything in flight; after each mean the sequence starts again. */
static void means_are_exact(void **state)
{
    (void)state;
    play p, again;
    start(&p, "gossip:mean=6,overlap=3", "sgd:lr=0", 5);
    double mean[PLAY_N] = {0};
    for (size_t e = 0; e < PLAY_N; e++)
        for (int j = 0; j < 5; j++)
            mean[e] += p.rank[j].w[e];
    for (int t = 0; t < 6; t++)
        play_step(&p);
    assert_int_equal(p.flights, 0);
    for (int j = 0; j < 5; j++) {
        assert_near(p.rank[j].w, mean, 5, "mean", 6);
        assert_same_bits(p.rank[j].w, p.rank[0].w);
    }
    play_create(&again, "gossip:mean=6,overlap=3", "sgd:lr=0", 5);
    for (int j = 0; j < 5; j++)
        memcpy(again.rank[j].w, p.rank[j].w, sizeof again.rank[j].w);
    play_begin_run(&again);
    for (int t = 0; t < 4; t++) {
        play_step(&again);
        play_step(&p);
        for (int j = 0; j < 5; j++)
            assert_same_bits(again.rank[j].w, p.rank[j].w);
    }
    play_destroy(&p);
    play_destroy(&again);
}

/* mean=1: synchronous, with an optimizer per rank; where sums are exact, it equals local SGD. */
static void a_mean_in_each_step_is_local(void **state)
{
    (void)state;
    play x, y;
    play_create(&x, "gossip:mean=1", "sgd:lr=0.25,momentum=0.5", 2);
    play_create(&y, "local:every=1", "sgd:lr=0.25,momentum=0.5", 2);
    for (int j = 0; j < 2; j++)
        for (size_t e = 0; e < PLAY_N; e++)
            x.rank[j].w[e] = y.rank[j].w[e] = (float)(e % 9) / 8 - 0.5f;
    play_begin_run(&x);
    play_begin_run(&y);
    for (int t = 0; t < 5; t++) {
        for (int j = 0; j < 2; j++)
            for (size_t e = 0; e < PLAY_N; e++)
                x.rank[j].g[e] = y.rank[j].g[e] =
                    rintf(4 * sinf((float)(e + 7 * (size_t)t + (size_t)j))) / 4;
        play_step_on(&x);
        play_step_on(&y);
        for (int j = 0; j < 2; j++)
            assert_same_bits(x.rank[j].w, y.rank[j].w);
    }
    play_destroy(&x);
    play_destroy(&y);
}

/* With one rank it is sequential training. */
static void one_rank_is_sequential(void **state)
{
    (void)state;
    static const char *const gossips[] = {"gossip", "gossip:overlap=2,mean=4"};
    for (size_t i = 0; i < TG_COUNT(gossips); i++) {
        play x, y;
        play_create(&x, gossips[i], "adamw:lr=0.01,weight_decay=0.1", 1);
        play_create(&y, "ssgd", "adamw:lr=0.01,weight_decay=0.1", 1);
        play_begin_run(&x);
        play_begin_run(&y);
        for (int t = 0; t < 11; t++) {
            play_step(&x);
            play_step(&y);
            assert_same_bits(x.rank[0].w, y.rank[0].w);
        }
        play_drain(&x);
        assert_same_bits(x.rank[0].w, y.rank[0].w);
        play_destroy(&x);
        play_destroy(&y);
    }
}

static void spoil(play_rank *r)
{
    for (size_t i = 0; i < r->s->nslots; i++)
        if (strcmp(r->s->request[i].name, "mass") == 0)
            r->s->slot[i][0][3] = INFINITY;
}

/* A gradient that is not finite costs its rank a step. A rank whose parameters are not finite
 * returns to the last mean when its push has ended, on its own; if the exchange is a mean, all
 * ranks return. */
static void not_finite(void **state)
{
    (void)state;
    play p;
    start(&p, "gossip:mean=6,overlap=1", "sgd:lr=0.1,momentum=0.9", 3);
    for (int t = 0; t < 6; t++) {
        p.bad_rank = t == 3 ? 1 : -1;
        play_step(&p);
    }
    for (int j = 0; j < 3; j++)
        for (size_t e = 0; e < PLAY_N; e++)
            assert_true(isfinite(p.rank[j].w[e]));
    float last[PLAY_N];
    memcpy(last, p.rank[0].w, sizeof last);
    play_step(&p);
    spoil(&p.rank[2]);
    play_step(&p); /* its push is discarded before the next step */
    assert_true(isinf(p.rank[2].w[3]) != 0);
    p.bad_rank = 2;
    play_step(&p);
    for (int j = 0; j < 3; j++)
        for (size_t e = 0; e < PLAY_N; e++)
            assert_true(isfinite(p.rank[j].w[e]));
    play_step(&p);
    play_step(&p);
    spoil(&p.rank[2]);
    play_step(&p);
    assert_int_equal(p.t, 12);
    assert_int_equal(p.flights, 0);
    for (int j = 0; j < 3; j++) { /* bucket 1 is lost, the other is not */
        assert_memory_equal(p.rank[j].w, last, 30 * sizeof *last);
        assert_memory_not_equal(p.rank[j].w + 30, last + 30, 40 * sizeof *last);
        assert_same_bits(p.rank[j].w, p.rank[0].w);
    }
    play_destroy(&p);
}

/* A drained run continues as a new run begins. */
static void it_goes_on_after_a_drain(void **state)
{
    (void)state;
    play p, again;
    start(&p, "gossip:mean=1000,overlap=2", "sgd:lr=0.1", 5);
    for (int t = 0; t < 5; t++)
        play_step(&p);
    play_drain(&p);
    play_create(&again, "gossip:mean=1000,overlap=2", "sgd:lr=0.1", 5);
    again.t = p.t;
    for (int j = 0; j < 5; j++)
        memcpy(again.rank[j].w, p.rank[j].w, sizeof again.rank[j].w);
    play_begin_run(&again);
    for (int j = 0; j < 5; j++)
        again.rank[j].s->anew = p.t;
    for (int t = 0; t < 4; t++) {
        play_step(&again);
        play_step(&p);
        for (int j = 0; j < 5; j++)
            assert_same_bits(again.rank[j].w, p.rank[j].w);
    }
    play_drain(&p);
    play_drain(&again);
    assert_same_bits(again.rank[0].w, p.rank[4].w);
    play_destroy(&p);
    play_destroy(&again);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(powers_of_two_agree),      cmocka_unit_test(it_is_push_sum),
        cmocka_unit_test(means_are_exact),          cmocka_unit_test(a_mean_in_each_step_is_local),
        cmocka_unit_test(one_rank_is_sequential),   cmocka_unit_test(not_finite),
        cmocka_unit_test(it_goes_on_after_a_drain),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
