/* Averages of updates: what they are for one rank and for several; clipping; steps that are not
 * finite; refusals. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "strategy_play.h"

/* Play the steps with a rate that changes. */
static void run(play *p, const char *strategy, const char *optimizer, int ranks, int steps)
{
    play_create(p, strategy, optimizer, ranks);
    play_begin_run(p);
    for (int t = 0; t < steps; t++) {
        p->lr = 0.1 / (t + 1);
        play_step(p);
    }
    play_drain(p);
    assert_agreed(p);
}

/* One rank with SGD: the optimizer's own steps, bit for bit. */
static void alone_it_is_the_optimizer(void **state)
{
    (void)state;
    static const char *const same[] = {"sgd:lr=0.1", "sgd:lr=0.1,momentum=0.9",
                                       "sgd:lr=0.1,momentum=0.9,nesterov=yes,weight_decay=0.01",
                                       "sgd:lr=0.1,weight_decay=0.3,exempt=1d",
                                       "sgd:lr=0.1,momentum=0.5,weight_decay=0.3,decoupled=yes"};
    static play a, b;
    for (size_t i = 0; i < TG_COUNT(same); i++) {
        run(&a, "updates", same[i], 1, 7);
        run(&b, "ssgd", same[i], 1, 7);
        assert_same_bits(a.rank[0].w, b.rank[0].w);
        play_destroy(&a);
        play_destroy(&b);
    }
}

/* Rounding aside: Adam on one rank; SGD, which is linear, on several. Not Adam on several. */
static void together_it_is_ssgd_if_the_optimizer_is_linear(void **state)
{
    (void)state;
    static const struct {
        const char *optimizer;
        int ranks;
    } same[] = {{"adam:lr=0.1", 1},
                {"adam:lr=0.1,weight_decay=0.1", 1},
                {"adamw:lr=0.1,weight_decay=0.1,exempt=1d", 1},
                {"sgd:lr=0.1,momentum=0.9", 4},
                {"sgd:lr=0.1,momentum=0.9,nesterov=yes,weight_decay=0.01", 3},
                {"sgd:lr=0.1,weight_decay=0.3,decoupled=yes", 5}};
    static play a, b;
    for (size_t i = 0; i < TG_COUNT(same); i++) {
        run(&a, "updates", same[i].optimizer, same[i].ranks, 7);
        run(&b, "ssgd", same[i].optimizer, same[i].ranks, 7);
        const double far = play_distance(a.rank[0].w, b.rank[0].w);
        if (far > 2e-6)
            fail_msg("%s, %d ranks: %g", same[i].optimizer, same[i].ranks, far);
        play_destroy(&a);
        play_destroy(&b);
    }
    run(&a, "updates", "adam:lr=0.1", 3, 7);
    run(&b, "ssgd", "adam:lr=0.1", 3, 7);
    assert_true(play_distance(a.rank[0].w, b.rank[0].w) > 1e-3);
    play_destroy(&a);
    play_destroy(&b);
}

/* Adam on several ranks: the mean of what each rank's Adam would do at these parameters. */
static void each_rank_has_its_own_moments(void **state)
{
    (void)state;
    enum { RANKS = 3, STEPS = 6 };
    static play p, own[RANKS];
    play_create(&p, "updates", "adam:lr=0.1", RANKS);
    play_begin_run(&p);
    for (int j = 0; j < RANKS; j++) {
        play_create(&own[j], "ssgd", "adam:lr=0.1", 1);
        play_begin_run(&own[j]);
    }
    for (uint64_t t = 0; t < STEPS; t++) {
        double mean[PLAY_N] = {0};
        float w[PLAY_N];
        memcpy(w, p.rank[0].w, sizeof w);
        for (int j = 0; j < RANKS; j++) {
            memcpy(own[j].rank[0].w, w, sizeof w);
            play_gradient(own[j].rank[0].g, w, j, t);
            play_step_on(&own[j]);
            for (size_t e = 0; e < PLAY_N; e++)
                mean[e] += (double)own[j].rank[0].w[e] / RANKS;
        }
        play_step(&p);
        assert_agreed(&p);
        for (size_t e = 0; e < PLAY_N; e++)
            if (!(fabs((double)p.rank[0].w[e] - mean[e]) < 1e-6))
                fail_msg("step %d, element %zu: %g", (int)t, e, mean[e] - (double)p.rank[0].w[e]);
    }
    play_destroy(&p);
    for (int j = 0; j < RANKS; j++)
        play_destroy(&own[j]);
}

