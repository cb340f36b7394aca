/* Delayed averaging and plain delay: with delay 0, 1, or longer than the run; their closed form,
 * momentum, dropped steps, draining. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "strategy_play.h"

static const char *const optimizers[] = {"sgd:lr=0.1",
                                         "sgd:lr=0.1,weight_decay=0.01",
                                         "sgd:lr=0.1,momentum=0.9,weight_decay=0.01",
                                         "sgd:lr=0.1,momentum=0.9,nesterov=yes",
                                         "adam:lr=0.1",
                                         "adamw:lr=0.1,weight_decay=0.1"};

/* Compare both step by step, with a changing rate, including a step dropped because of some
 * rank. */
static void assert_same_runs(const char *a, const char *b, const char *optimizer, int ranks,
                             uint64_t steps)
{
    play x, y;
    play_create(&x, a, optimizer, ranks);
    play_create(&y, b, optimizer, ranks);
    play_begin_run(&x);
    play_begin_run(&y);
    for (uint64_t t = 0; t < steps; t++) {
        x.lr = y.lr = t < 6 ? 0.1 : 0.03;
        x.bad_rank = y.bad_rank = t == 4 ? ranks - 1 : -1;
        play_step(&x);
        play_step(&y);
        for (int j = 0; j < ranks; j++)
            assert_same_bits(x.rank[j].w, y.rank[j].w);
    }
    play_drain(&x);
    play_drain(&y);
    for (int j = 0; j < ranks; j++) {
        assert_same_bits(x.rank[j].w, y.rank[j].w);
        assert_same_bits(x.rank[j].w, x.rank[0].w);
        assert_same_bits(play_global(&x, j), x.rank[0].w);
    }
    play_destroy(&x);
    play_destroy(&y);
}

static void without_delay_it_is_ssgd(void **state)
{
    (void)state;
    for (size_t o = 0; o < TG_COUNT(optimizers); o++) {
        assert_same_runs("dga:delay=0", "ssgd", optimizers[o], 3, 10);
        assert_same_runs("dga:delay=0,correct=no", "ssgd", optimizers[o], 3, 10);
        assert_same_runs("pipe:width=1", "ssgd", optimizers[o], 3, 10);
    }
}

static void one_step_of_delay_is_od(void **state)
{
    (void)state;
    for (size_t o = 0; o < 2; o++)
        assert_same_runs("dga:delay=1", "od:warmup=0", optimizers[o], 3, 10);
    for (size_t o = 0; o < 4; o++)
        assert_same_runs("pipe:width=2", "od:warmup=0,eta_loc=0", optimizers[o], 3, 10);
}

static void uncorrected_it_is_plain_delay(void **state)
{
    (void)state;
    for (size_t o = 0; o < TG_COUNT(optimizers); o++)
        assert_same_runs("dga:delay=3,correct=no", "pipe:width=4", optimizers[o], 2, 10);
}

/* One rank: SGD, with any optimizer, on the gradient of width - 1 steps ago. */
static void pipe_alone_is_late(void **state)
{
    (void)state;
    enum { WIDTH = 3 };
    for (size_t o = 0; o < TG_COUNT(optimizers); o++) {
        float g[WIDTH][PLAY_N];
        play p, sequential;
        play_create(&p, "pipe:width=3", optimizers[o], 1);
        play_create(&sequential, "ssgd", optimizers[o], 1);
        play_begin_run(&p);
        play_begin_run(&sequential);
        for (uint64_t t = 0; t < 9; t++) {
            play_step(&p);
            memcpy(g[t % WIDTH], p.rank[0].g, sizeof p.rank[0].g);
            if (t + 1 >= WIDTH) {
                memcpy(sequential.rank[0].g, g[(t + 1) % WIDTH], sizeof g[0]);
                play_step_on(&sequential);
            }
            assert_same_bits(p.rank[0].w, sequential.rank[0].w);
        }
        play_destroy(&p);
        play_destroy(&sequential);
    }
}

/* With a delay longer than the run each rank trains by itself; after draining, all have the
 * averages' parameters. */
static void long_delay_is_local(void **state)
{
    (void)state;
    static const char *const strategies[] = {"dga:delay=7", "dga:delay=8,every=4"};
    for (size_t o = 0; o < TG_COUNT(optimizers); o++)
        for (size_t s = 0; s < TG_COUNT(strategies); s++) {
            play p, alone[3];
            play_create(&p, strategies[s], optimizers[o], 3);
            play_begin_run(&p);
            for (int j = 0; j < 3; j++) {
                play_create(&alone[j], "ssgd", optimizers[o], 1);
                play_begin_run(&alone[j]);
            }
            for (uint64_t t = 0; t < 7; t++) {
                for (int j = 0; j < 3; j++) {
                    play_gradient(alone[j].rank[0].g, alone[j].rank[0].w, j, t);
                    play_step_on(&alone[j]);
                }
                play_step(&p);
                for (int j = 0; j < 3; j++)
                    assert_same_bits(p.rank[j].w, alone[j].rank[0].w);
            }
            play_drain(&p);
            for (int j = 0; j < 3; j++) {
                assert_same_bits(p.rank[j].w, p.rank[0].w);
                play_destroy(&alone[j]);
            }
            play_destroy(&p);
        }
}

