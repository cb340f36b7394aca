/* Rounds of own steps: local SGD, FedAvg, DiLoCo, streaming, eager: their limiting cases bit for
 * bit, and closed forms. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "strategy_play.h"

static const char *const optimizers[] = {"sgd:lr=0.1", "sgd:lr=0.1,momentum=0.9,weight_decay=0.01",
                                         "adamw:lr=0.01,weight_decay=0.1"};

/* Both, step by step, over a step that some rank drops. */
static void assert_same_runs(const char *a, const char *b, const char *optimizer, uint64_t steps)
{
    play x, y;
    play_create(&x, a, optimizer, 3);
    play_create(&y, b, optimizer, 3);
    play_begin_run(&x);
    play_begin_run(&y);
    for (uint64_t t = 0; t < steps; t++) {
        x.bad_rank = y.bad_rank = t == 4 ? 1 : -1;
        play_step(&x);
        play_step(&y);
        for (int j = 0; j < 3; j++) {
            assert_same_bits(x.rank[j].w, y.rank[j].w);
            assert_same_bits(play_global(&x, j), play_global(&y, j));
        }
    }
    play_drain(&x);
    play_drain(&y);
    assert_agreed(&x);
    assert_same_bits(x.rank[0].w, y.rank[0].w);
    play_destroy(&x);
    play_destroy(&y);
}

static void they_are_one_another(void **state)
{
    (void)state;
    for (size_t o = 0; o < TG_COUNT(optimizers); o++) {
        const char *optimizer = optimizers[o];
        assert_same_runs("diloco:every=3,lr=1,momentum=0", "local:every=3", optimizer, 11);
        assert_same_runs("streaming:every=4,fragments=1,overlap=0", "diloco:every=4", optimizer,
                         14);
        assert_same_runs("sparseloco:every=4,lr=0.5", "diloco:every=4,lr=0.5,momentum=0", optimizer,
                         13);
        assert_same_runs("fedavg:every=3", "local:every=3", optimizer, 11);
        assert_same_runs("fedavg:every=3,momentum=reset", "local:every=3,momentum=reset", optimizer,
                         11);
        assert_same_runs("local:every=3,after=1000", "ssgd", optimizer, 8);
    }
}

/* Gradients and parameters with few bits: sums and products are exact. */
static void dyadic(play *p)
{
    for (int j = 0; j < p->ranks; j++)
        for (size_t e = 0; e < PLAY_N; e++)
            p->rank[j].g[e] = rintf(4 * sinf((float)(e + 7 * p->t) + (float)j)) / 4;
}

static void one_step_to_a_round_is_ssgd(void **state)
{
    (void)state;
    static const char *const exact[] = {"sgd:lr=0.25", "sgd:lr=0.25,momentum=0.5"};
    static const char *const rounds[] = {"local:every=1", "local:every=1,momentum=average",
                                         "dga:every=1,delay=0"};
    for (size_t o = 0; o < TG_COUNT(exact); o++)
        for (size_t s = 0; s < TG_COUNT(rounds); s++) {
            play x, y;
            play_create(&x, rounds[s], exact[o], 2);
            play_create(&y, "ssgd", exact[o], 2);
            for (int j = 0; j < 2; j++)
                for (size_t e = 0; e < PLAY_N; e++)
                    x.rank[j].w[e] = y.rank[j].w[e] = (float)(e % 9) / 8 - 0.5f;
            play_begin_run(&x);
            play_begin_run(&y);
            for (int t = 0; t < 6; t++) {
                dyadic(&x);
                dyadic(&y);
                play_step_on(&x);
                play_step_on(&y);
                for (int j = 0; j < 2; j++)
                    assert_same_bits(x.rank[j].w, y.rank[0].w);
            }
            play_destroy(&x);
            play_destroy(&y);
        }
}

/* Everything is linear in the gradients, so they agree even where sums round; the gradients' slopes
 * amplify rounding up to 160 times in 12 steps. */
