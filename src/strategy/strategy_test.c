/* Common to all strategies: the list, spec strings and their messages; and ssgd. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "strategy_play.h"

static void lists_what_exists(void **state)
{
    (void)state;
    static const char *const names[] = {"ssgd",      "updates", "server", "od",         "cd",
                                        "pipe",      "dga",     "local",  "fedavg",     "diloco",
                                        "streaming", "eager",   "gossip", "sparseloco", "demo"};
    size_t count;
    const tg_entry *const *list = tg__strategy_entries(&count);
    assert_int_equal(count, TG_COUNT(names));
    for (size_t i = 0; i < count; i++) {
        assert_string_equal(list[i]->name, names[i]);
        const tg__strategy_ops *ops = (const tg__strategy_ops *)list[i];
        const bool gradients = strchr("spu", names[i][0]) != NULL || strcmp(names[i], "dga") == 0 ||
                               strcmp(names[i], "eager") == 0 || strcmp(names[i], "demo") == 0;
        assert_int_equal(ops->bypasses, !gradients || strcmp(names[i], "streaming") == 0 ||
                                            strcmp(names[i], "sparseloco") == 0);
    }
}

/* More exchanges than there is room for are an error; nothing is written beyond the room. */
static void says_that_the_room_is_full(void **state)
{
    (void)state;
    static play p;
    play_create(&p, "local:every=4", "sgd:lr=0.1", 1);
    const tg__strategy *s = p.rank[0].s;
    tg__action item[3] = {{.tag = 7}, {.tag = 7}, {.tag = 7}};
    tg__actions out = {.item = item, .cap = 2};
    tg__actions_add(&out, 0, true, 5);
    tg__actions_add_slot(s, &out, 0, 0, 5, 3);
    assert_int_equal(tg__actions_check(s, &out), TG_OK);
    assert_int_equal(out.count, 2);
    assert_ptr_equal(item[1].buffer, s->slot[0][1]);
    tg__actions_add_slot(s, &out, 0, 0, 6, 4);
    tg__actions_add(&out, 0, true, 6);
    assert_int_equal(out.count, 2);
    assert_int_equal(item[1].tag, 3);
    assert_int_equal(item[2].tag, 7);
    assert_int_equal(tg__actions_check(s, &out), TG_E_STATE);
    assert_non_null(strstr(tg_error(), "more than 2 exchanges at once"));
    /* Settings of an action that found no room do not affect other actions. */
    tg__actions none = {.item = item + 1};
    const tg__action first = item[0], second = item[1];
    tg__action *a = tg__actions_add_slot(s, &none, 0, 0, 6, 9);
    a->hop = 5;
    tg__actions_add(&none, 0, true, 6)->coded = false;
    assert_int_equal(none.count, 0);
    assert_memory_equal(&item[0], &first, sizeof first);
    assert_memory_equal(&item[1], &second, sizeof second);
    assert_int_equal(tg__actions_check(s, &none), TG_E_STATE);
    play_destroy(&p);
}

/* Every tensor is in a bucket, and every bucket begins with a tensor. */
static void refuses_buckets_that_do_not_fit(void **state)
{
    (void)state;
    static const struct {
        uint32_t bucket[2];
        size_t offset[2];
        const char *want;
    } cases[] = {{{0, 2}, {0, 0}, "bucket 2 of tensor 1: allowed: below 2"},
                 {{1, 1}, {0, 3}, "bucket 0: no tensor begins it"},
                 {{0, 1}, {0, 3}, "bucket 1: no tensor begins it"}};
    tg_optimizer *o;
    assert_int_equal(tg_optimizer_create("sgd", &o), TG_OK);
    for (size_t i = 0; i < TG_COUNT(cases); i++) {
        tg__strategy *s = NULL;
        tg__wtensor tensor[2];
        for (size_t k = 0; k < 2; k++)
            tensor[k] =
                (tg__wtensor){.n = 3, .bucket = cases[i].bucket[k], .offset = cases[i].offset[k]};
        const tg__strategy setup = {
            .optimizer = o, .size = 2, .tensor = tensor, .ntensors = 2, .nbuckets = 2};
        assert_int_equal(tg__strategy_create("local:every=4", &setup, &s), TG_E_ARG);
        assert_null(s);
        assert_string_equal(tg_error(), cases[i].want);
    }
    tg_optimizer_destroy(o);
}

