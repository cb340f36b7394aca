/* Optimizers computed by hand and at their limits, spec strings, previews, learning rates. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "base/mem.h"
#include "strategy/optimizers.h"
#include "strategy/strategy.h"
#include "telegrad/random.h"
#include "telegrad/spec.h"
#include <math.h>
#include <string.h>

static tg_optimizer *create(const char *spec)
{
    tg_optimizer *o = NULL;
    if (tg_optimizer_create(spec, &o) != TG_OK)
        fail_msg("%s", tg_error());
    return o;
}

/* Two steps from w = 1, u = 0 with g = 1, then 2, with exact numbers. */
static void steps_by_hand(void **state)
{
    (void)state;
    static const struct {
        const char *spec;
        float w1, w2;
    } cases[] = {
        {"sgd:lr=0.5", 0.5f, -0.5f},
        {"sgd:lr=0.5,weight_decay=0.5", 0.25f, -0.8125f},              /* d = 1.5, 2.125 */
        {"sgd:lr=0.5,momentum=0.5", 0.5f, -0.75f},                     /* u = 1, 2.5 */
        {"sgd:lr=0.5,momentum=0.5,nesterov=yes", 0.25f, -1.375f},      /* d + m*u = 1.5, 3.25 */
        {"sgd:lr=0.5,momentum=0.5,weight_decay=0.5", 0.25f, -1.1875f}, /* u = 1.5, 2.875 */
        {"sgd:lr=0.5,weight_decay=0.5,decoupled=yes", 0.25f, -0.8125f},
        {"sgd:lr=0.5,momentum=0.5,weight_decay=0.5,decoupled=yes", 0.25f, -1.0625f}, /* u = 2.5 */
        /* trust*|w|/|g| = 0.25, 0.109375; u = 0.125, 0.0625 + 0.109375 */
        {"lars:lr=0.5,momentum=0.5,trust=0.25,eps=0,weight_decay=0", 0.875f, 0.703125f},
        {"adam:lr=0.5,beta1=0,beta2=0,eps=1", 0.75f, 0.75f - 1 / 3.0f}, /* g / (|g| + eps) */
    };
    for (size_t i = 0; i < TG_COUNT(cases); i++) {
        tg_optimizer *o = create(cases[i].spec);
        float w = 1, u = 0, v = 0, g, dst = 0;
        float *slot[] = {&u, &v};
        for (uint64_t t = 1; t <= 2; t++) {
            const tg_update update = {
                .struct_size = sizeof update, .lr = 0.5, .number = t, .ndim = 2};
            g = (float)t;
            o->ops->step(o, &update, &dst, &w, &g, 1, slot);
            assert_int_equal(tg_optimizer_step(o, &update, &w, &g, 1, slot), TG_OK);
            assert_true(w == (t == 1 ? cases[i].w1 : cases[i].w2) && dst == w);
        }
        tg_optimizer_destroy(o);
    }
}

static void slots_and_specs(void **state)
{
    (void)state;
    tg_optimizer *o = create("sgd"), *plain;
    assert_string_equal(
        tg_spec_text(tg_optimizer_spec(o)),
        "sgd:lr=0.01,momentum=0,weight_decay=0,nesterov=no,decoupled=no,exempt=none");
    assert_int_equal(tg_optimizer_slots(o), 0);
    assert_null(tg_optimizer_slot_name(o, 0));
    tg_optimizer_destroy(o);
    o = create("sgd:lr=0.3,momentum=0.9,weight_decay=0.0001,nesterov=yes,exempt=1d");
    assert_int_equal(tg_optimizer_slots(o), 1);
    assert_string_equal(tg_optimizer_slot_name(o, 0), "momentum");
    assert_null(tg_optimizer_slot_name(o, 1));
    assert_int_equal(tg__optimizer_without_momentum(o, &plain), TG_OK);
    assert_string_equal(tg_spec_text(tg_optimizer_spec(plain)),
                        "sgd:lr=0.3,momentum=0,weight_decay=0.0001,nesterov=no,decoupled=no,"
                        "exempt=1d");
    tg_optimizer_destroy(plain);
    tg_optimizer_destroy(o);
    tg_optimizer_destroy(NULL);
    o = NULL;
    assert_int_equal(tg_optimizer_create("sgd:nesterov=yes", &o), TG_E_SPEC);
    assert_non_null(strstr(tg_error(), "nesterov=yes with momentum=0"));
    assert_int_equal(tg_optimizer_create("adagrad", &o), TG_E_SPEC);
    assert_string_equal(tg_error(),
                        "unknown optimizer \"adagrad\": allowed: sgd, adam, adamw, lars");
    assert_int_equal(tg_optimizer_create("adam:beta2=1", &o), TG_E_SPEC);
    assert_int_equal(tg_optimizer_create("adam:eps=0", &o), TG_E_SPEC);
    assert_int_equal(tg_optimizer_create("sgd:clip=0", &o), TG_E_SPEC);
    assert_int_equal(tg_optimizer_create("lars:exempt=2d", &o), TG_E_SPEC);
    assert_int_equal(tg_optimizer_create("sgd:lr=-1", &o), TG_E_SPEC);
    assert_int_equal(tg_optimizer_create(NULL, &o), TG_E_ARG);
    assert_null(o);
    size_t count;
    assert_string_equal(tg__optimizer_entries(&count)[0]->name, "sgd");
    assert_int_equal(count, 4);
}

