/* Rounds of own steps: when exchanges begin and end, what optimizers remember, who takes part, what
 * is lost and what is left at the end. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "strategy_play.h"

/* Post-local: synchronous first, whose momentum all ranks take along. */
static void local_after_ssgd(void **state)
{
    (void)state;
    static const char optimizer[] = "sgd:lr=0.1,momentum=0.9,weight_decay=0.01";
    play p, ssgd;
    play_create(&p, "local:every=2,after=3", optimizer, 3);
    play_create(&ssgd, "ssgd", optimizer, 3);
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
    static const char *const strategies[] = {
        "local:every=3,momentum=keep", "local:every=3,momentum=average",
        "local:every=3,momentum=reset", "fedavg:every=3", "fedavg:every=3,momentum=reset"};
    for (size_t s = 0; s < TG_COUNT(strategies); s++) {
        const bool resets = strstr(strategies[s], "reset") != NULL;
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
        assert_int_equal(p.rank[1].updates[0][0], resets ? 1 : 4);
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

/* The outer step grows with the fragment's own rounds: fragment 1 (bucket 1, elements 0 to 29)
 * ends its first after 2 steps, and what is sent when the run is drained is a round as well. */
static void fragments_count_their_rounds(void **state)
{
    (void)state;
    static const int ends[2][3] = {{4, 7, 0}, {2, 6, 7}}; /* steps, by fragment */
    play p;
    double w[PLAY_N];
    play_create(&p, "streaming:every=4,fragments=2,overlap=0,lr=0.5,momentum=0.75,warmup=3",
                "sgd:lr=0.125", 2);
    play_begin_run(&p);
    for (size_t e = 0; e < PLAY_N; e++)
        w[e] = (double)p.rank[0].w[e];
    for (int t = 0; t < 7; t++) {
        for (int j = 0; j < 2; j++)
            for (size_t e = 0; e < PLAY_N; e++)
                p.rank[j].g[e] = (float)(1 + 2 * j);
        play_step_on(&p);
    }
    play_drain(&p);
    for (size_t e = 0; e < PLAY_N; e++) {
        const int f = e < 30;
        double v = 0;
        for (int k = 1; k <= 3 && ends[f][k - 1] > 0; k++) {
            const double q = k / 3.0, m = 0.75 * q;
            const double mean = 0.125 * 2 * (ends[f][k - 1] - (k > 1 ? ends[f][k - 2] : 0));
            v = m * v + mean;
            w[e] -= (0.5 * q + 1 - q) * (mean + m * v);
        }
        assert_true(fabs(w[e] - (double)p.rank[1].w[e]) < 1e-6);
    }
    assert_agreed(&p);
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

/* After draining no mean is known: a rank steps along its own share, as in the first round. */
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
    float began[PLAY_N];
    memcpy(began, p.rank[0].w, sizeof began);
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
            for (size_t e = 0; e < PLAY_N; e++) {
                const float change = alone[j].rank[0].w[e] - began[e];
                assert_true(fabsf(p.rank[j].w[e] - (began[e] + (t == 8 ? change / 3 : change))) <
                            1e-6f);
            }
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
                const bool idle = p.rank[j].s->ops->weight(p.rank[j].s, p.t, j) == 0;
                assert_int_equal(p.rank[j].s->ops->weight(p.rank[j].s, p.t + 1, j) == 0, idle);
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

/* A rank that is not drawn keeps the optimizer's state of its last round, or begins the next one
 * with none. */
static void clients_remember(void **state)
{
    (void)state;
    for (int resets = 0; resets < 2; resets++) {
        uint64_t steps[3] = {0};
        bool drawn[3] = {false};
        int idle_rounds = 0; /* of ranks that took part in earlier ones */
        play p;
        play_create(&p,
                    resets ? "fedavg:every=2,clients=0.34,momentum=reset"
                           : "fedavg:every=2,clients=0.34",
                    "adam:lr=0.01", 3);
        play_begin_run(&p);
        for (int round = 0; round < 8; round++) {
            float before[3][PLAY_N];
            bool idle[3];
            for (int j = 0; j < 3; j++) {
                idle[j] = p.rank[j].s->ops->weight(p.rank[j].s, p.t, j) == 0;
                drawn[j] = drawn[j] || !idle[j];
                steps[j] = (resets ? 0 : steps[j]) + (idle[j] ? 0 : 2);
                memcpy(before[j], p.rank[j].slot[0], sizeof before[j]);
            }
            play_step(&p);
            play_step(&p);
            for (int j = 0; j < 3; j++) {
                assert_int_equal(p.rank[j].updates[0][0], steps[j]);
                idle_rounds += idle[j] && drawn[j];
                for (size_t e = 0; idle[j] && e < PLAY_N; e++)
                    assert_true(p.rank[j].slot[0][e] == (resets ? 0 : before[j][e]));
            }
            assert_agreed(&p);
        }
        assert_true(idle_rounds > 0);
        play_destroy(&p);
    }
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
            const double weight = one->ops->weight(one, 2 * rounds[i], one->rank);
            assert_true(weight == own->ops->weight(own, 2 * rounds[i] + 1, own->rank));
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
        cmocka_unit_test(local_after_ssgd),
        cmocka_unit_test(what_optimizers_remember),
        cmocka_unit_test(fragments_take_turns),
        cmocka_unit_test(fragments_count_their_rounds),
        cmocka_unit_test(what_gave_way_is_not_sent),
        cmocka_unit_test(eager_begins_anew),
        cmocka_unit_test(lost_memory),
        cmocka_unit_test(clients_by_turns),
        cmocka_unit_test(clients_remember),
        cmocka_unit_test(one_draws_for_all),
        cmocka_unit_test(lost_rounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
