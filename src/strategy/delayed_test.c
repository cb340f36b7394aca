/* OD-SGD and CD-SGD: their limiting cases bit for bit, the order of events, skipped steps,
 * draining, resuming. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "strategy_play.h"

static const char *const optimizers[] = {"sgd:lr=0.1", "sgd:lr=0.1,weight_decay=0.01",
                                         "sgd:lr=0.1,momentum=0.9,weight_decay=0.01",
                                         "sgd:lr=0.1,momentum=0.9,weight_decay=0.01,nesterov=yes"};

/* k = 1, P = 1, eta_loc = eta: sequential SGD; and any optimizer if the local step previews it. */
static void alone_it_is_sequential_sgd(void **state)
{
    (void)state;
    static const char *const strategies[] = {"cd:k=1,warmup=2,local=sgd", "od:warmup=2,eta_loc=0.1",
                                             "cd:k=1,warmup=2,local=preview",
                                             "od:warmup=0,local=preview"};
    for (size_t o = 0; o < TG_COUNT(optimizers); o++) {
        for (size_t s = o < 2 ? 0 : 2; s < TG_COUNT(strategies); s++) {
            play delayed, sequential;
            play_create(&delayed, strategies[s], optimizers[o], 1);
            play_create(&sequential, "ssgd", optimizers[o], 1);
            play_begin_run(&delayed);
            play_begin_run(&sequential);
            for (uint64_t t = 0; t < 9; t++) {
                /* A change of rate enters through eta_loc * lr / 0.1, exact for powers of two. */
                delayed.lr = sequential.lr = t < 6 ? 0.1 : 0.05;
                play_step(&delayed);
                play_step(&sequential);
                assert_same_bits(delayed.rank[0].w, sequential.rank[0].w);
            }
            play_drain(&delayed);
            assert_same_bits(play_global(&delayed, 0), sequential.rank[0].w);
            assert_same_bits(delayed.rank[0].w, sequential.rank[0].w);
            play_destroy(&delayed);
            play_destroy(&sequential);
        }
    }
}

/* eta_loc = 0: the gradient of step t is that at W_t, which does not include the result of step
 * t-1. */
static void without_local_step_it_is_delayed_sgd(void **state)
{
    (void)state;
    for (size_t o = 0; o < TG_COUNT(optimizers); o++) {
        play p;
        play_create(&p, "cd:k=1,warmup=0,eta_loc=0", optimizers[o], 2);
        play_begin_run(&p);
        float w[PLAY_N], u[PLAY_N] = {0}, last[PLAY_N] = {0}, g[2][PLAY_N];
        float *slot[] = {u};
        memcpy(w, p.rank[0].w, sizeof w);
        for (uint64_t t = 0; t < 8; t++) {
            /* The forward pass of step t uses W after the results up to step t-2. */
            assert_same_bits(p.rank[0].w, w);
            play_gradient(g[0], w, 0, t);
            play_gradient(g[1], w, 1, t);
            const tg_update update = {.struct_size = sizeof update, .lr = 0.1};
            if (t > 0)
                assert_int_equal(tg_optimizer_step(p.optimizer, &update, w, last, PLAY_N, slot),
                                 TG_OK);
            for (size_t e = 0; e < PLAY_N; e++)
                last[e] = (g[0][e] + g[1][e]) * 0.5f;
            play_step(&p);
            assert_same_bits(p.rank[0].w, w);
            assert_same_bits(p.rank[1].w, w);
        }
        play_destroy(&p);
    }
}

/* Optimizers other than SGD: the local step previews them, bit for bit, even across a dropped step,
 * which is not an update. */
