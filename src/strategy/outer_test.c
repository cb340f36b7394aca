/* Rounds of own steps: local SGD, FedAvg, DiLoCo, streaming: their limiting cases bit for bit,
 * closed forms, who takes part, what is lost and what is left at the end. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "strategy/strategy_play.h"

static const char *const optimizers[] = {"sgd:lr=0.1", "sgd:lr=0.1,momentum=0.9,weight_decay=0.01",
                                         "adamw:lr=0.01,weight_decay=0.1"};

static void assert_agreed(play *p)
{
    for (int j = 0; j < p->ranks; j++) {
        assert_same_bits(p->rank[j].w, p->rank[0].w);
        assert_same_bits(play_global(p, j), p->rank[0].w);
    }
}

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
        assert_same_runs("fedavg:every=3", "local:every=3,momentum=reset", optimizer, 11);
        assert_same_runs("local:every=3,after=1000", "ssgd", optimizer, 8);
    }
}

/* Gradients and parameters of few bits: sums and products are exact. */
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

/* As all of it is linear in the gradients, also where sums round; their slopes make up to 160 times
 * as much of that in 12 steps. */
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

/* A quadratic of its own for each rank. */
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
 * local SGD in f64, and of an outer step of Nesterov's. */
static void closed_form_on_quadratics(void **state)
{
    (void)state;
    enum { EVERY = 4, ROUNDS = 6 };
    static const struct {
        const char *strategy;
        double lr, momentum;
    } cases[] = {{"local:every=4", 1, 0},
                 {"dga:every=4,delay=0", 1, 0},
                 {"diloco:every=4,lr=0.7,momentum=0.9", 0.7, 0.9}};
    for (size_t c = 0; c < TG_COUNT(cases); c++) {
        play p;
        play_create(&p, cases[c].strategy, "sgd:lr=0.1", 3);
        play_begin_run(&p);
        double w[PLAY_N], v[PLAY_N] = {0};
        for (size_t e = 0; e < PLAY_N; e++)
            w[e] = (double)p.rank[0].w[e];
        for (int round = 0; round < ROUNDS; round++) {
            for (int t = 0; t < EVERY; t++) {
                slopes(&p);
                play_step_on(&p);
            }
            for (size_t e = 0; e < PLAY_N; e++) {
                double mean = 0;
                for (int j = 0; j < 3; j++) {
                    const double a = slope(1, j, e) - slope(0, j, e), least = -slope(0, j, e) / a;
                    mean += (w[e] - least) * (1 - pow(1 - 0.1 * a, EVERY)) / 3;
                }
                v[e] = cases[c].momentum * v[e] + mean;
                w[e] -= cases[c].lr * (mean + cases[c].momentum * v[e]);
                assert_true(fabs(w[e] - (double)p.rank[1].w[e]) < 3e-6);
            }
            assert_agreed(&p);
        }
        play_destroy(&p);
    }
}