/* Arbitrary numbers. */
static float noise(uint64_t i)
{
    const tg_rng_key key = {.seed = 7, .purpose = TG_PURPOSE_TEST};
    return (float)tg_rng_normal(&key, i);
}

enum { LEN = 70, TIMES = 9 };

/* Parameters of a tensor of ndim dimensions after some updates; lr is halved meanwhile. */
static void play_updates(const char *spec, size_t ndim, float w[LEN])
{
    tg_optimizer *o = create(spec);
    float u[LEN] = {0}, v[LEN] = {0}, g[LEN] = {0}, dst[LEN];
    float *slot[] = {u, v};
    for (uint64_t i = 0; i < LEN; i++)
        w[i] = noise(i);
    for (uint64_t t = 1; t <= TIMES; t++) {
        const tg_update update = {.struct_size = sizeof update,
                                  .lr = t <= 5 ? o->lr : o->lr / 2,
                                  .number = t,
                                  .ndim = ndim};
        for (uint64_t i = 0; i < LEN; i++)
            g[i] = noise(i + LEN * t);
        o->ops->step(o, &update, dst, w, g, LEN, slot);
        assert_int_equal(tg_optimizer_step(o, &update, w, g, LEN, slot), TG_OK);
        assert_memory_equal(dst, w, sizeof dst);
    }
    tg_optimizer_destroy(o);
}

/* Settings with which one optimizer equals another, bit for bit. */
static void limits(void **state)
{
    (void)state;
    static const struct {
        const char *a, *b;
        size_t ndim;
    } cases[] = {
        {"adamw:weight_decay=0", "adam", 2},
        {"adamw:weight_decay=0.5,exempt=1d", "adam", 1},
        {"adam:weight_decay=0.5,exempt=1d", "adam", 1},
        {"sgd:momentum=0.9,decoupled=yes", "sgd:momentum=0.9", 2},
        {"sgd:momentum=0.9,nesterov=yes,weight_decay=0.1,decoupled=yes,exempt=1d",
         "sgd:momentum=0.9,nesterov=yes", 1},
        {"sgd:weight_decay=0.1,exempt=1d", "sgd", 0},
        {"sgd:weight_decay=0.1,exempt=1d", "sgd:weight_decay=0.1", 2},
        {"lars:lr=0.3,momentum=0,weight_decay=0.1", "sgd:lr=0.3", 1}, /* exempt: ratio 1 */
    };
    for (size_t i = 0; i < TG_COUNT(cases); i++) {
        float a[LEN], b[LEN];
        play_updates(cases[i].a, cases[i].ndim, a);
        play_updates(cases[i].b, cases[i].ndim, b);
        if (memcmp(a, b, sizeof a) != 0)
            fail_msg("%s is not %s", cases[i].a, cases[i].b);
    }
}

/* LARS with a trust coefficient that makes the ratio 1 equals SGD, if the rate is a power of two
 * (it is inside the velocity): here |w| = 2 and |g| = 1. */
