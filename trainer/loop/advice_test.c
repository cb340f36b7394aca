/* The time model against values computed by hand; choices of k, D, H; points where advice
 * changes. */
#include "trainer/loop/trainer_ranks.h"
#include "trainer/loop/advice.h"

static void is(double a, double b)
{
    if (!(fabs(a - b) < 1e-9))
        fail_msg("%.12g: expected %.12g", a, b);
}

static void equations(void **state)
{
    (void)state;
    const advice_times wire = {.tau = 10, .phi = 50, .psi = 4, .delta = 1, .spare = true},
                       equal = {.tau = 50, .phi = 50, .psi = 60, .delta = 5, .spare = true};
    is(advice_ssgd(&wire), 60);
    is(advice_od(&wire), 50);
    is(advice_bit(&wire), 15);
    is(advice_cd(&wire, 5), (4 * 10 + 50) / 5.0);
    is(advice_cd(&wire, 1), 50);
    is(advice_cd(&wire, 0), 10);
    /* tau = phi belongs to both branches. */
    is(advice_ssgd(&equal), 100);
    is(advice_od(&equal), 50);
    is(advice_cd(&equal, 2), (65 + 50) / 2.0);
    advice_times shared = wire; /* coding takes the computing core's time */
    shared.spare = false;
    is(advice_bit(&shared), 15);
    is(advice_cd(&shared, 5), (4 * (10 + 1) + 50) / 5.0);
    shared.psi = 20;
    is(advice_cd(&shared, 0), 21);
}

/* 100 ms of computing, with free coding: an MLP of 0.2 M parameters. */
static advice *make(tg_driver driver)
{
    const train_job job = {.model = "mlp",
                           .method = "dense",
                           .strategy = "ssgd",
                           .optimizer = "sgd:lr=0.1",
                           .batch = 32,
                           .overlap = TG_OVERLAP_FULL,
                           .driver = driver,
                           .tau_ns = 100000000};
    const advice_request request = {.job = &job, .world = 4, .coding_is_free = true};
    advice *a = NULL;
    OK(advice_create(&request, &a));
    is(advice_tau(a), 0.1);
    return a;
}

static tg_link link_of(const char *text)
{
    tg_link l;
    OK(tg_link_parse(text, &l));
    return l;
}

static double step_of(const advice *a, const tg_link *l, advice_family family, unsigned number,
                      size_t method)
{
    advice_way w = {.family = family, .number = number, .method = method};
    OK(advice_predict(a, l, &w));
    return w.step_s;
}

/* Each number is the smallest that is enough. */
static void numbers(void **state)
{
    (void)state;
    advice *a = make(TG_DRIVER_AUTO);
    const tg_link l = link_of("50mbit,80ms");
    advice_way way[64];
    size_t count, chosen = 0;
    OK(advice_list(a, &l, way, &count));
    assert_true(count > 15 && count <= ADVICE_FAMILIES * advice_method_count);
    for (size_t i = 0; i < count; i++) {
        const advice_way *w = &way[i];
        is(step_of(a, &l, w->family, w->number, w->method), w->step_s);
        assert_true(w->step_s >= 0.1 - 1e-9);
        if (i >= 2)
            assert_true(w->step_s >= way[i - 1].step_s);
        if (w->family < ADVICE_CD || w->number == (w->family == ADVICE_STREAMING ? 2 : 1))
            continue;
        const unsigned most = w->family >= ADVICE_LOCAL ? 500 : 64;
        const double enough = 1.1 * step_of(a, &l, w->family, most, w->method);
        assert_true(w->step_s <= enough);
        assert_true(step_of(a, &l, w->family, w->number - 1, w->method) > enough);
        chosen++;
    }
    assert_true(chosen > 3);
    advice_destroy(a);
}

/* `local` pays for the exchange of a round once per round; `streaming` only for what is left of it
 * after a step of computing. Both send the same amount. */