typedef struct model { /* in f64, rank by rank: optimizers fed the corrected gradient */
    double w[PLAY_RANKS][PLAY_N], u[PLAY_RANKS][PLAY_N];
    double g[32][PLAY_RANKS][PLAY_N], lr[32];
} model;

static double mean_of(const model *m, uint64_t t, size_t e)
{
    return (m->g[t][0][e] + m->g[t][1][e] + m->g[t][2][e]) / 3;
}

/* A different quadratic on each rank. */
static double slope(double w, int j, size_t e)
{
    return (0.5 + 0.03 * (double)(e % 7) + 0.1 * j) * (w - 0.3 * j - cos(0.2 * (double)e));
}

static double error_of(const play *p, const model *m)
{
    double worst = 0;
    for (int j = 0; j < 3; j++)
        for (size_t e = 0; e < PLAY_N; e++)
            worst = fmax(worst, fabs((double)p->rank[j].w[e] - m->w[j][e]));
    return worst;
}

/* w_T = w_0 - [sum over s <= T - D of eta_s * mean g_s, plus the last D of the own U]; and with
 * momentum (at a constant rate): as if the corrected gradient were passed to each rank's
 * optimizer. */
static void closed_form_on_quadratics(void **state)
{
    (void)state;
    enum { STEPS = 20 };
    static model m;
    for (int momentum = 0; momentum < 2; momentum++)
        for (uint64_t delay = 1; delay <= 5; delay++) {
            char spec[32];
            play p;
            snprintf(spec, sizeof spec, "dga:delay=%d", (int)delay);
            play_create(&p, spec, momentum ? "sgd:lr=0.1,momentum=0.8" : "sgd:lr=0.1", 3);
            play_begin_run(&p);
            memset(&m, 0, sizeof m);
            for (int j = 0; j < 3; j++)
                for (size_t e = 0; e < PLAY_N; e++)
                    m.w[j][e] = (double)p.rank[j].w[e];
            for (uint64_t t = 0; t < STEPS; t++) {
                p.lr = m.lr[t] = momentum ? 0.1 : 0.1 / (1 + 0.2 * (double)t);
                for (int j = 0; j < 3; j++)
                    for (size_t e = 0; e < PLAY_N; e++) {
                        m.g[t][j][e] = slope(m.w[j][e], j, e);
                        p.rank[j].g[e] = (float)slope((double)p.rank[j].w[e], j, e);
                    }
                play_step_on(&p);
                for (int j = 0; j < 3; j++)
                    for (size_t e = 0; e < PLAY_N; e++) {
                        const uint64_t old = t - delay;
                        double change = m.lr[t] * m.g[t][j][e];
                        if (t >= delay)
                            change += m.lr[old] * (mean_of(&m, old, e) - m.g[old][j][e]);
                        m.u[j][e] = (momentum ? 0.8 * m.u[j][e] : 0) + change;
                        m.w[j][e] -= m.u[j][e];
                    }
                if (error_of(&p, &m) > 2e-6)
                    fail_msg("%s, step %d: %g", spec, (int)t, error_of(&p, &m));
            }
            play_drain(&p);
            for (size_t e = 0; !momentum && e < PLAY_N; e++) {
                double w = cos((double)e), sum = 0;
                for (uint64_t t = 0; t < STEPS; t++)
                    sum += m.lr[t] * mean_of(&m, t, e);
                assert_true(fabs((double)p.rank[0].w[e] - ((double)(float)w - sum)) < 3e-6);
            }
            play_destroy(&p);
        }
}

/* Blocks: the same formula with a block's U in place of a step's. */
static void blocks_on_quadratics(void **state)
{
    (void)state;
    enum { STEPS = 21, EVERY = 3, DELAY = 6 };
    play p;
    double w[3][PLAY_N], block[8][3][PLAY_N] = {{{0}}};
    play_create(&p, "dga:delay=6,every=3", "sgd:lr=0.1", 3);
    play_begin_run(&p);
    for (int j = 0; j < 3; j++)
        for (size_t e = 0; e < PLAY_N; e++)
            w[j][e] = (double)p.rank[j].w[e];
    for (uint64_t t = 0; t < STEPS; t++) {
        for (int j = 0; j < 3; j++)
            for (size_t e = 0; e < PLAY_N; e++) {
                if (t >= EVERY - 1 + DELAY && (t + 1) % EVERY == 0) {
                    double(*old)[PLAY_N] = block[(t - DELAY) / EVERY];
                    w[j][e] -= (old[0][e] + old[1][e] + old[2][e]) / 3 - old[j][e];
                }
            }
        for (int j = 0; j < 3; j++)
            for (size_t e = 0; e < PLAY_N; e++)
                p.rank[j].g[e] = (float)slope((double)p.rank[j].w[e], j, e);
        play_step_on(&p);
        for (int j = 0; j < 3; j++)
            for (size_t e = 0; e < PLAY_N; e++) {
                const double u = 0.1 * (double)p.rank[j].g[e];
                block[t / EVERY][j][e] += u;
                w[j][e] -= u;
                assert_true(fabs(w[j][e] - (double)p.rank[j].w[e]) < 2e-6);
            }
    }
    play_destroy(&p);
}