static void adaptive_ones_alone_are_sequential(void **state)
{
    (void)state;
    static const char *const adaptive[] = {
        "adam:lr=0.1", "adamw:lr=0.1,weight_decay=0.1,exempt=1d", "lars:lr=1,trust=0.1",
        "lars:lr=1,trust=0.1,momentum=0", "sgd:lr=0.1,momentum=0.5,weight_decay=0.1,decoupled=yes"};
    for (size_t o = 0; o < TG_COUNT(adaptive); o++) {
        play delayed, sequential;
        play_create(&delayed, "cd:k=2,warmup=2,local=preview", adaptive[o], 1);
        play_create(&sequential, "ssgd", adaptive[o], 1);
        play_begin_run(&delayed);
        play_begin_run(&sequential);
        for (uint64_t t = 0; t < 8; t++) {
            delayed.lr = sequential.lr = t < 6 ? 0.1 : 0.05;
            delayed.bad_rank = sequential.bad_rank = t == 1 ? 0 : -1;
            play_step(&delayed);
            play_step(&sequential);
            assert_same_bits(delayed.rank[0].w, sequential.rank[0].w);
        }
        play_drain(&delayed);
        assert_same_bits(play_global(&delayed, 0), sequential.rank[0].w);
        if (sequential.rank[0].s->memory[0].counts)
            assert_int_equal(sequential.rank[0].updates[0][2], 7);
        play_destroy(&delayed);
        play_destroy(&sequential);
    }
}

/* Averages of updates on one rank: any optimizer's own steps; for SGD bit for bit. */
static void alone_updates_are_sequential(void **state)
{
    (void)state;
    static const char *const more[] = {"sgd:lr=0.1,momentum=0.5,weight_decay=0.1,decoupled=yes",
                                       "adam:lr=0.1,weight_decay=0.1",
                                       "adamw:lr=0.1,weight_decay=0.1,exempt=1d"};
    for (size_t o = 0; o < TG_COUNT(optimizers) + TG_COUNT(more); o++) {
        const bool listed = o < TG_COUNT(optimizers);
        const char *optimizer = listed ? optimizers[o] : more[o - TG_COUNT(optimizers)];
        play delayed, sequential;
        play_create(&delayed, "cd:k=2,warmup=2,average=updates", optimizer, 1);
        play_create(&sequential, "ssgd", optimizer, 1);
        play_begin_run(&delayed);
        play_begin_run(&sequential);
        for (uint64_t t = 0; t < 9; t++) {
            delayed.lr = sequential.lr = t < 6 ? 0.1 : 0.03;
            delayed.bad_rank = sequential.bad_rank = t == 4 ? 0 : -1;
            play_step(&delayed);
            play_step(&sequential);
            if (*optimizer == 's')
                assert_same_bits(delayed.rank[0].w, sequential.rank[0].w);
            assert_true(play_distance(delayed.rank[0].w, sequential.rank[0].w) < 2e-6);
        }
        play_drain(&delayed);
        assert_same_bits(delayed.rank[0].w, play_global(&delayed, 0));
        assert_true(play_distance(delayed.rank[0].w, sequential.rank[0].w) < 2e-6);
        play_destroy(&delayed);
        play_destroy(&sequential);
    }
}

/* The warm-up of averages of updates is the strategy updates, uncompressed. */
static void endless_warmup_of_updates(void **state)
{
    (void)state;
    static const char *const some[] = {"sgd:lr=0.1,momentum=0.9,weight_decay=0.01",
                                       "adamw:lr=0.1,weight_decay=0.1", "adam:lr=0.1,clip=1"};
    for (size_t o = 0; o < TG_COUNT(some); o++) {
        play p, updates;
        play_create(&p, "cd:warmup=1000000000,average=updates", some[o], 3);
        play_create(&updates, "updates", some[o], 3);
        play_begin_run(&p);
        play_begin_run(&updates);
        for (int t = 0; t < 6; t++) {
            p.bad_rank = updates.bad_rank = t == 3 ? 1 : -1;
            play_step(&p);
            play_step(&updates);
            for (int j = 0; j < 3; j++) {
                assert_same_bits(p.rank[j].w, updates.rank[0].w);
                assert_same_bits(play_global(&p, j), updates.rank[0].w);
            }
        }
        play_destroy(&p);
        play_destroy(&updates);
    }
}

/* After the warm-up: W moves by the mean of the ranks' directions, one step late, and Wloc is W
 * moved by the own one. Each rank's direction is that of an optimizer that has seen its gradients
 * alone. */