static void streaming_overlaps(void **state)
{
    (void)state;
    advice *a = make(TG_DRIVER_AUTO);
    const tg_link hidden = link_of("30ms"), longer = link_of("80ms");
    const size_t methods[] = {0, 8};
    for (size_t i = 0; i < 2; i++) { /* 30 ms per delay: a dense exchange has two, qsgd one */
        advice_way local = {.family = ADVICE_LOCAL, .number = 10, .method = methods[i]},
                   streaming = {.family = ADVICE_STREAMING, .number = 10, .method = methods[i]};
        OK(advice_predict(a, &hidden, &local));
        OK(advice_predict(a, &hidden, &streaming));
        is(local.step_s, 0.1 + (i == 0 ? 0.06 : 0.03) / 10);
        is(streaming.step_s, 0.1);
        is(streaming.bytes, local.bytes);
        assert_string_equal(streaming.strategy, "streaming:every=10");
        assert_string_equal(streaming.method_text, i == 0 ? "dense" : "qsgd:bits=4");
    }
    is(step_of(a, &longer, ADVICE_STREAMING, 10, 0), 0.1 + (0.16 - 0.1) / 10);
    advice_destroy(a);
}

static void recommends(void **state)
{
    (void)state;
    advice *a = make(TG_DRIVER_AUTO);
    static const struct {
        const char *link;
        bool plain;
    } is_plain[] = {{"100gbit,1us", true}, {"20mbit,50ms", false}};
    for (size_t i = 0; i < 2; i++) {
        const tg_link l = link_of(is_plain[i].link);
        advice_way way[64];
        size_t count;
        OK(advice_list(a, &l, way, &count));
        assert_int_equal(way[0].family == ADVICE_SSGD && way[0].method == 0, is_plain[i].plain);
        for (size_t k = 1; k < count; k++)
            assert_true(way[0].step_s <= 1.25 * way[k].step_s);
    }
    advice_destroy(a);
}

/* Made up, with steps, bytes and distances as such ways have them. */
static void nearest_first(void **state)
{
    (void)state;
    enum { LATE_2, LATE_1, APART, OTHER, PLAIN, WAYS };
    static const advice_way made[WAYS] = {[LATE_2] = {.step_s = 20.5, .bytes = 91e3, .distance = 5},
                                          [LATE_1] = {.step_s = 20.9, .bytes = 8e3, .distance = 4},
                                          [APART] = {.step_s = 22.3, .bytes = 6e3, .distance = 8.8},
                                          [OTHER] = {.step_s = 25.0, .bytes = 9e3, .distance = 4},
                                          [PLAIN] = {.step_s = 282, .bytes = 3e6}};
    static const int order[WAYS] = {LATE_1, LATE_2, APART, OTHER, PLAIN};
    advice_way way[WAYS];
    for (size_t i = 0; i < WAYS; i++) /* in another order */
        way[i] = made[(2 * i + 3) % WAYS];
    advice_sort(way, WAYS);
    for (size_t i = 0; i < WAYS; i++)
        is(way[i].step_s, made[order[i]].step_s);
    for (size_t i = 0; i < WAYS; i++) /* equally far, and sends less */
        if (way[i].step_s >= 25 && way[i].step_s < 26)
            way[i].bytes = 7e3;
    advice_sort(way, WAYS);
    is(way[0].step_s, 25);
    for (size_t i = 0; i < WAYS; i++) /* too slow */
        if (way[i].step_s >= 25 && way[i].step_s < 26)
            way[i].step_s = 25.7;
    advice_sort(way, WAYS);
    is(way[0].step_s, 20.9);
}

/* Fewer late steps are nearer to plain SGD; a doubling counts as much as a coded method. */
static void distances(void **state)
{
    (void)state;
    advice *a = make(TG_DRIVER_AUTO);
    const tg_link l = link_of("50mbit,80ms");
    static const struct {
        advice_way way;
        double distance;
    } known[] = {
        {{.family = ADVICE_SSGD}, 0},
        {{.family = ADVICE_SSGD, .method = 4}, 1},
        {{.family = ADVICE_OD}, 2},
        {{.family = ADVICE_CD, .number = 4, .method = 4}, 5},
        {{.family = ADVICE_DGA, .number = 1, .method = 4}, 4},
        {{.family = ADVICE_DGA, .number = 2, .method = 4}, 5},
        {{.family = ADVICE_LOCAL, .number = 16}, 8},
        {{.family = ADVICE_LOCAL, .number = 8, .method = 4}, 8},
        {{.family = ADVICE_STREAMING, .number = 8}, 8},
        {{.family = ADVICE_STREAMING, .number = 8, .method = 8}, 9},
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        advice_way w = known[i].way;
        OK(advice_predict(a, &l, &w));
        is(w.distance, known[i].distance);
    }
    advice_destroy(a);
}