/* A rank whose gradient is not finite in some step: all ranks drop that average, and the others'
 * own step as well, with no trace left. */
static void dropped_steps_leave_nothing(void **state)
{
    (void)state;
    static const char *const strategies[] = {"dga:delay=2", "dga:delay=2,every=2", "pipe:width=3"};
    for (size_t s = 0; s < TG_COUNT(strategies); s++) {
        play p;
        play_create(&p, strategies[s], "sgd:lr=0.1,momentum=0.9", 3);
        play_begin_run(&p);
        for (uint64_t t = 0; t < 11; t++) {
            p.bad_rank = t == 3 || t == 4 ? (int)(t % 3) : -1;
            play_step(&p);
        }
        play_drain(&p);
        for (int j = 0; j < 3; j++) {
            assert_same_bits(p.rank[j].w, p.rank[0].w);
            assert_same_bits(play_global(&p, j), p.rank[0].w);
            for (size_t e = 0; e < PLAY_N; e++)
                assert_true(isfinite(p.rank[j].w[e]));
        }
        play_destroy(&p);
    }
}

/* Parameters that are not finite after own steps: their block is dropped, and the rank continues
 * from the averages' parameters. */
static void a_lost_rank_comes_back(void **state)
{
    (void)state;
    play p;
    play_create(&p, "dga:delay=2,every=2", "sgd:lr=0.1", 3);
    play_begin_run(&p);
    play_step(&p);
    p.rank[1].w[7] = INFINITY; /* as too large a step would leave it */
    p.rank[1].slot[2][7] = -INFINITY;
    p.rank[1].slot[1][7] = -INFINITY;
    for (uint64_t t = 1; t < 8; t++) {
        for (int j = 0; j < 3; j++)
            for (size_t e = 0; e < PLAY_N; e++)
                p.rank[j].g[e] = 0.1f;
        p.bad_rank = isfinite(p.rank[1].w[7]) ? -1 : 1;
        play_step_on(&p);
    }
    for (size_t e = 0; e < PLAY_N; e++)
        assert_true(isfinite(p.rank[1].w[e]));
    play_destroy(&p);
}

static void several_are_under_way(void **state)
{
    (void)state;
    play p;
    play_create(&p, "dga:delay=2", "sgd:lr=0.1", 2);
    play_begin_run(&p);
    for (int t = 0; t < 4; t++)
        play_step(&p);
    static const char *const want[] = {"x0c", "x1c", "s", "x0c", "x1c", "s",  "x0c", "x1c",
                                       "r0",  "r1",  "s", "x0c", "x1c", "r0", "r1",  "s"};
    assert_int_equal(p.nevents, TG_COUNT(want));
    for (size_t i = 0; i < TG_COUNT(want); i++)
        assert_string_equal(p.events[i], want[i]);
    play_destroy(&p);
}

/* Adam: the mean of the ranks' own steps replaces them. Gradients of opposite signs and different
 * sizes make opposite steps of Adam, whose mean is 0. With SGD, the mean gradient counts. */
static void averages_the_steps_of_adam(void **state)
{
    (void)state;
    static const char *const both[] = {"adam:lr=0.1", "sgd:lr=0.1"};
    for (size_t o = 0; o < 2; o++) {
        static play p;
        float start[PLAY_N];
        play_create(&p, "dga:delay=3", both[o], 2);
        assert_true(p.rank[0].s->sends_updates == (o == 0));
        play_begin_run(&p);
        memcpy(start, p.rank[0].w, sizeof start);
        for (int t = 0; t < 8; t++) {
            for (size_t e = 0; e < PLAY_N; e++) {
                p.rank[0].g[e] = e % 2 == 0 ? 1 : -2;
                p.rank[1].g[e] = -0.25f * p.rank[0].g[e];
            }
            play_step_on(&p);
            assert_true(play_distance(p.rank[0].w, start) > 0.05);
        }
        play_drain(&p);
        assert_agreed(&p);
        const double moved = play_distance(p.rank[0].w, start);
        assert_true(o == 0 ? moved < 1e-5 : moved > 0.1);
        play_destroy(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(averages_the_steps_of_adam),
        cmocka_unit_test(without_delay_it_is_ssgd),
        cmocka_unit_test(one_step_of_delay_is_od),
        cmocka_unit_test(uncorrected_it_is_plain_delay),
        cmocka_unit_test(pipe_alone_is_late),
        cmocka_unit_test(long_delay_is_local),
        cmocka_unit_test(closed_form_on_quadratics),
        cmocka_unit_test(blocks_on_quadratics),
        cmocka_unit_test(dropped_steps_leave_nothing),
        cmocka_unit_test(a_lost_rank_comes_back),
        cmocka_unit_test(several_are_under_way),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