static void updates_element_by_element(void **state)
{
    (void)state;
    enum { RANKS = 3 };
    static float u[RANKS][PLAY_N], d[RANKS][PLAY_N], want[RANKS][PLAY_N], global[PLAY_N];
    play p;
    play_create(&p, "cd:k=2,warmup=0,average=updates", "sgd:lr=0.1,momentum=0.9,weight_decay=0.01",
                RANKS);
    play_begin_run(&p);
    memcpy(global, p.rank[0].w, sizeof global);
    for (uint64_t t = 0; t < 6; t++) {
        const float last = p.lr > 0 ? (float)p.lr : 0;
        for (size_t e = 0; t > 0 && e < PLAY_N; e++)
            global[e] += last * ((d[0][e] + d[1][e] + d[2][e]) / RANKS);
        p.lr = 0.1 / (double)(t + 1);
        for (int j = 0; j < RANKS; j++) {
            float g[PLAY_N];
            play_gradient(g, p.rank[j].w, j, t);
            for (size_t e = 0; e < PLAY_N; e++) {
                u[j][e] = 0.9f * u[j][e] + (g[e] + 0.01f * p.rank[j].w[e]);
                d[j][e] = -u[j][e];
                want[j][e] = global[e] + (float)p.lr * d[j][e];
            }
        }
        play_step(&p);
        for (int j = 0; j < RANKS; j++) {
            assert_true(play_distance(p.rank[j].w, want[j]) < 1e-6);
            assert_true(play_distance(play_global(&p, j), global) < 1e-6);
        }
    }
    play_drain(&p);
    assert_agreed(&p);
    play_destroy(&p);
}

static void endless_warmup_is_ssgd(void **state)
{
    (void)state;
    for (size_t o = 0; o < TG_COUNT(optimizers); o++) {
        play p, ssgd;
        play_create(&p, "cd:warmup=1000000000", optimizers[o], 3);
        play_create(&ssgd, "ssgd", optimizers[o], 3);
        play_begin_run(&p);
        play_begin_run(&ssgd);
        for (int t = 0; t < 6; t++) {
            p.bad_rank = ssgd.bad_rank = t == 3 ? 1 : -1;
            play_step(&p);
            play_step(&ssgd);
            for (int j = 0; j < 3; j++) {
                assert_same_bits(p.rank[j].w, ssgd.rank[0].w);
                assert_same_bits(play_global(&p, j), ssgd.rank[0].w);
            }
        }
        play_destroy(&p);
        play_destroy(&ssgd);
    }
}

static void od_is_cd_with_k_1(void **state)
{
    (void)state;
    play od, cd;
    play_create(&od, "od:warmup=3,eta_loc=0.4", optimizers[2], 3);
    play_create(&cd, "cd:k=1,warmup=3,eta_loc=0.4", optimizers[2], 3);
    play_begin_run(&od);
    play_begin_run(&cd);
    for (int t = 0; t < 9; t++) {
        play_step(&od);
        play_step(&cd);
        for (int j = 0; j < 3; j++)
            assert_same_bits(od.rank[j].w, cd.rank[j].w);
    }
    assert_int_equal(od.nevents, cd.nevents);
    assert_memory_equal(od.events, cd.events, sizeof od.events);
    play_destroy(&od);
    play_destroy(&cd);
}

static void assert_events(const char *strategy, int steps, const char *want)
{
    play p;
    char got[512] = "";
    play_create(&p, strategy, "sgd:lr=0.1", 2);
    play_begin_run(&p);
    for (int t = 0; t < steps; t++)
        play_step(&p);
    play_drain(&p);
    for (size_t i = 0; i < p.nevents; i++) {
        strcat(got, p.events[i]);
        strcat(got, strcmp(p.events[i], "s") == 0 ? " | " : " ");
    }
    assert_string_equal(got, want);
    play_destroy(&p);
}