static void one_step_to_a_round_is_ssgd_to_rounding(void **state)
{
    (void)state;
    static const char *const linear[] = {"sgd:lr=0.1", "sgd:lr=0.1,momentum=0.9,weight_decay=0.01",
                                         "sgd:lr=0.1,momentum=0.9,nesterov=yes"};
    static const char *const rounds[] = {"local:every=1", "local:every=1,momentum=average"};
    for (size_t o = 0; o < TG_COUNT(linear); o++)
        for (size_t s = 0; s < TG_COUNT(rounds); s++) {
            play x, y;
            play_create(&x, rounds[s], linear[o], 3);
            play_create(&y, "ssgd", linear[o], 3);
            play_begin_run(&x);
            play_begin_run(&y);
            for (int t = 0; t < 12; t++) {
                play_step(&x);
                play_step(&y);
                for (int j = 0; j < 3; j++)
                    assert_true(play_distance(x.rank[j].w, y.rank[0].w) < 1e-5);
            }
            play_destroy(&x);
            play_destroy(&y);
        }
}

/* A different quadratic on each rank. */
static double slope(double w, int j, size_t e)
{
    return (0.5 + 0.03 * (double)(e % 7) + 0.1 * j) * (w - 0.3 * j - cos(0.2 * (double)e));
}

static void slopes(play *p)
{
    for (int j = 0; j < p->ranks; j++)
        for (size_t e = 0; e < PLAY_N; e++)
            p->rank[j].g[e] = (float)slope((double)p->rank[j].w[e], j, e);
}

/* On quadratics H own steps contract a rank's distance to its minimum by (1 - eta a)^H: w_T of
 * local SGD in f64, and of an outer Nesterov step, while the rate changes within rounds and between
 * them. */
static void closed_form_on_quadratics(void **state)
{
    (void)state;
    enum { EVERY = 4 };
    static const double rates[] = {0.1, 0.1, 0.04, 0.07, 0, 0.1, 0.05};
    static const struct {
        const char *strategy;
        double lr, momentum;
        int warmup;
        bool rescale;
    } cases[] = {{"local:every=4", 1, 0, 0, false},
                 {"dga:every=4,delay=0", 1, 0, 0, false},
                 {"diloco:every=4,lr=0.7,momentum=0.9,warmup=0,rescale=no", 0.7, 0.9, 0, false},
                 {"diloco:every=4,lr=0.6,momentum=0.8,warmup=4,rescale=no", 0.6, 0.8, 4, false},
                 {"diloco:every=4,lr=0.6,momentum=0.8,warmup=0", 0.6, 0.8, 0, true},
                 {"diloco:every=4", 0.7, 0.9, 20, true}};
    for (size_t c = 0; c < TG_COUNT(cases); c++) {
        play p;
        play_create(&p, cases[c].strategy, "sgd:lr=0.1", 3);
        play_begin_run(&p);
        double w[PLAY_N], v[PLAY_N] = {0};
        for (size_t e = 0; e < PLAY_N; e++)
            w[e] = (double)p.rank[0].w[e];
        for (int round = 0; round < (int)TG_COUNT(rates); round++) {
            for (int t = 0; t < EVERY; t++) {
                p.lr = t == 0 ? 0.1 : rates[round];
                slopes(&p);
                play_step_on(&p);
            }
            const int k = round + 1, warmup = cases[c].warmup;
            const double q = k < warmup ? (double)k / warmup : 1, m = q * cases[c].momentum;
            const bool falls = round > 0 && rates[round] < rates[round - 1];
            const double keep = cases[c].rescale && falls ? rates[round] / rates[round - 1] : 1;
            for (size_t e = 0; e < PLAY_N; e++) {
                double mean = 0;
                for (int j = 0; j < 3; j++) {
                    const double a = slope(1, j, e) - slope(0, j, e), least = -slope(0, j, e) / a;
                    mean += (w[e] - least) *
                            (1 - (1 - 0.1 * a) * pow(1 - rates[round] * a, EVERY - 1)) / 3;
                }
                v[e] = m * keep * v[e] + mean;
                w[e] -= (q * cases[c].lr + 1 - q) * (mean + m * v[e]);
                assert_true(fabs(w[e] - (double)p.rank[1].w[e]) < 3e-6);
            }
            assert_agreed(&p);
        }
        play_destroy(&p);
    }
}