/* A way that is as fast, but less late or sends less, must be preferred. */
static void takes_the_fresher(void **state)
{
    (void)state;
    static const struct {
        int world;
        const char *strategy, *method;
    } taken[] = {{2, "dga:delay=1", "dgc"}, {8, "dga:delay=1", "dgc"}, {1000, NULL, "powersgd"}};
    const train_job job = {.model = "lenet5",
                           .method = "dense",
                           .strategy = "ssgd",
                           .optimizer = "sgd:lr=0.1",
                           .batch = 32,
                           .overlap = TG_OVERLAP_FULL,
                           .tau_ns = 20000000};
    const tg_link l = link_of("100mbit,20ms");
    for (size_t i = 0; i < sizeof taken / sizeof taken[0]; i++) {
        const advice_request request = {
            .job = &job, .world = taken[i].world, .coding_is_free = true};
        advice_way way[64];
        size_t count;
        advice *a = NULL;
        OK(advice_create(&request, &a));
        OK(advice_list(a, &l, way, &count));
        assert_string_equal(way[0].method_text, taken[i].method);
        if (taken[i].strategy)
            assert_string_equal(way[0].strategy, taken[i].strategy);
        advice_destroy(a);
    }
}

static double fastest(const advice *a, const tg_link *l, advice_family family, size_t from,
                      size_t to)
{
    double best = INFINITY;
    for (size_t m = from; m < to; m++)
        best = fmin(best, step_of(a, l, family, 64, m));
    return best;
}

/* Just below and just above a crossing, the comparison gives different results. */
static void crossings(void **state)
{
    (void)state;
    advice *a = make(TG_DRIVER_AUTO);
    tg_link l = link_of("1gbit,1ms");
    advice_ranges compression, delay;
    OK(advice_crossings(a, &l, &compression, &delay));
    is(compression.low, 1e5);
    is(compression.high, 1e12);
    is(delay.low, 1e-6);
    is(delay.high, 10);
    assert_int_equal(compression.count, 1);
    assert_int_equal(delay.count, 1);
    is(compression.range[0].from, compression.low);
    is(delay.range[0].to, delay.high);
    for (int above = 0; above < 2; above++) {
        tg_link at = l;
        at.up_bps = at.down_bps = compression.range[0].to * (above ? 1.03 : 0.97);
        const double dense = fastest(a, &at, ADVICE_SSGD, 0, ADVICE_CODED),
                     coded = fastest(a, &at, ADVICE_SSGD, ADVICE_CODED, advice_method_count);
        assert_int_equal(coded < 0.9 * dense, !above);
        at = l;
        at.delay_ns = (int64_t)(1e9 * delay.range[0].from * (above ? 1.03 : 0.97));
        const double waits = fastest(a, &at, ADVICE_SSGD, 0, advice_method_count),
                     late = fmin(fastest(a, &at, ADVICE_OD, 0, advice_method_count),
                                 step_of(a, &at, ADVICE_DGA, 64, 0));
        assert_int_equal(late < 0.9 * waits, above);
    }
    advice_destroy(a);
}

/* The answer changes at each edge; it pays from edges with an even index to the next. */
typedef struct edges {
    const double *at;
    size_t count, calls;
} edges;

static tg_status pays_between(void *arg, double at, bool *pays_p)
{
    edges *e = arg;
    size_t below = 0;
    while (below < e->count && e->at[below] <= at)
        below++;
    *pays_p = below % 2 == 1;
    return ++e->calls > 500 ? TG_E_STATE : TG_OK;
}