/* Exchanges begin with each bucket; with clip, when all gradients are there. */
static void begins_when_it_can(void **state)
{
    (void)state;
    static const struct {
        const char *optimizer;
        const char *events[5];
    } is[] = {{"sgd:lr=0.1,momentum=0.9", {"x0c", "x1c", "r0", "r1", "s"}},
              {"adamw:lr=0.1,clip=1", {"s", "x0c", "x1c", "r0", "r1"}}};
    static play p;
    for (size_t i = 0; i < TG_COUNT(is); i++) {
        run(&p, "updates", is[i].optimizer, 2, 1);
        assert_int_equal(p.nevents, 5);
        for (size_t e = 0; e < 5; e++)
            assert_string_equal(p.events[e], is[i].events[e]);
        play_destroy(&p);
    }
}

/* The rank's own gradient is scaled before the optimizer sees it. */
static void clips_the_own_gradient(void **state)
{
    (void)state;
    static play a, b;
    play_create(&a, "updates", "sgd:lr=0.1,momentum=0.9,clip=1,weight_decay=0.01", 1);
    play_create(&b, "updates", "sgd:lr=0.1,momentum=0.9,weight_decay=0.01", 1);
    play_begin_run(&a);
    play_begin_run(&b);
    for (uint64_t t = 0; t < 4; t++) {
        play_gradient(a.rank[0].g, a.rank[0].w, 0, t);
        for (size_t e = 0; e < PLAY_N; e++)
            b.rank[0].g[e] = 0.25f * a.rank[0].g[e];
        a.rank[0].s->clip = 0.25f;
        play_step_on(&a);
        play_step_on(&b);
        assert_same_bits(a.rank[0].w, b.rank[0].w);
    }
    play_destroy(&a);
    play_destroy(&b);
}

/* A step with a gradient that is not finite changes no parameter, and not that rank's memory of
 * what it is in: the bucket, or with clip all of them. */
static void drops_steps_that_are_not_finite(void **state)
{
    (void)state;
    static const char *const optimizers[] = {"adam:lr=0.1", "adam:lr=0.1,clip=1"};
    for (size_t o = 0; o < TG_COUNT(optimizers); o++) {
        static play p;
        static float slot[2][PLAY_N];
        float w[PLAY_N];
        run(&p, "updates", optimizers[o], 3, 2);
        memcpy(w, p.rank[0].w, sizeof w);
        memcpy(slot, p.rank[1].slot, sizeof slot);
        p.bad_rank = 1;
        play_step(&p);
        assert_same_bits(p.rank[0].w, w);
        for (size_t k = 0; k < 2; k++)
            assert_memory_equal(p.rank[1].slot[k], slot[k],
                                (o == 0 ? play_begin[1] : PLAY_N) * sizeof(float));
        assert_int_equal(p.rank[1].updates[0][0], 2);
        play_step(&p);
        assert_agreed(&p);
        assert_true(play_distance(p.rank[0].w, w) > 0 && play_distance(p.rank[0].w, w) < 1);
        play_destroy(&p);
    }
}

static void refuses_with_a_reason(void **state)
{
    (void)state;
    tg_optimizer *o;
    tg__strategy *s = NULL;
    tg__wtensor tensor = {.n = 1};
    assert_int_equal(tg_optimizer_create("lars", &o), TG_OK);
    tg__strategy setup = {
        .optimizer = o, .size = 2, .tensor = &tensor, .ntensors = 1, .nbuckets = 1};
    assert_int_equal(tg__strategy_create("updates", &setup, &s), TG_E_SPEC);
    assert_non_null(strstr(tg_error(), "proportional to its rate, not \"lars\""));
    setup.external = true;
    assert_int_equal(tg__strategy_create("updates", &setup, &s), TG_E_SPEC);
    assert_non_null(strstr(tg_error(), "use local:every=1"));
    assert_null(s);
    tg_optimizer_destroy(o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(alone_it_is_the_optimizer),
        cmocka_unit_test(together_it_is_ssgd_if_the_optimizer_is_linear),
        cmocka_unit_test(each_rank_has_its_own_moments),
        cmocka_unit_test(begins_when_it_can),
        cmocka_unit_test(clips_the_own_gradient),
        cmocka_unit_test(drops_steps_that_are_not_finite),
        cmocka_unit_test(refuses_with_a_reason),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
