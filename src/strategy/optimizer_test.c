/* SGD by hand, spec strings, the preview, learning rates. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "base/mem.h"
#include "strategy/optimizers.h"
#include "strategy/strategy.h"
#include <math.h>
#include <string.h>

static tg_optimizer *create(const char *spec)
{
    tg_optimizer *o = NULL;
    if (tg_optimizer_create(spec, &o) != TG_OK)
        fail_msg("%s", tg_error());
    return o;
}

/* Two steps from w = 1, u = 0 with g = 1, then 2, in numbers that are exact. */
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
    };
    for (size_t i = 0; i < TG__COUNT(cases); i++) {
        tg_optimizer *o = create(cases[i].spec);
        float w = 1, u = 0, g = 1, dst = 0;
        float *slot[] = {&u};
        o->ops->preview(o, 0.5, &dst, &w, &g, 1, slot);
        tg_optimizer_step(o, 0.5, &w, &g, 1, slot);
        assert_true(w == cases[i].w1 && dst == w);
        g = 2;
        o->ops->preview(o, 0.5, &dst, &w, &g, 1, slot);
        tg_optimizer_step(o, 0.5, &w, &g, 1, slot);
        assert_true(w == cases[i].w2 && dst == w);
        tg_optimizer_destroy(o);
    }
}

static void slots_and_specs(void **state)
{
    (void)state;
    tg_optimizer *o = create("sgd"), *plain;
    assert_string_equal(tg_spec_text(tg_optimizer_spec(o)),
                        "sgd:lr=0.01,momentum=0,weight_decay=0,nesterov=no");
    assert_int_equal(tg_optimizer_slots(o), 0);
    assert_null(tg_optimizer_slot_name(o, 0));
    tg_optimizer_destroy(o);
    o = create("sgd:lr=0.3,momentum=0.9,weight_decay=0.0001,nesterov=yes");
    assert_int_equal(tg_optimizer_slots(o), 1);
    assert_string_equal(tg_optimizer_slot_name(o, 0), "momentum");
    assert_null(tg_optimizer_slot_name(o, 1));
    assert_int_equal(tg__optimizer_without_momentum(o, &plain), TG_OK);
    assert_string_equal(tg_spec_text(tg_optimizer_spec(plain)),
                        "sgd:lr=0.3,momentum=0,weight_decay=0.0001,nesterov=no");
    tg_optimizer_destroy(plain);
    tg_optimizer_destroy(o);
    tg_optimizer_destroy(NULL);
    o = NULL;
    assert_int_equal(tg_optimizer_create("sgd:nesterov=yes", &o), TG_E_SPEC);
    assert_non_null(strstr(tg_error(), "nesterov=yes with momentum=0"));
    assert_int_equal(tg_optimizer_create("adam", &o), TG_E_SPEC);
    assert_string_equal(tg_error(), "unknown optimizer \"adam\": allowed: sgd");
    assert_int_equal(tg_optimizer_create("sgd:lr=-1", &o), TG_E_SPEC);
    assert_int_equal(tg_optimizer_create(NULL, &o), TG_E_ARG);
    assert_null(o);
    size_t count;
    assert_string_equal(tg__optimizer_entries(&count)[0]->name, "sgd");
    assert_int_equal(count, 1);
}

/* The rates of steps 0, 1, ... */
static void assert_rates(const char *spec, uint64_t total, uint64_t per_epoch, const double *want,
                         size_t n)
{
    tg_lr_schedule *s;
    if (tg_lr_schedule_create(spec, 0.8, total, per_epoch, &s) != TG_OK)
        fail_msg("%s", tg_error());
    for (uint64_t t = 0; t < n; t++)
        if (!(fabs(tg_lr_at(s, t) - want[t]) <= 1e-15))
            fail_msg("%s at %d: %.17g is not %.17g", spec, (int)t, tg_lr_at(s, t), want[t]);
    tg_lr_schedule_destroy(s);
}

