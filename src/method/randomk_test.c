/* Random-k: the draw is uniform and the same on all ranks; limits, the mean, undo, the same bits on
 * all ranks. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/mem.h"
#include "method/method.h"
#include "method/support.h"
#include "telegrad/random.h"

#include <math.h>
#include <string.h>

enum { N = 160, DRAWS = 20000 };

static uint32_t idx[1 << 16];
static uint64_t bits[1 << 14];

static void draws_are_choices(void **state)
{
    (void)state;
    static const size_t ns[] = {1, 2, 63, 64, 65, 1000, 65536};
    for (size_t i = 0; i < TG_COUNT(ns); i++)
        for (size_t part = 0; part <= 8; part++) {
            size_t n = ns[i], k = n * part / 8;
            tg_rng_key key = {.seed = 1, .purpose = TG_PURPOSE_TEST, .step = part};
            memset(idx, 0xff, sizeof idx);
            tg__support_draw(&key, n, k, bits, idx);
            for (size_t j = 0; j < k; j++)
                assert_true(idx[j] < n && (j == 0 || idx[j] > idx[j - 1]));
            assert_true(k == n || idx[k] == UINT32_MAX);
        }
}

/* Every element is drawn k/n of the time, every pair k(k-1)/(n(n-1)): z of each, chi-square of each
 * of the 16 lanes. */
static void draws_are_uniform(void **state)
{
    (void)state;
    static const size_t ks[] = {1, 16, 79, 81, 150};
    static uint32_t hits[N], pairs[N];
    for (size_t c = 0; c < TG_COUNT(ks); c++) {
        const double k = (double)ks[c], p = k / N, q = p * (k - 1) / (N - 1);
        memset(hits, 0, sizeof hits);
        memset(pairs, 0, sizeof pairs);
        for (uint64_t t = 0; t < DRAWS; t++) {
            tg_rng_key key = {.seed = 2, .purpose = TG_PURPOSE_TEST, .step = t};
            tg__support_draw(&key, N, ks[c], bits, idx);
            for (size_t j = 0; j < ks[c]; j++) {
                hits[idx[j]]++;
                pairs[idx[j]] += j > 0 && idx[j - 1] + 1 == idx[j];
            }
        }
        for (size_t lane = 0; lane < 16; lane++) {
            double chi = 0;
            for (size_t i = lane; i < N; i += 16) {
                double z = (hits[i] - DRAWS * p) / sqrt(DRAWS * p * (1 - p));
                chi += z * z;
                if (fabs(z) > 4.5)
                    fail_msg("k=%zu: element %zu is off by %g deviations", ks[c], i, z);
                z = (pairs[i] - DRAWS * q) / sqrt(DRAWS * q * (1 - q) + 1e-9);
                if (i > 0 && fabs(z) > 4.5)
                    fail_msg("k=%zu: pair %zu is off by %g deviations", ks[c], i, z);
            }
            assert_true(chi < 35); /* 10 degrees of freedom: p = 0.0001 */
        }
    }
}

typedef struct one { /* a single rank */
    tg__state *state;
    tg__method *m;
    float g[N];
} one;

static void start(one *o, const char *text)
{
    static const char *const names[] = {"a"};
    static const size_t len[] = {N}, cols[] = {1};
    memset(o, 0, sizeof *o);
    tg__method_setup setup = {.size = 1,
                              .seed = 3,
                              .steps_per_epoch = 5,
                              .tensor = names,
                              .len = len,
                              .rows = len,
                              .cols = cols,
                              .count = 1,
                              .lanes = 1,
                              .may_bypass = true,
                              .momentum = (double)NAN,
                              .nesterov = -1};
    assert_int_equal(tg__state_create(&o->state), TG_OK);
    setup.state = o->state;
    if (tg__method_create(text, &setup, &o->m) != TG_OK)
        fail_msg("%s", tg_error());
    for (size_t i = 0; i < N; i++)
        o->g[i] = (float)i - 40.5f;
}