static void finds_ranges(void **state)
{
    (void)state;
    static const double at[][5] = {{0},                        /* nowhere */
                                   {0.5},                      /* everywhere */
                                   {0.5, 3e3},                 /* below */
                                   {2e7},                      /* above */
                                   {40, 7e6},                  /* two changes, equal at the ends */
                                   {0.5, 30, 4e5},             /* likewise, pays at the ends only */
                                   {0.5, 100, 3e4, 3e5, 9e8}}; /* three ranges */
    static const size_t count[] = {0, 1, 2, 1, 2, 3, 5};
    for (size_t i = 0; i < sizeof count / sizeof count[0]; i++) {
        edges e = {at[i], count[i], 0};
        advice_ranges r;
        OK(advice_look(pays_between, &e, 1, 1e9, &r));
        assert_int_equal(r.count, (count[i] + 1) / 2);
        for (size_t k = 0; k < r.count; k++) {
            const double from = fmax(at[i][2 * k], 1),
                         to = 2 * k + 1 < count[i] ? at[i][2 * k + 1] : 1e9;
            assert_true(fabs(r.range[k].from / from - 1) < 0.01);
            assert_true(fabs(r.range[k].to / to - 1) < 0.01);
        }
    }
}

static tg_status fails_late(void *arg, double at, bool *pays_p)
{
    (void)arg;
    *pays_p = at > 5;
    return at < 5 || at >= 10 ? TG_OK : TG_E_NOMEM; /* reached only by the bisection */
}

static void look_fails(void **state)
{
    (void)state;
    advice_ranges r = {.count = 7};
    assert_int_equal(advice_look(fails_late, NULL, 1, 1e24, &r), TG_E_NOMEM);
    assert_int_equal(r.count, 7);
}

/* A step of many ranks over a slow link takes longer than 64 bits of nanoseconds can hold. */
static void many_ranks(void **state)
{
    (void)state;
    const train_job job = {.model = "resnet18",
                           .method = "dense",
                           .strategy = "ssgd",
                           .optimizer = "sgd:lr=0.1",
                           .batch = 1,
                           .overlap = TG_OVERLAP_FULL,
                           .tau_ns = 100000000};
    const advice_request request = {.job = &job, .world = TG_SIM_WORLD_MAX, .coding_is_free = true};
    const tg_link slow = link_of("1kbit,1ms"), slower = link_of("0.5kbit,1ms");
    advice *a = NULL;
    OK(advice_create(&request, &a));
    const double step = step_of(a, &slow, ADVICE_SSGD, 0, 1);
    assert_true(step > 1e10); /* 48 of them: 5e20 ns */
    assert_true(fabs(step_of(a, &slower, ADVICE_SSGD, 0, 1) / step - 2) < 1e-3);
    advice_destroy(a);
}

/* The advice is for the model with the input of the given data. */
static void input_of_data(void **state)
{
    (void)state;
    static const struct {
        const char *data;
        size_t inputs;
    } is_of[] = {{"glyphs", 28 * 28}, {"cifar10", 32 * 32 * 3}};
    const train_job job = {.model = "mlp:hidden=16,hidden2=0",
                           .method = "dense",
                           .strategy = "ssgd",
                           .optimizer = "sgd:lr=0.1",
                           .batch = 1,
                           .tau_ns = 1000000};
    for (size_t i = 0; i < 2; i++) {
        const advice_request request = {
            .job = &job, .data = is_of[i].data, .world = 2, .coding_is_free = true};
        advice *a = NULL;
        OK(advice_create(&request, &a));
        assert_int_equal(advice_params(a), 16 * is_of[i].inputs + 16 + 16 * 10 + 10);
        advice_destroy(a);
    }
}

static void refuses(void **state)
{
    (void)state;
    const train_job job = {.model = "mlp", .batch = 1, .tau_ns = 1};
    advice_request request = {.job = &job, .world = 1};
    advice *a = NULL;
    assert_int_equal(advice_create(&request, &a), TG_E_ARG);
    assert_non_null(strstr(tg_error(), "1 workers: allowed: 2 to"));
    assert_null(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equations),
        cmocka_unit_test(numbers),
        cmocka_unit_test(streaming_overlaps),
        cmocka_unit_test(recommends),
        cmocka_unit_test(nearest_first),
        cmocka_unit_test(distances),
        cmocka_unit_test(takes_the_fresher),
        cmocka_unit_test(crossings),
        cmocka_unit_test(finds_ranges),
        cmocka_unit_test(look_fails),
        cmocka_unit_test(many_ranks),
        cmocka_unit_test(input_of_data),
        cmocka_unit_test(refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