#define RATES(spec, total, per_epoch, ...)                              \
    assert_rates(spec, total, per_epoch, (const double[]){__VA_ARGS__}, \
                 TG__COUNT(((const double[]){__VA_ARGS__})))

static void rates(void **state)
{
    (void)state;
    RATES("constant", 0, 0, 0.8, 0.8, 0.8);
    RATES("constant:warmup=4", 0, 0, 0.2, 0.4, 0.6, 0.8, 0.8);
    RATES("constant:warmup=1", 0, 0, 0.8, 0.8);
    RATES("constant:warmup=0.5ep", 0, 4, 0.4, 0.8, 0.8);
    RATES("step:every=2,factor=0.5", 0, 0, 0.8, 0.8, 0.4, 0.4, 0.2, 0.2, 0.1);
    RATES("step:every=1ep,factor=0.5,warmup=2", 0, 3, 0.4, 0.8, 0.8, 0.4, 0.4, 0.4, 0.2);
    const double half = 0.4 * (1 + sqrt(0.5)), quarter = 0.4 * (1 - sqrt(0.5));
    RATES("cosine", 4, 0, 0.8, half, 0.4, quarter, 0, 0);
    RATES("cosine:warmup=2", 6, 0, 0.4, 0.8, 0.8, half, 0.4, quarter, 0, 0);
    RATES("cosine:final=0.5", 2, 0, 0.8, 0.6, 0.4, 0.4);
    RATES("cosine:warmup=4", 4, 0, 0.2, 0.4, 0.6, 0.8); /* no step is left */
    RATES("cosine:warmup=4", 2, 0, 0.2, 0.4);
}

static void cosine_is_a_cosine(void **state)
{
    (void)state;
    tg_lr_schedule *s;
    assert_int_equal(tg_lr_schedule_create("cosine", 2, 1000, 0, &s), TG_OK);
    for (uint64_t t = 0; t <= 1000; t++)
        assert_true(fabs(tg_lr_at(s, t) - (1 + cos(acos(-1) * (double)t / 1000))) < 1e-15);
    tg_lr_schedule_destroy(s);
}

static void rates_refuse(void **state)
{
    (void)state;
    tg_lr_schedule *s = NULL;
    assert_int_equal(tg_lr_schedule_create("linear", 1, 1, 0, &s), TG_E_SPEC);
    assert_string_equal(tg_error(),
                        "unknown lr schedule \"linear\": allowed: constant, step, cosine");
    assert_int_equal(tg_lr_schedule_create("step", 1, 1, 0, &s), TG_E_SPEC); /* 30ep */
    assert_non_null(strstr(tg_error(), "every=30ep"));
    assert_int_equal(tg_lr_schedule_create("step:every=0", 1, 1, 0, &s), TG_E_SPEC);
    assert_non_null(strstr(tg_error(), "every >= 1 step"));
    assert_int_equal(tg_lr_schedule_create("step:every=1,factor=0", 1, 1, 0, &s), TG_E_SPEC);
    assert_int_equal(tg_lr_schedule_create("cosine", 1, 0, 0, &s), TG_E_SPEC);
    assert_int_equal(tg_lr_schedule_create("constant", -1, 0, 0, &s), TG_E_ARG);
    assert_int_equal(tg_lr_schedule_create("constant", NAN, 0, 0, &s), TG_E_ARG);
    assert_null(s);
    assert_int_equal(tg_lr_schedule_create("step:every=2ep", 1, 1, 5, &s), TG_OK);
    assert_string_equal(tg_lr_schedule_text(s), "step:every=2ep,factor=0.1,warmup=0");
    tg_lr_schedule_destroy(s);
    tg_lr_schedule_destroy(NULL);
    size_t count;
    assert_string_equal(tg__lr_schedule_entries(&count)[0]->name, "constant");
    assert_int_equal(count, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_by_hand), cmocka_unit_test(slots_and_specs),
        cmocka_unit_test(rates),         cmocka_unit_test(cosine_is_a_cosine),
        cmocka_unit_test(rates_refuse),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
