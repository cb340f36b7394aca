/* Methods on plain arrays, one rank, no network: nothing is lost, limits, refusals, undo. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/mem.h"
#include "method/method.h"
#include "telegrad/random.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N = 4097, STEPS = 20 };

typedef struct fixture {
    tg__state *state;
    tg__method *m;
    float g[N], sent[N], sum[N];
} fixture;

static fixture f;

static tg_status make(const char *text, double momentum)
{
    static const char *const names[] = {"a", "b"};
    static const size_t len[] = {97, N - 97}, cols[] = {1, 1};
    tg__method_setup setup = {.size = 1,
                              .seed = 1,
                              .steps_per_epoch = 5,
                              .tensor = names,
                              .len = len,
                              .rows = len,
                              .cols = cols,
                              .count = 2,
                              .lanes = 1,
                              .may_bypass = true,
                              .momentum = momentum,
                              .nesterov = -1,
                              .state = f.state};
    return tg__method_create(text, &setup, &f.m);
}

static void start(const char *text)
{
    memset(&f, 0, sizeof f);
    assert_int_equal(tg__state_create(&f.state), TG_OK);
    if (make(text, (double)NAN) != TG_OK)
        fail_msg("%s: %s", text, tg_error());
}

static void stop(void)
{
    tg__method_destroy(f.m);
    tg__state_destroy(f.state);
}

static void dyadic_gradient(uint64_t t)
{
    tg_rng_key key = {.seed = 9, .purpose = TG_PURPOSE_TEST, .step = t};
    for (size_t i = 0; i < N; i++)
        f.g[i] = (float)(floor(tg_rng_normal(&key, i) * 16) / 16);
}

/* One step on a single rank: f.sent is what every rank would add. */
static void step(uint64_t t, bool coded, tg__task *task)
{
    tg__exchange *x;
    *task = (tg__task){.step = t, .g = f.g, .coded = coded};
    assert_int_equal(f.m->def->program->begin(f.m, task, &x), TG_OK);
    assert_int_equal(x->ops->start(x), TG_OK);
    tg__wish wish[8];
    assert_int_equal(x->ops->wants(x, wish, 8), 0);
    assert_true(x->ops->finished(x));
    assert_int_equal(f.m->def->program->next(f.m, task, &x), TG_OK);
    assert_null(x);
    memcpy(f.sent, f.m->def->program->aggregate(f.m, task), sizeof f.sent);
}

/* Sum of what was sent + residual = sum of gradients, bit for bit on dyadic data. */
static void test_sums(void **state)
{
    (void)state;
    static const char *const lossy[] = {"topk:density=0.01",
                                        "topk:density=0.3,values=f32,index=raw",
                                        "topk:density=0.02,warmup=2ep",
                                        "topk:density=0.01,index=bitmap,exchange=direct",
                                        "topk:density=0.05,scope=tensor,index=ef",
                                        "topk:density=0.05,select=trimmed",
                                        "randomk:density=0.02,warmup=2ep",
                                        "randomk:density=0.3,values=fp16,exchange=allgather",
                                        "2bit:threshold=0.75",
                                        "2bit:threshold=0.125",
                                        "2bit:threshold=auto",
                                        "2bit:threshold=auto,start=50",
                                        "strom:target=0.1",
                                        "adacomp:bin=5000", /* the mean of one bin is exact */
                                        "strom:threshold=0.75",
                                        "strom:threshold=0.125,index=rice,exchange=direct",
                                        "fp16:feedback=residual",
                                        "int8:feedback=residual",
                                        "int8:feedback=residual,exchange=direct",
                                        "qsgd:feedback=residual",
                                        "qsgd:bits=3,norm=l2,feedback=residual,exchange=direct",
                                        "qsgd:bits=8,coding=elias,norm=l2,feedback=residual",
                                        "bf16:feedback=residual"};
    for (size_t c = 0; c < TG_COUNT(lossy); c++) {
        start(lossy[c]);
        for (uint64_t t = 0; t < STEPS; t++) {
            tg__task task;
            dyadic_gradient(t);
            step(t, true, &task);
            for (size_t i = 0; i < N; i++)
                f.sum[i] += f.g[i] - f.sent[i];
        }
        assert_memory_equal(f.sum, tg__feedback_pending(f.m->feedback), sizeof f.sum);
        double norm = 0;
        for (size_t i = 0; i < N; i++)
            norm += (double)f.sum[i] * f.sum[i];
        assert_true(fabs(tg__method_residual_norm(f.m) - sqrt(norm)) <= 1e-9 * sqrt(norm));
        stop();
    }
}