static void lars_of_ratio_1_is_sgd(void **state)
{
    (void)state;
    static const char *const pairs[][2] = {
        {"lars:lr=0.5,momentum=0.5,trust=0.5,eps=0,weight_decay=0", "sgd:lr=0.5,momentum=0.5"},
        {"lars:lr=0.25,momentum=0,trust=1,eps=1,weight_decay=0", "sgd:lr=0.25"}};
    for (size_t i = 0; i < TG_COUNT(pairs); i++) {
        tg_optimizer *lars = create(pairs[i][0]), *sgd = create(pairs[i][1]);
        const tg_update update = {
            .struct_size = sizeof update, .lr = lars->lr, .number = 1, .ndim = 2};
        float w[2][4] = {{1, 1, 1, -1}, {1, 1, 1, -1}}, u[2][4] = {{0}};
        float g[4] = {0.5f, -0.5f, 0.5f, 0.5f};
        assert_int_equal(tg_optimizer_step(lars, &update, w[0], g, 4, (float *[]){u[0]}), TG_OK);
        assert_int_equal(tg_optimizer_step(sgd, &update, w[1], g, 4, (float *[]){u[1]}), TG_OK);
        assert_memory_equal(w[0], w[1], sizeof w[0]);
        /* A tensor of zeros has no norm: ratio 1 as well, also with decay. */
        memset(w, 0, sizeof w);
        memset(u, 0, sizeof u);
        assert_int_equal(tg_optimizer_step(lars, &update, w[0], g, 4, (float *[]){u[0]}), TG_OK);
        assert_int_equal(tg_optimizer_step(sgd, &update, w[1], g, 4, (float *[]){u[1]}), TG_OK);
        assert_memory_equal(w[0], w[1], sizeof w[0]);
        tg_optimizer_destroy(lars);
        tg_optimizer_destroy(sgd);
    }
}

/* The rates of steps 0, 1, ... */
static void assert_rates(const char *spec, uint64_t total, uint64_t per_epoch, const double *want,
                         size_t n)
{
    tg_lr_schedule *s;
    if (tg_lr_schedule_create(spec, 0.8, total, per_epoch, &s) != TG_OK)
        fail_msg("%s", tg_error());
    for (uint64_t t = 0; t < n; t++)
        if (!(fabs(tg_lr_schedule_at(s, t) - want[t]) <= 1e-15))
            fail_msg("%s at %d: %.17g is not %.17g", spec, (int)t, tg_lr_schedule_at(s, t),
                     want[t]);
    tg_lr_schedule_destroy(s);
}

#define RATES(spec, total, per_epoch, ...)                              \
    assert_rates(spec, total, per_epoch, (const double[]){__VA_ARGS__}, \
                 TG_COUNT(((const double[]){__VA_ARGS__})))

static void rates(void **state)
{
    (void)state;
    RATES("constant", 0, 0, 0.8, 0.8, 0.8);
    RATES("constant:warmup=4", 0, 0, 0.2, 0.4, 0.6, 0.8, 0.8);
    RATES("constant:warmup=1", 0, 0, 0.8, 0.8);
    RATES("constant:warmup=0.5ep", 0, 4, 0.4, 0.8, 0.8);
    RATES("step:every=2,factor=0.5", 0, 0, 0.8, 0.8, 0.4, 0.4, 0.2, 0.2, 0.1);
    RATES("step:every=1ep,factor=0.5,warmup=2", 0, 3, 0.4, 0.8, 0.8, 0.4, 0.4, 0.4, 0.2);
    RATES("step:at=2+3,factor=0.5", 0, 0, 0.8, 0.8, 0.4, 0.2, 0.2);
    RATES("step:at=1ep+1.5ep,factor=0.5,warmup=4", 0, 2, 0.2, 0.4, 0.3, 0.2, 0.2);
    const double half = 0.4 * (1 + sqrt(0.5)), quarter = 0.4 * (1 - sqrt(0.5));
    RATES("cosine", 4, 0, 0.8, half, 0.4, quarter, 0, 0);
    RATES("cosine:warmup=2", 6, 0, 0.4, 0.8, 0.8, half, 0.4, quarter, 0, 0);
    RATES("cosine:final=0.5", 2, 0, 0.8, 0.6, 0.4, 0.4);
    RATES("cosine:warmup=4", 4, 0, 0.2, 0.4, 0.6, 0.8); /* no step remains */
    RATES("cosine:warmup=4", 2, 0, 0.2, 0.4);
}