/* Alone a rank knows the mean at once: DiLoCo. */
static void eager_alone_is_diloco(void **state)
{
    (void)state;
    for (size_t o = 0; o < TG_COUNT(optimizers); o++) {
        play x, y;
        play_create(&x, "eager:every=3", optimizers[o], 1);
        play_create(&y, "diloco:every=3", optimizers[o], 1);
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

/* Its formula in f64; at the end all ranks are where the means lead. */
static void eager_on_quadratics(void **state)
{
    (void)state;
    enum { EVERY = 4, STEPS = 22 };
    play p;
    play_create(&p, "eager:every=4,lr=0.6,momentum=0.5", "sgd:lr=0.1", 3);
    play_begin_run(&p);
    double w[3][PLAY_N], own[3][PLAY_N], v[3][PLAY_N] = {{0}}, d[3][PLAY_N] = {{0}};
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
            if (t > EVERY) { /* the last round's mean is in */
                velocity[e] = 0.5 * velocity[e] + mean[e];
                global[e] -= 0.6 * (mean[e] + 0.5 * velocity[e]);
            }
            double next = 0;
            for (int j = 0; j < 3; j++) {
                const double change = own[j][e] - w[j][e];
                const double guess = t == EVERY ? change : (change - d[j][e]) / 3 + mean[e];
                next += change / 3;
                d[j][e] = change;
                v[j][e] = 0.5 * v[j][e] + guess;
                own[j][e] -= 0.6 * (guess + 0.5 * v[j][e]);
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

/* Post-local: synchronous first, whose momentum all ranks take along. */
static void local_after_ssgd(void **state)
{
    (void)state;
    play p, ssgd;
    play_create(&p, "local:every=2,after=3", optimizers[1], 3);
    play_create(&ssgd, "ssgd", optimizers[1], 3);
    play_begin_run(&p);
    play_begin_run(&ssgd);
    for (int t = 0; t < 3; t++) {
        play_step(&p);
        play_step(&ssgd);
        assert_same_bits(p.rank[2].w, ssgd.rank[0].w);
        assert_agreed(&p);
    }
    play_step(&p);
    assert_true(memcmp(p.rank[0].w, p.rank[1].w, sizeof p.rank[0].w) != 0);
    assert_same_bits(play_global(&p, 1), ssgd.rank[0].w);
    play_step(&p);
    assert_agreed(&p);
    static const char *const want[] = {"x0d", "x1d", "r0", "r1",  "s",   "x0d", "x1d",
                                       "r0",  "r1",  "s",  "x0d", "x1d", "r0",  "r1",
                                       "s",   "s",   "s",  "x0c", "x1c", "r0",  "r1"};
    assert_int_equal(p.nevents, TG_COUNT(want));
    for (size_t i = 0; i < TG_COUNT(want); i++)
        assert_string_equal(p.events[i], want[i]);
    play_destroy(&p);
    play_destroy(&ssgd);
}

static void what_optimizers_remember(void **state)
{
    (void)state;
    static const char *const strategies[] = {"local:every=3,momentum=keep",
                                             "local:every=3,momentum=average",
                                             "local:every=3,momentum=reset"};
    for (size_t s = 0; s < TG_COUNT(strategies); s++) {
        play p;
        play_create(&p, strategies[s], "adam:lr=0.01", 3);
        play_begin_run(&p);
        for (int t = 0; t < 3; t++)
            play_step(&p);
        for (size_t slot = 0; slot < 2; slot++) {
            const bool same =
                memcmp(p.rank[0].slot[slot], p.rank[2].slot[slot], sizeof p.rank[0].slot[0]) == 0;
            assert_int_equal(same, s == 1);
        }
        assert_int_equal(p.rank[1].updates[0][0], 3);
        play_step(&p);
        assert_int_equal(p.rank[1].updates[0][0], s == 2 ? 1 : 4);
        play_drain(&p);
        assert_agreed(&p);
        play_destroy(&p);
    }
}

/* Fragments end their rounds one after the other; an average that comes late leaves alpha of what
 * the rank has. */
static void fragments_take_turns(void **state)
{
    (void)state;
    play p;
    float w[PLAY_N], before[PLAY_N];
    play_create(&p, "streaming:every=4,fragments=2,overlap=1,alpha=0.25,lr=1,momentum=0",
                "sgd:lr=0.125", 2);
    play_begin_run(&p);
    memcpy(w, p.rank[0].w, sizeof w);
    for (int t = 0; t < 6; t++) {
        for (int j = 0; j < 2; j++)
            for (size_t e = 0; e < PLAY_N; e++)
                p.rank[j].g[e] = (float)(1 + 2 * j);
        memcpy(before, p.rank[1].w, sizeof before);
        play_step_on(&p);
    }
    static const char *const want[] = {"s",   "s",  "x1c", "r1", "s",  "s",
                                       "x0c", "r0", "s",   "s",  "x1c"};
    assert_int_equal(p.nevents, TG_COUNT(want));
    for (size_t i = 0; i < TG_COUNT(want); i++)
        assert_string_equal(p.events[i], want[i]);
    /* Bucket 0 (elements 30 ..): sent after 4 steps, came in the fifth step before the own one. */
    for (size_t e = 30; e < PLAY_N; e++) {
        const float global = w[e] - 4 * 0.125f * 2;
        assert_true(fabsf(play_global(&p, 0)[e] - global) < 1e-5f);
        const float own = w[e] - 4 * 0.125f * 3, mixed = 0.25f * own + 0.75f * global;
        assert_true(fabsf(before[e] - (mixed - 0.125f * 3)) < 1e-5f);
    }
    play_drain(&p);
    assert_agreed(&p);
    for (size_t e = 30; e < PLAY_N; e++) /* what was done since counts, as it was done */
        assert_true(isfinite(p.rank[0].w[e]) && p.rank[0].w[e] < w[e] - 1);
    play_destroy(&p);
}

/* Own steps that gave way to a mean are not sent when the run is drained; that before which it came
 * is. */
static void what_gave_way_is_not_sent(void **state)
{
    (void)state;
    static const struct {
        const char *spec;
        int steps;
        const char *events[14];
    } cases[] = {
        {"streaming:every=4,fragments=1,overlap=2",
         5,
         {"s", "s", "s", "s", "x0c", "x1c", "s", "r0", "r1"}},
        {"streaming:every=4,fragments=1,overlap=2",
         6,
         {"s", "s", "s", "s", "x0c", "x1c", "s", "r0", "r1", "s", "x0c", "x1c", "r0", "r1"}},
        {"streaming:every=2,fragments=1,overlap=1",
         3,
         {"s", "s", "x0c", "x1c", "r0", "r1", "s", "x0c", "x1c", "r0", "r1"}},
    };
    for (size_t c = 0; c < TG_COUNT(cases); c++) {
        play p;
        play_create(&p, cases[c].spec, "sgd:lr=0.1", 3);
        play_begin_run(&p);
        for (int t = 0; t < cases[c].steps; t++)
            play_step(&p);
        play_drain(&p);
        assert_agreed(&p);
        size_t count = 0;
        while (count < TG_COUNT(cases[c].events) && cases[c].events[count] != NULL)
            count++;
        assert_int_equal(p.nevents, count);
        for (size_t i = 0; i < count; i++)
            assert_string_equal(p.events[i], cases[c].events[i]);
        play_destroy(&p);
    }
}

/* After draining no mean is known: the own change stands for all of it, as in the first round. */
static void eager_begins_anew(void **state)
{
    (void)state;
    play p, alone[3];
    play_create(&p, "eager:every=3,lr=1,momentum=0", "sgd:lr=0.1", 3);
    play_begin_run(&p);
    for (int t = 0; t < 7; t++)
        play_step(&p);
    play_drain(&p);
    assert_agreed(&p);
    for (int j = 0; j < 3; j++) {
        play_create(&alone[j], "ssgd", "sgd:lr=0.1", 1);
        memcpy(alone[j].rank[0].w, p.rank[0].w, sizeof p.rank[0].w);
        play_begin_run(&alone[j]);
    }
    for (uint64_t t = 7; t < 9; t++) {
        play_step(&p);
        for (int j = 0; j < 3; j++) {
            play_gradient(alone[j].rank[0].g, alone[j].rank[0].w, j, t);
            play_step_on(&alone[j]);
            for (size_t e = 0; e < PLAY_N; e++)
                assert_true(fabsf(p.rank[j].w[e] - alone[j].rank[0].w[e]) < 1e-6f);
        }
    }
    for (int j = 0; j < 3; j++)
        play_destroy(&alone[j]);
    play_destroy(&p);
}

/* An optimizer's memory that is not finite goes with the round it has spoiled. */
static void lost_memory(void **state)
{
    (void)state;
    static const char *const strategies[] = {"local:every=2,momentum=average",
                                             "local:every=2,momentum=keep", "eager:every=2",
                                             "dga:delay=2,every=2"};
    for (size_t s = 0; s < TG_COUNT(strategies); s++) {
        play p;
        play_create(&p, strategies[s], "adam:lr=0.01", 3);
        play_begin_run(&p);
        for (int t = 0; t < 11; t++) {
            for (int j = 0; j < 3; j++)
                play_gradient(p.rank[j].g, p.rank[j].w, j, p.t);
            if (t == 3)
                p.rank[1].g[7] = 3e38f; /* finite; its square is not */
            for (size_t e = 0; e < PLAY_N; e++)
                p.bad_rank = isfinite(p.rank[1].w[e]) ? p.bad_rank : 1;
            play_step_on(&p);
        }
        play_drain(&p);
        assert_agreed(&p);
        for (int j = 0; j < 3; j++)
            for (size_t e = 0; e < PLAY_N; e++)
                assert_true(isfinite(p.rank[j].w[e]));
        for (size_t slot = 0; s == 0 && slot < 2; slot++)
            for (size_t e = 0; e < PLAY_N; e++)
                assert_true(isfinite(p.rank[1].slot[slot][e]));
        play_destroy(&p);
    }
}

/* Who takes part is drawn anew in each round, the same by all; the mean is theirs, by samples. */
static void clients_by_turns(void **state)
{
    (void)state;
    static const uint64_t samples[] = {10, 30, 60};
    bool took_part[3] = {false};
    for (int weighted = 0; weighted < 2; weighted++) {
        play p;
        play_create(&p,
                    weighted ? "fedavg:every=2,clients=0.67"
                             : "fedavg:every=2,clients=0.67,weighted=no",
                    "sgd:lr=0.125", 3);
        for (int j = 0; j < 3; j++)
            p.rank[j].s->samples = samples;
        play_begin_run(&p);
        for (uint64_t round = 0; round < 8; round++) {
            float w[PLAY_N];
            double sum = 0, all = 0;
            int count = 0;
            memcpy(w, p.rank[0].w, sizeof w);
            for (int j = 0; j < 3; j++) {
                const bool idle = p.rank[j].s->ops->weight(p.rank[j].s, p.t) == 0;
                assert_int_equal(p.rank[j].s->ops->weight(p.rank[j].s, p.t + 1) == 0, idle);
                took_part[j] = took_part[j] || !idle;
                count += !idle;
                const double weight = idle ? 0 : weighted ? (double)samples[j] : 1;
                sum += weight * (1 + j);
                all += weight;
            }
            assert_int_equal(count, 2);
            for (int t = 0; t < 2; t++) {
                for (int j = 0; j < 3; j++)
                    for (size_t e = 0; e < PLAY_N; e++)
                        p.rank[j].g[e] = (float)(1 + j);
                play_step_on(&p);
            }
            assert_agreed(&p);
            for (size_t e = 0; e < PLAY_N; e++)
                assert_true(fabs((double)p.rank[1].w[e] - ((double)w[e] - 0.25 * sum / all)) <
                            2e-6);
        }
        play_destroy(&p);
    }
    assert_true(took_part[0] && took_part[1] && took_part[2]);
}

/* One object that is asked for every rank, as a simulation does, and for rounds back and forth,
 * says what each rank's own says of one round alone. */
static void one_draws_for_all(void **state)
{
    (void)state;
    static const uint64_t samples[] = {10, 0, 60, 5, 25}, rounds[] = {3, 0, 3, 4, 4, 1, 0};
    play p, fresh;
    play_create(&p, "fedavg:every=2,clients=0.6", "sgd:lr=0.125", PLAY_RANKS);
    tg__strategy *one = p.rank[0].s;
    one->samples = samples;
    for (size_t i = 0; i < TG_COUNT(rounds); i++) {
        double sum = 0;
        play_create(&fresh, "fedavg:every=2,clients=0.6", "sgd:lr=0.125", PLAY_RANKS);
        for (int j = 0; j < PLAY_RANKS; j++) {
            tg__strategy *own = fresh.rank[j].s;
            own->samples = samples;
            one->rank = j;
            const double weight = one->ops->weight(one, 2 * rounds[i]);
            assert_true(weight == own->ops->weight(own, 2 * rounds[i] + 1));
            sum += weight;
        }
        assert_true(fabs(sum - PLAY_RANKS) < 1e-9);
        play_destroy(&fresh);
    }
    play_destroy(&p);
}

/* A rank whose parameters are lost is back after the round. */
static void lost_rounds(void **state)
{
    (void)state;
    static const char *const strategies[] = {"local:every=3", "diloco:every=3",
                                             "streaming:every=4,fragments=2,overlap=2",
                                             "eager:every=2"};
    for (size_t s = 0; s < TG_COUNT(strategies); s++) {
        play p;
        play_create(&p, strategies[s], "sgd:lr=0.1", 3);
        play_begin_run(&p);
        play_step(&p);
        for (size_t e = 0; e < PLAY_N; e++)
            p.rank[1].w[e] = INFINITY;
        for (int t = 0; t < 9; t++) {
            for (int j = 0; j < 3; j++)
                play_gradient(p.rank[j].g, p.rank[j].w, j, p.t);
            for (size_t e = 0; e < PLAY_N; e++)
                p.bad_rank = isfinite(p.rank[1].w[e]) ? p.bad_rank : 1;
            play_step_on(&p);
        }
        play_drain(&p);
        assert_agreed(&p);
        for (size_t e = 0; e < PLAY_N; e++)
            assert_true(isfinite(p.rank[1].w[e]));
        play_destroy(&p);
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
        cmocka_unit_test(local_after_ssgd),
        cmocka_unit_test(what_optimizers_remember),
        cmocka_unit_test(fragments_take_turns),
        cmocka_unit_test(what_gave_way_is_not_sent),
        cmocka_unit_test(eager_begins_anew),
        cmocka_unit_test(lost_memory),
        cmocka_unit_test(clients_by_turns),
        cmocka_unit_test(one_draws_for_all),
        cmocka_unit_test(lost_rounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
