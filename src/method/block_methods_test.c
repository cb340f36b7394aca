/* blocktopk and dct as methods on one rank: the decaying residual, the learning rate in it,
 * undo. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/mem.h"
#include "method/method.h"
#include "telegrad/random.h"
#include <math.h>
#include <string.h>

enum { ROWS = 96, COLS = 80, TAIL = 130, N = ROWS * COLS + TAIL, STEPS = 12 };

static tg__state *slots;
static tg__method *m;
static float g[N], sent[N], r[N];

static void start(const char *text)
{
    static const char *const names[] = {"a", "b"};
    static const size_t len[] = {ROWS * COLS, TAIL}, rows[] = {ROWS, TAIL}, cols[] = {COLS, 1};
    assert_int_equal(tg__state_create(&slots), TG_OK);
    const tg__method_setup setup = {.size = 1,
                                    .seed = 1,
                                    .tensor = names,
                                    .len = len,
                                    .rows = rows,
                                    .cols = cols,
                                    .count = 2,
                                    .lanes = 1,
                                    .momentum = (double)NAN,
                                    .nesterov = -1,
                                    .state = slots};
    if (tg__method_create(text, &setup, &m) != TG_OK)
        fail_msg("%s: %s", text, tg_error());
    memset(r, 0, sizeof r);
}

static void stop(void)
{
    tg__method_destroy(m);
    tg__state_destroy(slots);
}

static void gradient(uint64_t t)
{
    const tg_rng_key key = {.seed = 9, .purpose = TG_PURPOSE_TEST, .step = t};
    for (size_t i = 0; i < N; i++)
        g[i] = (float)(floor(tg_rng_normal(&key, i) * 16) / 16);
}

/* One step on a single rank: `sent` is the aggregate. */
static void step(uint64_t t, double eta, tg__task *task)
{
    tg__exchange *x;
    tg__wish wish[8];
    *task = (tg__task){.step = t, .g = g, .coded = true, .eta = eta};
    assert_int_equal(m->def->program->begin(m, task, &x), TG_OK);
    assert_int_equal(x->ops->start(x), TG_OK);
    assert_int_equal(x->ops->wants(x, wish, 8), 0);
    assert_true(x->ops->finished(x));
    assert_int_equal(m->def->program->next(m, task, &x), TG_OK);
    assert_null(x);
    memcpy(sent, m->def->program->aggregate(m, task), sizeof sent);
}

/* r becomes decay * r + g minus the decoded values, each operation rounded to f32. */
static void the_residual_decays(void **state)
{
    (void)state;
    static const struct {
        const char *spec;
        float decay;
    } cases[] = {{"blocktopk:keep=20", 0.95f},
                 {"blocktopk:keep=20,values=f32,decay=0.5", 0.5f},
                 {"blocktopk:keep=20,values=f32,decay=1,clip=no", 1},
                 {"dct", 0.999f},
                 {"dct:keep=5,values=fp16,decay=1", 1}};
    for (size_t c = 0; c < TG_COUNT(cases); c++) {
        start(cases[c].spec);
        for (uint64_t t = 0; t < STEPS; t++) {
            tg__task task;
            gradient(t);
            step(t, 0, &task);
            assert_true(task.kept > 0 && task.kept < N / 4 && !task.fell_back);
            for (size_t i = 0; i < N; i++) {
                const float kept = cases[c].decay * r[i], p = kept + g[i];
                r[i] = p - sent[i];
            }
            assert_memory_equal(tg__feedback_pending(m->feedback), r, sizeof r);
        }
        stop();
    }
}

/* With exact values, all that was sent plus the residual equals the gradients, bit for bit. */
static void nothing_is_lost(void **state)
{
    (void)state;
    static float sum[N];
    start("blocktopk:keep=11,values=f32,decay=1");
    memset(sum, 0, sizeof sum);
    for (uint64_t t = 0; t < STEPS; t++) {
        tg__task task;
        gradient(t);
        step(t, 0, &task);
        for (size_t i = 0; i < N; i++)
            sum[i] += g[i] - sent[i];
    }
    assert_memory_equal(tg__feedback_pending(m->feedback), sum, sizeof sum);
    stop();
}

/* DeMo's delta = decay * delta + eta * g, minus what is sent of it, equals eta times the residual:
 * bit for bit if the rates are powers of two. */
static void the_rate_is_in_the_residual(void **state)
{
    (void)state;
    static float delta[N];
    memset(delta, 0, sizeof delta);
    start("dct:keep=6,decay=0.75");
    for (uint64_t t = 0; t < STEPS; t++) {
        const float eta = t < 4 ? 0.5f : t < 8 ? 0.125f : 0.25f;
        tg__task task;
        gradient(t);
        step(t, (double)eta, &task);
        for (size_t i = 0; i < N; i++) {
            const float kept = 0.75f * delta[i], update = eta * g[i], p = kept + update;
            delta[i] = p - eta * sent[i];
            assert_true(delta[i] == eta * tg__feedback_pending(m->feedback)[i]);
        }
    }
    stop();
}

/* A dropped step returns its payload. */
static void undone_it_waits(void **state)
{
    (void)state;
    static const char *const specs[] = {"blocktopk:keep=20,values=f32", "dct:keep=20"};
    for (size_t s = 0; s < TG_COUNT(specs); s++) {
        start(specs[s]);
        tg__task task;
        gradient(1);
        step(0, 0, &task);
        assert_int_equal(m->def->program->undo(m, &task), TG_OK);
        for (size_t i = 0; i < N; i++) {
            const double off = (double)tg__feedback_pending(m->feedback)[i] - (double)g[i];
            assert_true(fabs(off) <= (s == 0 ? 0 : 1e-6));
        }
        stop();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_residual_decays),
        cmocka_unit_test(nothing_is_lost),
        cmocka_unit_test(the_rate_is_in_the_residual),
        cmocka_unit_test(undone_it_waits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