/* Values with few bits: the rounding error is sent later; sums agree up to f32 rounding. */
static void test_rounded_sums(void **state)
{
    (void)state;
    static const char *const values[] = {"int8", "4bit", "2bit", "1bit"};
    for (size_t c = 0; c < TG_COUNT(values); c++) {
        char text[64];
        snprintf(text, sizeof text, "topk:density=0.1,values=%s,scope=%s", values[c],
                 c % 2 ? "tensor" : "bucket");
        start(text);
        for (uint64_t t = 0; t < STEPS; t++) {
            tg__task task;
            dyadic_gradient(t);
            step(t, true, &task);
            for (size_t i = 0; i < N; i++)
                f.sum[i] += f.g[i] - f.sent[i];
        }
        const float *r = tg__feedback_pending(f.m->feedback);
        for (size_t i = 0; i < N; i++)
            assert_true(fabsf(f.sum[i] - r[i]) <= 2e-5f);
        stop();
    }
}

/* A dense step neither adds to the residual nor clears it, and sends the gradient itself. */
static void test_bypass(void **state)
{
    (void)state;
    static float before[N];
    start("2bit:threshold=0.75");
    tg__task task;
    dyadic_gradient(0);
    step(0, true, &task);
    memcpy(before, tg__feedback_pending(f.m->feedback), sizeof before);
    dyadic_gradient(1);
    step(1, false, &task);
    assert_memory_equal(f.sent, f.g, sizeof f.g);
    assert_memory_equal(before, tg__feedback_pending(f.m->feedback), sizeof before);
    stop();
}

/* Undo restores all of p: nothing that was encoded is lost. */
static void test_undo(void **state)
{
    (void)state;
    static float p[N];
    start("topk:density=0.05");
    tg__task task;
    dyadic_gradient(0);
    step(0, true, &task);
    memcpy(p, tg__feedback_pending(f.m->feedback), sizeof p);
    dyadic_gradient(1);
    for (size_t i = 0; i < N; i++)
        p[i] += f.g[i];
    step(1, true, &task);
    assert_memory_not_equal(p, tg__feedback_pending(f.m->feedback), sizeof p);
    assert_int_equal(f.m->def->program->undo(f.m, &task), TG_OK);
    assert_memory_equal(p, tg__feedback_pending(f.m->feedback), sizeof p);
    stop();
}

/* A rank whose gradient is not finite sends zeros and keeps its state. */
static void test_nonfinite(void **state)
{
    (void)state;
    static float before[N];
    start("dgc:density=0.05,warmup=0");
    tg__task task;
    tg__exchange *x;
    dyadic_gradient(0);
    step(0, true, &task);
    memcpy(before, tg__feedback_pending(f.m->feedback), sizeof before);
    f.g[5] = NAN;
    task = (tg__task){.step = 1, .g = f.g, .coded = true, .nonfinite = true};
    assert_int_equal(f.m->def->program->begin(f.m, &task, &x), TG_OK);
    assert_int_equal(x->ops->start(x), TG_OK);
    assert_int_equal(f.m->def->program->next(f.m, &task, &x), TG_OK);
    const float *sent = f.m->def->program->aggregate(f.m, &task);
    for (size_t i = 0; i < N; i++)
        assert_true(sent[i] == 0);
    assert_int_equal(f.m->def->program->undo(f.m, &task), TG_OK);
    assert_memory_equal(before, tg__feedback_pending(f.m->feedback), sizeof before);
    stop();
}

