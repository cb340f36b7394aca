/* DeMo's update: signs of the mean, decoupled weight decay; refusals. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "strategy_play.h"

static float sign(float x)
{
    return x > 0 ? 1.0f : x < 0 ? -1.0f : 0.0f;
}

/* One rank, dense: sign descent, bit for bit, at any rate. sign(0) is 0. */
static void alone_it_is_sign_descent(void **state)
{
    (void)state;
    static const char *const optimizers[] = {"sgd:lr=0.1", "sgd:lr=0.1,weight_decay=0.3",
                                             "sgd:lr=0.1,weight_decay=0.3,exempt=1d"};
    for (size_t o = 0; o < TG_COUNT(optimizers); o++) {
        play p;
        float w[PLAY_N];
        play_create(&p, "demo", optimizers[o], 1);
        assert_int_equal(p.rank[0].s->nslots, 0);
        play_begin_run(&p);
        memcpy(w, p.rank[0].w, sizeof w);
        for (uint64_t t = 0; t < 6; t++) {
            p.lr = 0.1 / (double)(t + 1);
            play_gradient(p.rank[0].g, w, 0, t);
            p.rank[0].g[t] = 0;
            p.rank[0].g[40 + t] = -0.0f;
            for (size_t e = 0; e < PLAY_N; e++) {
                /* tensors of one dimension */
                const bool spared = o == 0 || (o == 2 && e >= 30 && e < 33);
                const float kept = w[e] * (float)(1 - p.lr * (spared ? 0 : 0.3));
                w[e] = kept - (float)p.lr * sign(p.rank[0].g[e]);
            }
            play_step_on(&p);
            assert_same_bits(p.rank[0].w, w);
            assert_same_bits(play_global(&p, 0), w);
        }
        play_destroy(&p);
    }
}

/* Several ranks: the sign of the mean; a step that some rank spoils changes nothing. */
static void together_by_the_sign_of_the_mean(void **state)
{
    (void)state;
    play p;
    play_create(&p, "demo", "sgd:lr=0.25", 3);
    play_begin_run(&p);
    for (uint64_t t = 0; t < 5; t++) {
        float w[PLAY_N], sum[PLAY_N] = {0};
        memcpy(w, p.rank[0].w, sizeof w);
        p.bad_rank = t == 2 ? 1 : -1;
        for (int j = 0; j < 3; j++) {
            float g[PLAY_N];
            play_gradient(g, w, j, t);
            for (size_t e = 0; e < PLAY_N; e++)
                sum[e] += g[e];
        }
        for (size_t e = 0; e < PLAY_N; e++)
            w[e] -= t == 2 ? 0 : 0.25f * sign(sum[e]);
        play_step(&p);
        for (int j = 0; j < 3; j++)
            assert_same_bits(p.rank[j].w, w);
    }
    play_drain(&p);
    play_destroy(&p);
}

static void refuses_with_a_reason(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"adamw", "carry no magnitude to adapt to"},
        {"lars", "carry no magnitude to adapt to"},
        {"sgd:momentum=0.9", "the method's residual is the momentum"},
        {"sgd:clip=1", "clipping the mean does not change its signs"},
    };
    for (size_t i = 0; i < TG_COUNT(cases); i++) {
        tg_optimizer *o;
        tg__strategy *s = NULL;
        tg__wtensor tensor = {.n = 1};
        assert_int_equal(tg_optimizer_create(cases[i][0], &o), TG_OK);
        const tg__strategy setup = {
            .optimizer = o, .size = 2, .tensor = &tensor, .ntensors = 1, .nbuckets = 1};
        assert_int_equal(tg__strategy_create("demo", &setup, &s), TG_E_SPEC);
        assert_null(s);
        if (strstr(tg_error(), cases[i][1]) == NULL)
            fail_msg("%s", tg_error());
        tg_optimizer_destroy(o);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(alone_it_is_sign_descent),
        cmocka_unit_test(together_by_the_sign_of_the_mean),
        cmocka_unit_test(refuses_with_a_reason),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