static void order_of_events(void **state)
{
    (void)state;
    assert_events("cd:k=2,warmup=1", 4,
                  "x0d x1d r0 r1 s | s | x0d x1d r0 r1 s | x0c x1c r0 r1 s | x0d x1d r0 r1 ");
    assert_events("cd:k=0,warmup=0", 2, "s | x0c x1c r0 r1 s | x0c x1c r0 r1 ");
    assert_events("cd:k=2,warmup=1,average=updates", 4,
                  "x0d x1d r0 r1 s | s | x0d x1d r0 r1 s | x0c x1c r0 r1 s | x0d x1d r0 r1 ");
    assert_events("od:warmup=0", 2, "s | x0d x1d r0 r1 s | x0d x1d r0 r1 ");
}

/* The ranks' Wloc differ, their W never. */
static void ranks_share_the_global_parameters(void **state)
{
    (void)state;
    static const char *const locals[] = {"sgd", "preview", "dcasgd"};
    for (size_t l = 0; l < TG_COUNT(locals); l++) {
        char spec[64];
        play p;
        snprintf(spec, sizeof spec, "cd:warmup=2,eta_loc=0.3,local=%s", locals[l]);
        play_create(&p, spec, optimizers[2], 3);
        play_begin_run(&p);
        for (int t = 0; t < 7; t++) {
            p.bad_rank = t == 4 ? 2 : -1;
            play_step(&p);
            assert_same_bits(play_global(&p, 0), play_global(&p, 1));
            assert_same_bits(play_global(&p, 0), play_global(&p, 2));
            bool differ = memcmp(p.rank[0].w, p.rank[1].w, sizeof p.rank[0].w) != 0;
            assert_int_equal(differ, t >= 2);
        }
        play_drain(&p);
        for (int j = 0; j < 3; j++)
            assert_same_bits(p.rank[j].w, play_global(&p, 0));
        play_destroy(&p);
    }
}

/* The three local updates, element by element. */
static void local_updates(void **state)
{
    (void)state;
    static const char *const locals[] = {"sgd", "preview", "dcasgd,lambda=0.25", "sgd,scaled=yes",
                                         "dcasgd,lambda=0.25,scaled=yes"};
    for (int l = 0; l < 5; l++) {
        char spec[64];
        play p;
        snprintf(spec, sizeof spec, "cd:warmup=1,eta_loc=0.2,local=%s", locals[l]);
        play_create(&p, spec, optimizers[2], 2);
        play_begin_run(&p);
        for (int t = 0; t < 5; t++) {
            float before[PLAY_N];
            memcpy(before, p.rank[1].w, sizeof before);
            p.lr = t < 3 ? 0.1 : 0.05; /* eta_loc changes with it */
            const float eta = t < 3 ? 0.2f : 0.1f;
            play_step(&p);
            const float *w = play_global(&p, 1), *g = p.rank[1].g, *u = p.rank[1].slot[0];
            for (size_t e = 0; t > 0 && e < PLAY_N; e++) {
                const float own = l > 2 ? g[e] / 2 : g[e]; /* a half: exact */
                float d = own + 0.01f * w[e];
                if (l == 1)
                    d = 0.9f * u[e] + d;
                if (l == 2 || l == 4)
                    d = d + 0.25f * own * own * (w[e] - before[e]);
                assert_true(p.rank[1].w[e] == w[e] - eta * d);
            }
        }
        play_destroy(&p);
    }
}

static void a_bad_gradient_is_skipped(void **state)
{
    (void)state;
    play p;
    play_create(&p, "cd:k=3,warmup=0", optimizers[2], 2);
    play_begin_run(&p);
    play_step(&p);
    play_step(&p);
    p.bad_rank = 1;
    play_step(&p); /* applies the result of step 1; rank 1 takes no local step */
    float w[PLAY_N], u[PLAY_N];
    memcpy(w, play_global(&p, 0), sizeof w);
    memcpy(u, p.rank[0].slot[0], sizeof u);
    assert_same_bits(p.rank[1].w, w);
    assert_true(memcmp(p.rank[0].w, w, sizeof w) != 0);
    play_step(&p); /* the flagged exchange changes nothing, momentum included */
    assert_same_bits(play_global(&p, 0), w);
    assert_same_bits(play_global(&p, 1), w);
    assert_same_bits(p.rank[0].slot[0], u);
    assert_true(memcmp(p.rank[1].w, w, sizeof w) != 0);
    static const char *const want[] = {"s",   "x0d", "x1d", "r0", "r1",  "s",
                                       "x0c", "x1c", "r0",  "r1", "s",   "x0c",
                                       "x1c", "r0-", "r1-", "s",  "x0d", "x1d"};
    assert_int_equal(p.nevents, TG_COUNT(want));
    for (size_t i = 0; i < TG_COUNT(want); i++)
        assert_string_equal(p.events[i], want[i]);
    play_step(&p);
    for (size_t e = 0; e < PLAY_N; e++)
        assert_true(isfinite(p.rank[0].w[e]) && isfinite(p.rank[1].w[e]));
    play_destroy(&p);
}