static void assert_refused(const char *spec, const char *optimizer, uint64_t steps_per_epoch,
                           const char *want)
{
    tg_optimizer *o;
    tg__strategy *s = NULL;
    tg__wtensor tensor = {.n = 1};
    assert_int_equal(tg_optimizer_create(optimizer, &o), TG_OK);
    const tg__strategy setup = {.optimizer = o,
                                .steps_per_epoch = steps_per_epoch,
                                .size = 2,
                                .tensor = &tensor,
                                .ntensors = 1,
                                .nbuckets = 1};
    assert_int_equal(tg__strategy_create(spec, &setup, &s), TG_E_SPEC);
    assert_null(s);
    if (!strstr(tg_error(), want))
        fail_msg("%s", tg_error());
    tg_optimizer_destroy(o);
}

static void refuses_with_a_reason(void **state)
{
    (void)state;
    assert_refused("dgb", "sgd", 0,
                   "unknown strategy \"dgb\": did you mean \"dga\"? allowed: ssgd, updates, "
                   "server, od, cd, pipe");
    assert_refused("streaming:fragments=2", "sgd", 0,
                   "fragments=2, more than the bucket count of 1");
    assert_refused("streaming:every=4,fragments=1,overlap=4", "sgd", 0,
                   "overlap=4 with every=4: allowed: 0 to 3");
    assert_refused("fedavg:clients=0", "sgd", 0, "clients=0: allowed: 0 < clients <= 1");
    assert_refused("dga:delay=5,every=2", "sgd", 0, "delay=5 with every=2: allowed: a multiple");
    assert_refused("dga:every=2,delay=2,correct=no", "sgd", 0, "correct=no with every=2");
    assert_refused("pipe:width=0", "sgd", 0, "width=0: allowed: 1 <= width <= 1000");
    assert_refused("ssgd:k=1", "sgd", 0, "allowed: none, it has no keys");
    assert_refused("od:k=1", "sgd", 0, "allowed: warmup, eta_loc, local, lambda");
    assert_refused("cd:k=-1", "sgd", 0, "k=-1: allowed: 0 <= k");
    assert_refused("cd:eta_loc=-0.1", "sgd", 0, "eta_loc=-0.1: allowed: 0 <= eta_loc");
    assert_refused("cd:local=adam", "sgd", 0, "local=adam: allowed: auto, sgd, preview, dcasgd");
    assert_refused("cd:warmup=2ep", "sgd", 0, "warmup=2ep");
    assert_refused("cd:lambda=1", "sgd", 0, "lambda requires local=dcasgd, not local=preview");
    assert_refused("cd:eta_loc=0.1", "sgd:lr=0", 0, "lr=0: allowed: lr > 0");
    assert_refused("cd:scaled=yes,local=preview", "sgd:lr=0.1", 0, "allowed: local=sgd|dcasgd");
    assert_refused("cd:local=sgd", "adam", 0,
                   "local=sgd uses the optimizer's lr for a step of plain SGD, "
                   "but that of adam is not meant for SGD: use local=preview, or eta_loc=RATE");
    assert_refused("cd:average=updates,local=sgd", "sgd:lr=0.1", 0,
                   "average=updates requires local=preview");
    assert_refused("cd:average=updates,local=preview,eta_loc=0.1", "sgd:lr=0.1", 0,
                   "average=updates requires local=preview without eta_loc");
    assert_refused("cd:average=updates", "lars", 0,
                   "steps are proportional to its rate, not \"lars\": use sgd, adam or adamw, or "
                   "average=gradients");
    assert_refused("od:local=dcasgd", "lars", 0, "local=dcasgd uses the optimizer's lr");
}

static void accepts(void **state)
{
    (void)state;
    static const char *const good[] = {"cd:k=0,warmup=2ep,eta_loc=0", "od:local=preview",
                                       "cd:local=dcasgd,lambda=0.1,k=1"};
    for (size_t i = 0; i < TG_COUNT(good); i++) {
        play p;
        play_create(&p, good[i], "sgd:momentum=0.9", 1);
        assert_int_equal(p.rank[0].s->nslots, 2);
        assert_string_equal(p.rank[0].s->request[0].name, "momentum");
        assert_string_equal(p.rank[0].s->request[1].name, "global");
        play_destroy(&p);
    }
    play p;
    play_create(&p, "cd", "sgd", 1);
    assert_string_equal(tg_spec_text(p.rank[0].s->spec),
                        "cd:k=5,warmup=1000,local=auto,lambda=0.04,scaled=no,average=auto");
    play_destroy(&p);
    play_create(&p, "ssgd", "sgd", 1);
    assert_int_equal(p.rank[0].s->nslots, 0);
    play_destroy(&p);
    tg__strategy_destroy(NULL);
}