/* The rate for a minibatch 4 times as large: from lr at step 0 in equal steps to 4*lr. */
static void scaled_rates(void **state)
{
    (void)state;
    static const struct {
        const char *spec;
        double want[6];
    } cases[] = {{"constant", {2, 2, 2, 2, 2, 2}},
                 {"constant:warmup=3", {0.5, 1, 1.5, 2, 2, 2}},
                 {"step:every=2,factor=0.5,warmup=3", {0.5, 1, 0.75, 1, 0.5, 0.5}}};
    for (size_t i = 0; i < TG_COUNT(cases); i++) {
        tg_lr_schedule *s;
        assert_int_equal(tg_lr_schedule_create(cases[i].spec, 0.5, 6, 0, &s), TG_OK);
        assert_int_equal(tg_lr_schedule_scale(s, 0), TG_E_ARG);
        assert_int_equal(tg_lr_schedule_scale(s, NAN), TG_E_ARG);
        assert_int_equal(tg_lr_schedule_scale(s, 4), TG_OK);
        for (uint64_t t = 0; t < 6; t++)
            assert_true(fabs(tg_lr_schedule_at(s, t) - cases[i].want[t]) <= 1e-15);
        /* Scaling by 1 needs no warm-up, so there is none. */
        assert_int_equal(tg_lr_schedule_scale(s, 1), TG_OK);
        assert_true(tg_lr_schedule_at(s, 0) == 0.5);
        tg_lr_schedule_destroy(s);
    }
}

static void onecycle_at_its_ends(void **state)
{
    (void)state;
    tg_lr_schedule *s;
    assert_int_equal(tg_lr_schedule_create("onecycle:pct_start=1", 1, 11, 0, &s), TG_OK);
    assert_true(fabs(tg_lr_schedule_at(s, 0) - 0.04) < 1e-15 &&
                fabs(tg_lr_schedule_at(s, 10) - 1) < 1e-15);
    assert_true(fabs(tg_lr_schedule_at(s, 11) - 4e-6) < 1e-15); /* after the end of the run */
    tg_lr_schedule_destroy(s);
    assert_int_equal(tg_lr_schedule_create("onecycle:pct_start=0", 1, 3, 0, &s), TG_OK);
    assert_true(tg_lr_schedule_at(s, 0) < 1 && tg_lr_schedule_at(s, 1) < tg_lr_schedule_at(s, 0));
    assert_true(fabs(tg_lr_schedule_at(s, 2) - 4e-6) < 1e-15);
    tg_lr_schedule_destroy(s);
    assert_int_equal(tg_lr_schedule_create("onecycle:pct_start=0.5", 1, 2, 0, &s), TG_OK);
    assert_true(tg_lr_schedule_at(s, 0) == 1); /* the rise has no steps */
    tg_lr_schedule_destroy(s);
    assert_int_equal(tg_lr_schedule_create("onecycle", 1, 1, 0, &s), TG_OK);
    assert_true(fabs(tg_lr_schedule_at(s, 0) - 4e-6) < 1e-15);
    tg_lr_schedule_destroy(s);
}

static void cosine_is_a_cosine(void **state)
{
    (void)state;
    tg_lr_schedule *s;
    assert_int_equal(tg_lr_schedule_create("cosine", 2, 1000, 0, &s), TG_OK);
    for (uint64_t t = 0; t <= 1000; t++)
        assert_true(fabs(tg_lr_schedule_at(s, t) - (1 + cos(acos(-1) * (double)t / 1000))) < 1e-15);
    tg_lr_schedule_destroy(s);
}