/* A single rank knows the mean at once: DiLoCo. */
static void eager_alone_is_diloco(void **state)
{
    (void)state;
    for (size_t o = 0; o < TG_COUNT(optimizers); o++) {
        play x, y;
        play_create(&x, "eager:every=3", optimizers[o], 1);
        play_create(&y, "diloco:every=3,warmup=0", optimizers[o], 1);
        play_begin_run(&x);
        play_begin_run(&y);
        for (int t = 0; t < 11; t++) {
            play_step(&x);
            play_step(&y);
            assert_same_bits(x.rank[0].w, y.rank[0].w);
        }
        play_drain(&x);
        play_drain(&y);
        assert_same_bits(x.rank[0].w, y.rank[0].w);
        play_destroy(&x);
        play_destroy(&y);
    }
}

/* Its formula in f64; at the end all ranks have the parameters that result from the means. */
static void eager_on_quadratics(void **state)
{
    (void)state;
    enum { EVERY = 4, STEPS = 22 };
    play p;
    play_create(&p, "eager:every=4,lr=0.6,momentum=0.5", "sgd:lr=0.1", 3);
    play_begin_run(&p);
    double w[3][PLAY_N], own[3][PLAY_N], v[3][PLAY_N] = {{0}}, d[3][PLAY_N] = {{0}};
    double u[3][PLAY_N] = {{0}};
    double global[PLAY_N], velocity[PLAY_N] = {0}, mean[PLAY_N] = {0};
    for (size_t e = 0; e < PLAY_N; e++)
        for (int j = 0; j < 3; j++)
            global[e] = w[j][e] = own[j][e] = (double)p.rank[j].w[e];
    for (int t = 1; t <= STEPS; t++) {
        slopes(&p);
        for (int j = 0; j < 3; j++)
            for (size_t e = 0; e < PLAY_N; e++)
                w[j][e] -= 0.1 * slope(w[j][e], j, e);
        play_step_on(&p);
        for (size_t e = 0; e < PLAY_N && (t % EVERY == 0 || t == STEPS); e++) {
            if (t > EVERY) { /* the last round's mean has arrived */
                velocity[e] = 0.5 * velocity[e] + mean[e];
                global[e] -= 0.6 * (mean[e] + 0.5 * velocity[e]);
            }
            double next = 0;
            for (int j = 0; j < 3; j++) {
                const double change = own[j][e] - w[j][e];
                const double guess = (change - d[j][e]) / 3 + mean[e];
                next += change / 3;
                d[j][e] = change;
                v[j][e] = 0.5 * v[j][e] + guess;
                own[j][e] -= 0.6 * (guess + 0.5 * v[j][e]);
                u[j][e] = 0.5 * u[j][e] + change; /* what a rank has beyond A is its own */
                const double beyond = 0.6 * (change + 0.5 * u[j][e]) / 3;
                assert_true(t == STEPS ||
                            fabs(own[j][e] + beyond - (double)play_global(&p, j)[e]) < 5e-6);
                w[j][e] = t == STEPS ? w[j][e] : own[j][e];
            }
            mean[e] = next;
        }
        for (int j = 0; j < 3; j++)
            for (size_t e = 0; e < PLAY_N; e++)
                assert_true(fabs(w[j][e] - (double)p.rank[j].w[e]) < 5e-6);
    }
    play_drain(&p);
    assert_agreed(&p);
    for (size_t e = 0; e < PLAY_N; e++) {
        velocity[e] = 0.5 * velocity[e] + mean[e];
        global[e] -= 0.6 * (mean[e] + 0.5 * velocity[e]);
        assert_true(fabs(global[e] - (double)p.rank[0].w[e]) < 5e-6);
    }
    play_destroy(&p);
}