static void ssgd_is_sgd_on_the_mean(void **state)
{
    (void)state;
    static const char *const optimizers[] = {
        "sgd:lr=0.1", "sgd:lr=0.1,momentum=0.9,weight_decay=0.01,nesterov=yes"};
    for (size_t o = 0; o < TG_COUNT(optimizers); o++) {
        play p;
        play_create(&p, "ssgd", optimizers[o], 3);
        play_begin_run(&p);
        float w[PLAY_N], u[PLAY_N] = {0}, g[PLAY_N], mean[PLAY_N];
        float *slot[] = {u};
        memcpy(w, p.rank[0].w, sizeof w);
        for (uint64_t t = 0; t < 5; t++) {
            p.lr = 0.1 / (double)(t + 1);
            for (int j = 0; j < 3; j++) {
                play_gradient(g, w, j, t);
                for (size_t e = 0; e < PLAY_N; e++)
                    mean[e] = j == 0 ? g[e] : mean[e] + g[e];
            }
            for (size_t e = 0; e < PLAY_N; e++)
                mean[e] *= 1.0f / 3.0f;
            const tg_update update = {.struct_size = sizeof update, .lr = p.lr};
            assert_int_equal(tg_optimizer_step(p.optimizer, &update, w, mean, PLAY_N, slot), TG_OK);
            play_step(&p);
            for (int j = 0; j < 3; j++) {
                assert_same_bits(p.rank[j].w, w);
                assert_same_bits(play_global(&p, j), w);
            }
        }
        play_destroy(&p);
    }
}

/* Each rank counts the updates of each tensor, and passes its number of dimensions. */
static void ssgd_is_any_optimizer_on_the_mean(void **state)
{
    (void)state;
    static const char *const optimizers[] = {"adam:lr=0.1,weight_decay=0.1,exempt=1d",
                                             "lars:lr=1,trust=0.1"};
    for (size_t o = 0; o < TG_COUNT(optimizers); o++) {
        play p;
        play_create(&p, "ssgd", optimizers[o], 2);
        play_begin_run(&p);
        float w[PLAY_N], m[PLAY_N] = {0}, v[PLAY_N] = {0}, g[PLAY_N], mean[PLAY_N];
        memcpy(w, p.rank[0].w, sizeof w);
        for (uint64_t t = 0; t < 4; t++) {
            play_gradient(mean, w, 0, t);
            play_gradient(g, w, 1, t);
            for (size_t e = 0; e < PLAY_N; e++)
                mean[e] = (mean[e] + g[e]) * 0.5f;
            for (size_t i = 0; i < PLAY_TENSORS; i++) {
                const size_t at = play_begin[i];
                float *slot[] = {m + at, v + at};
                const tg_update u = {
                    .struct_size = sizeof u, .lr = p.lr, .number = t + 1, .ndim = i == 1 ? 1 : 2};
                assert_int_equal(tg_optimizer_step(p.optimizer, &u, w + at, mean + at,
                                                   play_begin[i + 1] - at, slot),
                                 TG_OK);
            }
            play_step(&p);
            for (int j = 0; j < 2; j++)
                assert_same_bits(p.rank[j].w, w);
        }
        play_destroy(&p);
    }
}

static void ssgd_events_and_skips(void **state)
{
    (void)state;
    play p;
    play_create(&p, "ssgd", "sgd:lr=0.1,momentum=0.9", 2);
    play_begin_run(&p);
    play_step(&p);
    float w[PLAY_N], u[PLAY_N];
    memcpy(w, p.rank[0].w, sizeof w);
    memcpy(u, p.rank[0].slot[0], sizeof u);
    p.bad_rank = 1;
    play_step(&p);
    assert_same_bits(p.rank[0].w, w);
    assert_same_bits(p.rank[1].w, w);
    assert_same_bits(p.rank[1].slot[0], u);
    play_drain(&p);
    assert_same_bits(p.rank[0].w, w);
    static const char *const want[] = {"x0c", "x1c", "r0",  "r1",  "s",
                                       "x0c", "x1c", "r0-", "r1-", "s"};
    assert_int_equal(p.nevents, TG_COUNT(want));
    for (size_t i = 0; i < TG_COUNT(want); i++)
        assert_string_equal(p.events[i], want[i]);
    play_destroy(&p);
}