/* A checkpoint is w, the slots and the result not yet applied; begin() is not called again. */
static void resumes(const char *strategy)
{
    for (uint64_t stop = 1; stop < 6; stop++) {
        play a, b;
        play_create(&a, strategy, optimizers[2], 2);
        play_create(&b, strategy, optimizers[2], 2);
        play_begin_run(&a);
        while (a.t < stop)
            play_step(&a);
        for (int j = 0; j < 2; j++) {
            memcpy(b.rank[j].w, a.rank[j].w, sizeof a.rank[j].w);
            memcpy(b.rank[j].slot, a.rank[j].slot, sizeof a.rank[j].slot);
            assert_same_bits(play_global(&b, j), play_global(&a, j)); /* before any step */
        }
        memcpy(b.flight, a.flight, sizeof a.flight);
        b.flights = a.flights;
        b.t = a.t;
        a.nevents = 0;
        memset(a.events, 0, sizeof a.events);
        for (int t = 0; t < 5; t++) {
            play_step(&a);
            play_step(&b);
            for (int j = 0; j < 2; j++) {
                assert_same_bits(b.rank[j].w, a.rank[j].w);
                assert_same_bits(play_global(&b, j), play_global(&a, j));
            }
        }
        assert_memory_equal(a.events, b.events, sizeof a.events);
        play_destroy(&a);
        play_destroy(&b);
    }
}

static void resuming_gives_the_same_bits(void **state)
{
    (void)state;
    resumes("cd:k=2,warmup=3,local=dcasgd");
    resumes("cd:k=2,warmup=3,average=updates");
}

/* Draining does not change the count, and the next step starts from W. */
static void goes_on_after_draining(void **state)
{
    (void)state;
    play p;
    play_create(&p, "cd:k=3,warmup=0", "sgd:lr=0.1", 1);
    play_begin_run(&p);
    play_step(&p);
    play_step(&p);
    play_drain(&p);
    float w[PLAY_N], g[PLAY_N];
    memcpy(w, play_global(&p, 0), sizeof w);
    assert_same_bits(p.rank[0].w, w);
    play_gradient(g, w, 0, p.t);
    play_step(&p);
    assert_same_bits(play_global(&p, 0), w); /* nothing was in flight */
    for (size_t e = 0; e < PLAY_N; e++)
        assert_true(p.rank[0].w[e] == w[e] - 0.1f * g[e]);
    assert_string_equal(p.events[p.nevents - 1], "x1c"); /* count 2 */
    play_step(&p);
    assert_string_equal(p.events[p.nevents - 1], "x1d"); /* count 3 */
    play_destroy(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(alone_it_is_sequential_sgd),
        cmocka_unit_test(without_local_step_it_is_delayed_sgd),
        cmocka_unit_test(adaptive_ones_alone_are_sequential),
        cmocka_unit_test(alone_updates_are_sequential),
        cmocka_unit_test(endless_warmup_of_updates),
        cmocka_unit_test(updates_element_by_element),
        cmocka_unit_test(endless_warmup_is_ssgd),
        cmocka_unit_test(od_is_cd_with_k_1),
        cmocka_unit_test(order_of_events),
        cmocka_unit_test(ranks_share_the_global_parameters),
        cmocka_unit_test(local_updates),
        cmocka_unit_test(a_bad_gradient_is_skipped),
        cmocka_unit_test(resuming_gives_the_same_bits),
        cmocka_unit_test(goes_on_after_draining),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