/* 0.1 % of 4097 elements is 4 of them, as methods count; the warm-up starts at
 * density^(1/(W+1)). */
static void test_density(void **state)
{
    (void)state;
    start("topk:density=0.001,warmup=2ep");
    static const size_t k[] = {410, 41, 4}; /* 0.1, 0.01, 0.001 */
    for (uint64_t epoch = 0; epoch < 3; epoch++) {
        tg__task task;
        dyadic_gradient(epoch);
        step(epoch * 5, true, &task);
        size_t sent = 0;
        for (size_t i = 0; i < N; i++)
            sent += f.sent[i] != 0;
        assert_int_equal(sent, k[epoch]);
    }
    stop();
}

static void test_refusals(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        double momentum;
        const char *say;
    } cases[] = {
        {"topk:density=0", NAN, "density=0"},
        {"topk:density=nan", NAN, "density"},
        {"dgc:momentum=1", NAN, "momentum=1"},
        {"dgc:momentum=0.5", 0.9, "momentum=0.9"},
        {"2bit:threshold=-1", NAN, "threshold=-1"},
        {"topk:values=int3", NAN, "fp16"},
        {"what", NAN, "dense"},
        {"qsgd:bits=9", NAN, "bits=9"},
        {"qsgd:bucket=768", NAN, "bucket=768"},
        {"qsgd:bits=3,levels=4", NAN, "levels=4"},
        {"terngrad:clip=-1", NAN, "clip=-1"},
        {"dense:density=1", NAN, "exchange"},
        {"topk:warmup=1.5", NAN, "warmup"},
        {"fp16:rescale=yes", NAN, "feedback=none"},
        {"topk:feedback=none,rescale=yes", NAN, "feedback=none"},
    };
    memset(&f, 0, sizeof f);
    assert_int_equal(tg__state_create(&f.state), TG_OK);
    for (size_t c = 0; c < TG_COUNT(cases); c++) {
        assert_int_equal(make(cases[c].text, cases[c].momentum), TG_E_SPEC);
        if (strstr(tg_error(), cases[c].say) == NULL)
            fail_msg("%s says \"%s\" without \"%s\"", cases[c].text, tg_error(), cases[c].say);
    }
    tg__state_destroy(f.state);
}

/* Each tensor sends its own share: 1 of 97 and 40 of 4000, whatever its magnitudes. */
static void test_scope(void **state)
{
    (void)state;
    start("dgc:density=0.01,warmup=0,scope=tensor,values=f32");
    for (uint64_t t = 0; t < 5; t++) {
        tg__task task;
        dyadic_gradient(t);
        for (size_t i = 0; i < 97; i++)
            f.g[i] = 0x1p-20f * (float)(i + 1);
        step(t, true, &task);
        size_t sent[2] = {0};
        for (size_t i = 0; i < N; i++)
            sent[i >= 97] += f.sent[i] != 0;
        assert_int_equal(sent[0], 1);
        assert_int_equal(sent[1], 40);
        assert_int_equal(task.kept, 41);
    }
    stop();
}

/* Every method's defaults are a valid spec, and every key that it shares with its codec has the
 * same range. */
static void test_registry(void **state)
{
    (void)state;
    size_t count;
    const tg_entry *const *all = tg__method_entries(&count);
    assert_true(count >= 6);
    for (size_t i = 0; i < count; i++) {
        start(all[i]->name);
        assert_ptr_equal(&f.m->def->entry, all[i]);
        stop();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sums),      cmocka_unit_test(test_rounded_sums),
        cmocka_unit_test(test_bypass),    cmocka_unit_test(test_undo),
        cmocka_unit_test(test_nonfinite), cmocka_unit_test(test_density),
        cmocka_unit_test(test_scope),     cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_registry),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