static void rates_refuse(void **state)
{
    (void)state;
    tg_lr_schedule *s = NULL;
    assert_int_equal(tg_lr_schedule_create("linear", 1, 1, 0, &s), TG_E_SPEC);
    assert_string_equal(
        tg_error(), "unknown lr schedule \"linear\": allowed: constant, step, cosine, onecycle");
    assert_int_equal(tg_lr_schedule_create("step", 1, 1, 0, &s), TG_E_SPEC); /* 30ep */
    assert_non_null(strstr(tg_error(), "every=30ep"));
    assert_int_equal(tg_lr_schedule_create("step:every=0", 1, 1, 0, &s), TG_E_SPEC);
    assert_non_null(strstr(tg_error(), "every >= 1 step"));
    assert_int_equal(tg_lr_schedule_create("step:every=1,factor=0", 1, 1, 0, &s), TG_E_SPEC);
    assert_int_equal(tg_lr_schedule_create("cosine", 1, 0, 0, &s), TG_E_SPEC);
    assert_int_equal(tg_lr_schedule_create("constant", -1, 0, 0, &s), TG_E_ARG);
    assert_int_equal(tg_lr_schedule_create("constant", NAN, 0, 0, &s), TG_E_ARG);
    static const struct {
        const char *spec, *want;
    } at[] = {{"step:at=2ep+5ep+5ep", "at=2ep+5ep+5ep: 5ep is step 25: allowed"},
              {"step:at=0", "0 is step 0"},
              {"step:at=7+", "not a duration"},
              {"step:at=soon", "at=soon: not a duration"},
              {"step:every=2,at=5", "every and at cannot be combined"},
              {"onecycle:warmup=3", "allowed: pct_start, div_factor, final_div_factor"},
              {"onecycle:pct_start=2", "0 <= pct_start <= 1"}};
    for (size_t i = 0; i < TG_COUNT(at); i++) {
        assert_int_equal(tg_lr_schedule_create(at[i].spec, 1, 1, 5, &s), TG_E_SPEC);
        if (!strstr(tg_error(), at[i].want))
            fail_msg("%s", tg_error());
    }
    assert_int_equal(tg_lr_schedule_create("onecycle", 1, 0, 0, &s), TG_E_SPEC);
    assert_null(s);
    assert_int_equal(tg_lr_schedule_create("step:every=2ep", 1, 1, 5, &s), TG_OK);
    assert_string_equal(tg_lr_schedule_text(s), "step:every=2ep,factor=0.1,warmup=0");
    tg_lr_schedule_destroy(s);
    assert_int_equal(tg_lr_schedule_create("step:at=2ep+11", 1, 1, 5, &s), TG_OK);
    assert_string_equal(tg_lr_schedule_text(s), "step:at=[2ep+11],factor=0.1,warmup=0");
    tg_lr_schedule_destroy(s);
    tg_lr_schedule_destroy(NULL);
    size_t count;
    assert_string_equal(tg__lr_schedule_entries(&count)[0]->name, "constant");
    assert_int_equal(count, 4);
}

static void test_refused_steps(void **state)
{
    (void)state;
    float room[5 * 4] = {0}, *w = room, *g = room + 4, *slot[2] = {room + 8, room + 12};
    float *odd = (float *)((uintptr_t)(room + 16) - 2);
    tg_optimizer *adam;
    tg_update u = {.struct_size = sizeof u, .lr = 0.1, .number = 1, .ndim = 1};
    assert_int_equal(tg_optimizer_create("adam:lr=0.1", &adam), TG_OK);
    assert_int_equal(tg_optimizer_step(adam, &u, w, g, 4, slot), TG_OK);
    const struct {
        tg_update u;
        float *w, *slot[2];
        const char *error;
    } cases[] = {
        {{.lr = 0.1, .number = 1}, odd, {slot[0], slot[1]}, ": must be aligned to 4 bytes"},
        {{.lr = 0.1, .number = 1}, w, {slot[0], odd}, ": must be aligned to 4 bytes"},
        {{.lr = 0.1}, w, {slot[0], slot[1]}, "u->number=0"},
        {{.lr = -1, .number = 1}, w, {slot[0], slot[1]}, "u->lr=-1"},
        {{.lr = (double)NAN, .number = 1}, w, {slot[0], slot[1]}, "u->lr="},
        {{.lr = 0.1, .number = 1}, g - 1, {slot[0], slot[1]}, "overlap"},
        {{.lr = 0.1, .number = 1}, w, {slot[0], NULL}, "slot[1] is NULL"},
        {{.lr = 0.1, .number = 1}, w, {slot[0], slot[0] + 1}, "slot[1] overlaps slot[0]"},
        {{.lr = 0.1, .number = 1}, w, {slot[0], w + 3}, "slot[1] overlaps w or g"},
    };
    for (size_t i = 0; i < TG_COUNT(cases); i++) {
        u = cases[i].u;
        u.struct_size = sizeof u;
        assert_int_equal(tg_optimizer_step(adam, &u, cases[i].w, g, 4, cases[i].slot), TG_E_ARG);
        assert_non_null(strstr(tg_error(), cases[i].error));
    }
    tg_optimizer_destroy(adam);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refused_steps),     cmocka_unit_test(steps_by_hand),
        cmocka_unit_test(slots_and_specs),        cmocka_unit_test(rates),
        cmocka_unit_test(cosine_is_a_cosine),     cmocka_unit_test(limits),
        cmocka_unit_test(lars_of_ratio_1_is_sgd), cmocka_unit_test(scaled_rates),
        cmocka_unit_test(onecycle_at_its_ends),   cmocka_unit_test(rates_refuse),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