/* Once the means have come to 0, A is amid the ranks' own parameters: nothing of rounds whose means
 * arrived late is left between them. */
static void assert_amid(play *p)
{
    while (p->t < 500) {
        slopes(p);
        play_step_on(p);
    }
    for (size_t e = 0; e < PLAY_N; e++) {
        double amid = 0;
        for (int j = 0; j < p->ranks; j++)
            amid += (double)p->rank[j].w[e] / p->ranks;
        assert_true(fabs(amid - (double)play_global(p, 0)[e]) < 1e-5);
        const double apart = (double)p->rank[0].w[e] - (double)p->rank[p->ranks - 1].w[e];
        assert_true(p->ranks == 1 || fabs(apart) > 0.01);
    }
}

/* From the start; after a lost round; after a drained one. */
static void eager_converges_amid_the_ranks(void **state)
{
    (void)state;
    for (int k = 0; k < 3; k++) {
        play p;
        play_create(&p, "eager:every=4,lr=0.6,momentum=0.5", "sgd:lr=0.1", 3);
        play_begin_run(&p);
        for (int t = 0; t < 18; t++) {
            if (k == 1 && t == 9)
                p.rank[1].w[5] = NAN; /* so its gradients are not finite until it gets A */
            p.bad_rank = isfinite(p.rank[1].w[5]) ? -1 : 1;
            slopes(&p);
            play_step_on(&p);
        }
        assert_true(isfinite(p.rank[1].w[5]));
        if (k == 2)
            play_drain(&p);
        assert_amid(&p);
        play_destroy(&p);
    }
}

/* After other ranks have taken over the means of what 4 had, with their exchange under way. */
static void eager_of_other_ranks(void **state)
{
    (void)state;
    for (int ranks = 1; ranks <= 3; ranks++) {
        play x, y;
        play_create(&x, "eager:every=4,lr=0.6,momentum=0.5", "sgd:lr=0.1", 4);
        play_create(&y, "eager:every=4,lr=0.6,momentum=0.5", "sgd:lr=0.1", ranks);
        play_begin_run(&x);
        for (int t = 0; t < 18; t++) {
            slopes(&x);
            play_step_on(&x);
        }
        assert_true(x.flights > 0);
        play_begin_run(&y);
        y.t = x.t;
        y.flights = x.flights;
        memcpy(y.flight, x.flight, sizeof y.flight);
        for (size_t f = 0; f < y.flights; f++)
            for (size_t e = 0; e < PLAY_N; e++) /* play divides by the number of ranks */
                y.flight[f].sum[e] *= (float)ranks / 4;
        for (int j = 0; j < ranks; j++)
            for (size_t e = 0; e < PLAY_N; e++) {
                y.rank[j].w[e] = 0;
                for (int i = 0; i < 4; i++)
                    y.rank[j].w[e] += x.rank[i].w[e] / 4;
                for (size_t k = 0; k < x.rank[0].s->nslots; k++) {
                    y.rank[j].slot[k][e] = 0;
                    for (int i = 0; i < 4; i++)
                        y.rank[j].slot[k][e] += x.rank[i].slot[k][e] / 4;
                }
            }
        assert_amid(&y);
        play_destroy(&x);
        play_destroy(&y);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(they_are_one_another),
        cmocka_unit_test(one_step_to_a_round_is_ssgd),
        cmocka_unit_test(one_step_to_a_round_is_ssgd_to_rounding),
        cmocka_unit_test(closed_form_on_quadratics),
        cmocka_unit_test(eager_alone_is_diloco),
        cmocka_unit_test(eager_on_quadratics),
        cmocka_unit_test(eager_converges_amid_the_ranks),
        cmocka_unit_test(eager_of_other_ranks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