/* The first PLAIN of them have no memory. */
static const char *const optimizers[] = {"sgd:lr=0.1", "sgd:lr=0.1,weight_decay=0.01",
                                         "sgd:lr=0.1,momentum=0.9,weight_decay=0.01,nesterov=yes",
                                         "adamw:lr=0.1,weight_decay=0.1"};
enum { PLAIN = 2, ALL = TG_COUNT(optimizers) };

/* The largest deviation of one rank from ssgd, in any step and after draining, including a dropped
 * step, with a changing rate. near_one: all parameters stay between 1 and 2. */
static double from_ssgd(const char *strategy, const char *optimizer, bool near_one)
{
    play x, y;
    double most = 0;
    play_create(&x, strategy, optimizer, 1);
    play_create(&y, "ssgd", optimizer, 1);
    for (size_t e = 0; near_one && e < PLAY_N; e++)
        x.rank[0].w[e] = y.rank[0].w[e] = 1.25f + (float)e / 140;
    play_begin_run(&x);
    play_begin_run(&y);
    for (uint64_t t = 0; t < 15; t++) {
        x.lr = y.lr = (near_one ? 0.004 : 0.1) / (t < 6 ? 1 : 2);
        x.bad_rank = y.bad_rank = t == 4 ? 0 : -1;
        play_step(&x);
        play_step(&y);
        most = fmax(most, play_distance(x.rank[0].w, y.rank[0].w));
    }
    play_drain(&x);
    most = fmax(most, play_distance(x.rank[0].w, y.rank[0].w));
    most = fmax(most, play_distance(play_global(&x, 0), y.rank[0].w));
    play_destroy(&x);
    play_destroy(&y);
    return most;
}

/* With one rank the mean is its own gradient or change. The change is a difference of parameters,
 * which is subtracted again: between 1 and 2 both operations are exact, elsewhere they round. */
static void alone_they_are_sequential(void **state)
{
    (void)state;
    static const struct {
        const char *strategy;
        size_t optimizers; /* the number of optimizers for which this holds */
    } cases[] = {{"dga:delay=1", ALL},
                 {"dga:delay=3", ALL},
                 {"dga:delay=4,every=2", ALL},
                 {"local:every=4", ALL},
                 {"local:every=4,momentum=average", ALL},
                 {"local:every=4,momentum=reset", PLAIN},
                 {"fedavg:every=4", ALL},
                 {"fedavg:every=4,momentum=reset", PLAIN},
                 {"diloco:every=4,lr=1,momentum=0", ALL},
                 {"streaming:every=4,fragments=2,overlap=0,lr=1,momentum=0", ALL},
                 {"streaming:every=4,fragments=2,overlap=2,alpha=1,lr=1,momentum=0", ALL},
                 {"eager:every=4,lr=1,momentum=0", ALL},
                 {"sparseloco:every=4,lr=1", ALL}};
    for (size_t c = 0; c < TG_COUNT(cases); c++)
        for (size_t o = 0; o < cases[c].optimizers; o++) {
            const double exact = from_ssgd(cases[c].strategy, optimizers[o], true);
            const double rounds = from_ssgd(cases[c].strategy, optimizers[o], false);
            if (exact != 0 || rounds > 1e-6)
                fail_msg("%s, %s: %g, %g", cases[c].strategy, optimizers[o], exact, rounds);
        }
}

/* Strategies that delay, forget, drop or extrapolate do not equal sequential training, even on one
 * rank. */