static void stop(one *o)
{
    tg__method_destroy(o->m);
    tg__state_destroy(o->state);
}

static const float *step(one *o, uint64_t t, bool coded, tg__task *task)
{
    const tg__program_ops *program = o->m->def->program;
    tg__exchange *x;
    *task = (tg__task){.step = t, .g = o->g, .coded = coded};
    assert_int_equal(program->begin(o->m, task, &x), TG_OK);
    assert_int_equal(x->ops->start(x), TG_OK);
    assert_true(x->ops->finished(x));
    assert_int_equal(program->next(o->m, task, &x), TG_OK);
    return program->aggregate(o->m, task);
}

/* Without feedback the mean over steps is the gradient: g n/k is sent k/n of the time. */
static void mean_is_the_gradient(void **state)
{
    (void)state;
    static double sum[N];
    one o;
    tg__task task;
    start(&o, "randomk:density=0.1,feedback=none");
    for (uint64_t t = 0; t < DRAWS; t++) {
        const float *sent = step(&o, t, true, &task);
        assert_int_equal(task.kept, 16);
        for (size_t i = 0; i < N; i++) {
            assert_true(sent[i] == 0 || sent[i] == o.g[i] * 10);
            sum[i] += (double)sent[i];
        }
    }
    for (size_t i = 0; i < N; i++) {
        double z = (sum[i] / DRAWS / (double)o.g[i] - 1) / sqrt(9.0 / DRAWS);
        if (fabs(z) > 4.5)
            fail_msg("element %zu is off by %g deviations", i, z);
    }
    stop(&o);
}

/* Density 1 is the gradient itself; a dense step in between does not change the residual and leaves
 * nothing in the aggregate; the density may change. */
static void aggregates(void **state)
{
    (void)state;
    one o;
    tg__task task;
    start(&o, "randomk:density=1");
    assert_memory_equal(step(&o, 0, true, &task), o.g, sizeof o.g);
    assert_memory_equal(step(&o, 1, true, &task), o.g, sizeof o.g);
    stop(&o);
    start(&o, "randomk:density=0.05,warmup=8");
    static const size_t k[] = {88, 88, 48, 48, 27, 27, 15, 15, 8, 8}; /* 160 * 0.05^(e/5) */
    size_t dense = 0;
    for (uint64_t t = 0; t < 20; t++) {
        size_t kept = 0;
        const bool coded = t % 3 != 2;
        const float *sent = step(&o, t, coded, &task);
        for (size_t i = 0; i < N; i++)
            kept += sent[i] != 0;
        if (!coded) {
            assert_memory_equal(sent, o.g, sizeof o.g);
            dense++;
        } else {
            assert_int_equal(kept, k[TG__MIN(t, 9u)]);
            assert_int_equal(task.kept, kept);
        }
    }
    assert_int_equal(dense, 6);
    stop(&o);
}

static void undone(void **state)
{
    (void)state;
    static const char *const specs[] = {"randomk:density=0.1",
                                        "randomk:density=0.1,values=fp16,exchange=allgather"};
    for (size_t s = 0; s < TG_COUNT(specs); s++) {
        one o;
        tg__task task;
        float p[N];
        start(&o, specs[s]);
        step(&o, 0, true, &task);
        memcpy(p, tg__feedback_pending(o.m->feedback), sizeof p);
        for (size_t i = 0; i < N; i++)
            p[i] += o.g[i];
        step(&o, 1, true, &task);
        assert_memory_not_equal(p, tg__feedback_pending(o.m->feedback), sizeof p);
        assert_int_equal(o.m->def->program->undo(o.m, &task), TG_OK);
        assert_memory_equal(p, tg__feedback_pending(o.m->feedback), sizeof p);
        stop(&o);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(draws_are_choices),
        cmocka_unit_test(draws_are_uniform),
        cmocka_unit_test(mean_is_the_gradient),
        cmocka_unit_test(aggregates),
        cmocka_unit_test(undone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