static void alone_they_are_not_sequential(void **state)
{
    (void)state;
    static const struct {
        const char *strategy, *optimizer;
    } cases[] = {{"pipe:width=2", "sgd:lr=0.1"},
                 {"fedavg:every=4,momentum=reset", "sgd:lr=0.1,momentum=0.9"},
                 {"local:every=4,momentum=reset", "sgd:lr=0.1,momentum=0.9"},
                 {"diloco:every=4", "sgd:lr=0.1"},
                 {"streaming:every=4,fragments=2,overlap=2,lr=1,momentum=0", "sgd:lr=0.1"},
                 {"eager:every=4", "sgd:lr=0.1"},
                 {"demo", "sgd:lr=0.1"}};
    for (size_t c = 0; c < TG_COUNT(cases); c++)
        if (from_ssgd(cases[c].strategy, cases[c].optimizer, false) < 0.01)
            fail_msg("%s, %s", cases[c].strategy, cases[c].optimizer);
}

static void assert_alike(const play *a, const play *b, const char *strategy)
{
    for (int j = 0; j < a->ranks; j++) {
        const play_rank *x = &a->rank[j], *y = &b->rank[j];
        if (memcmp(x->w, y->w, sizeof x->w) != 0 || memcmp(x->slot, y->slot, sizeof x->slot) != 0 ||
            memcmp(x->updates, y->updates, sizeof x->updates) != 0)
            fail_msg("%s: rank %d differs after %d steps", strategy, j, (int)a->t);
    }
}

/* Some gradients are not finite. Returns true if any result was applied with its turn. */
static bool play_beside_and_apart(const char *strategy, const char *optimizer, int ranks)
{
    static play beside, apart;
    play_create(&beside, strategy, optimizer, ranks);
    play_create(&apart, strategy, optimizer, ranks);
    apart.apart = true;
    play_begin_run(&beside);
    play_begin_run(&apart);
    for (int t = 0; t < 24; t++) {
        beside.bad_rank = apart.bad_rank = t == 5 ? 0 : t == 13 || t == 14 ? ranks - 1 : -1;
        beside.lr = apart.lr = t < 16 ? beside.lr : 0.03;
        play_step(&beside);
        play_step(&apart);
        assert_alike(&beside, &apart, strategy);
    }
    const bool made = beside.rank[0].s->made[0] > 0 && beside.rank[0].s->made[1] > 0;
    assert_true(apart.rank[0].s->made[0] == 0);
    play_drain(&beside);
    play_drain(&apart);
    assert_alike(&beside, &apart, strategy);
    play_destroy(&beside);
    play_destroy(&apart);
    return made;
}

/* A strategy that makes its part of the step together with the result has the same bits as one that
 * does not. */
static void steps_beside_results_are_the_same(void **state)
{
    (void)state;
    static const char *const strategies[] = {"od:warmup=0",
                                             "od:warmup=6,local=sgd,scaled=yes",
                                             "cd:k=2,warmup=3,local=dcasgd,lambda=0.25,eta_loc=0.2",
                                             "dga:delay=1",
                                             "dga:delay=3",
                                             "dga:delay=4,every=4",
                                             "dga:delay=4,every=2",
                                             "local:every=4",
                                             "streaming:every=4,fragments=2,overlap=2,alpha=0.5",
                                             "eager:every=4",
                                             "gossip:mean=8,overlap=2",
                                             "pipe:width=3"};
    static const char *const kinds[] = {"sgd:lr=0.1", "sgd:lr=0.1,momentum=0.9,nesterov=yes",
                                        "adamw:lr=0.1", "lars:lr=0.1"};
    for (size_t c = 0; c < TG_COUNT(strategies); c++)
        for (size_t o = 0; o < TG_COUNT(kinds); o++) {
            const bool plain = strstr(strategies[c], "local=") != NULL;
            if (plain && o > 1 && strstr(strategies[c], "eta_loc") == NULL)
                continue; /* plain SGD steps with an adaptive optimizer's rate are refused */
            const bool made = play_beside_and_apart(strategies[c], kinds[o], 3);
            assert_int_equal(made, strchr("ocd", strategies[c][0]) != NULL);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_what_exists),
        cmocka_unit_test(says_that_the_room_is_full),
        cmocka_unit_test(refuses_buckets_that_do_not_fit),
        cmocka_unit_test(refuses_with_a_reason),
        cmocka_unit_test(accepts),
        cmocka_unit_test(ssgd_is_sgd_on_the_mean),
        cmocka_unit_test(ssgd_is_any_optimizer_on_the_mean),
        cmocka_unit_test(ssgd_events_and_skips),
        cmocka_unit_test(steps_beside_results_are_the_same),
        cmocka_unit_test(alone_they_are_sequential),
        cmocka_unit_test(alone_they_are_not_sequential),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
