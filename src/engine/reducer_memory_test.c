/* A reducer's memory: saving and restoring it, taking back a mean, another unit of gradients. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "telegrad/random.h"
#include "telegrad/reducer.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N = 3000, P = 4, STEPS = 4 };

static const tg_segment segments[] = {
    {.begin = 0, .n = 2400, .rows = 40, .cols = 60, .dims = 2},
    {.begin = 2400, .n = 600, .rows = 600, .cols = 1, .dims = 1},
};

typedef struct rank {
    tg_transport *t;
    const char *method;
    tg_status status;
    char error[512];
    float mean[2][N]; /* of a run without, and one with an interruption */
    size_t wrong;     /* elements that memory must hold, and does not */
} rank;

static rank ranks[P];

static void draw(const rank *r, int step, float *g)
{
    const tg_rng_key key = {.seed = 5,
                            .purpose = TG_PURPOSE_TEST,
                            .rank = (uint32_t)r->t->rank,
                            .step = (uint64_t)step};
    for (size_t i = 0; i < N; i++)
        g[i] = (float)tg_rng_normal(&key, i);
}

static tg_status make(const rank *r, tg_reducer **reducer_p)
{
    const tg_reducer_config config = {.struct_size = sizeof config,
                                      .seed = 3,
                                      .timeout_ms = 5000,
                                      .segments = segments,
                                      .nsegments = 2};
    return tg_reducer_create(r->method, r->t, N, &config, reducer_p);
}

static tg_status steps(const rank *r, tg_reducer *reducer, int from, int to, float *mean)
{
    float g[N];
    for (int step = from; step < to; step++) {
        draw(r, step, g);
        TG_TRY(tg_reducer_mean(reducer, g, mean));
    }
    return TG_OK;
}

/* Copy the memory of one reducer to another, slot by slot. */
static tg_status move(tg_reducer *from, tg_reducer *to)
{
    if (tg_reducer_slot_count(from) != tg_reducer_slot_count(to))
        return tg_fail(TG_E_STATE, "other slots");
    for (size_t i = 0; i < tg_reducer_slot_count(from); i++) {
        tg_reducer_slot a = {.struct_size = sizeof a}, b = a;
        TG_TRY(tg_reducer_slot_get(from, i, &a));
        TG_TRY(tg_reducer_slot_get(to, i, &b));
        if (strcmp(a.name, b.name) != 0 || strcmp(a.role, b.role) != 0 || a.bytes != b.bytes ||
            a.segment != b.segment || a.segment > 1)
            return tg_fail(TG_E_STATE, "slot %zu differs: %s, %s", i, a.name, b.name);
        memcpy(b.data, a.data, a.bytes);
    }
    return tg_reducer_set_step(to, tg_reducer_step(from));
}

static tg_status interrupt(rank *r)
{
    tg_reducer *whole, *first, *second;
    TG_TRY(make(r, &whole));
    TG_TRY(steps(r, whole, 0, 2 * STEPS, r->mean[0]));
    tg_reducer_destroy(whole);
    TG_TRY(make(r, &first));
    TG_TRY(steps(r, first, 0, STEPS, r->mean[1]));
    TG_TRY(make(r, &second));
    TG_TRY(move(first, second));
    tg_reducer_destroy(first);
    TG_TRY(steps(r, second, STEPS, 2 * STEPS, r->mean[1]));
    tg_reducer_destroy(second);
    return TG_OK;
}

/* The slots of this name, side by side in x (N); the others are skipped. */
static tg_status collect(tg_reducer *reducer, const char *name, float *x)
{
    for (size_t i = 0; i < tg_reducer_slot_count(reducer); i++) {
        tg_reducer_slot slot = {.struct_size = sizeof slot};
        TG_TRY(tg_reducer_slot_get(reducer, i, &slot));
        if (strcmp(slot.name, name) == 0)
            memcpy(x + segments[slot.segment].begin, slot.data, slot.bytes);
    }
    return TG_OK;
}

static tg_status take_back(rank *r)
{
    tg_reducer *reducer;
    float g[N], before[N], after[N];
    TG_TRY(make(r, &reducer));
    TG_TRY(steps(r, reducer, 0, STEPS, r->mean[0]));
    TG_TRY(collect(reducer, "residual", before));
    draw(r, STEPS, g);
    TG_TRY(tg_reducer_mean(reducer, g, r->mean[0]));
    TG_TRY(tg_reducer_undo(reducer));
    TG_TRY(collect(reducer, "residual", after));
    for (size_t i = 0; i < N; i++) /* all of g is pending again */
        r->wrong += after[i] != before[i] + g[i];
    if (tg_reducer_undo(reducer) != TG_E_STATE)
        return tg_fail(TG_E_STATE, "a mean was taken back twice");
    TG_TRY(tg_reducer_scale(reducer, 0.5));
    TG_TRY(collect(reducer, "residual", before));
    for (size_t i = 0; i < N; i++)
        r->wrong += before[i] != 0.5f * after[i];
    if (tg_reducer_scale(reducer, 0) != TG_E_ARG ||
        tg_reducer_scale(reducer, (double)NAN) != TG_E_ARG)
        return tg_fail(TG_E_STATE, "a factor of 0 or NaN was accepted");
    TG_TRY(tg_reducer_start(reducer, g, r->mean[0], NULL, NULL));
    tg_reducer_slot slot = {.struct_size = sizeof slot};
    if (tg_reducer_undo(reducer) != TG_E_STATE || tg_reducer_scale(reducer, 1) != TG_E_STATE ||
        tg_reducer_slot_get(reducer, 0, &slot) != TG_E_STATE ||
        tg_reducer_set_step(reducer, 0) != TG_E_STATE)
        return tg_fail(TG_E_STATE, "the memory was given out while an operation is under way");
    TG_TRY(tg_reducer_wait(reducer));
    if (tg_reducer_slot_get(reducer, tg_reducer_slot_count(reducer), &slot) != TG_E_ARG)
        return tg_fail(TG_E_STATE, "a slot behind the last was given out");
    tg_reducer_destroy(reducer);
    return TG_OK;
}

static tg_status (*body)(rank *r);

static void *run_rank(void *arg)
{
    rank *r = arg;
    r->status = body(r);
    snprintf(r->error, sizeof r->error, "%s", tg_error());
    tg_transport_destroy(r->t);
    return NULL;
}

static void run(const char *method, tg_status (*what)(rank *r))
{
    tg_transport *t[P];
    pthread_t thread[P];
    body = what;
    assert_int_equal(tg_transport_inproc(P, t), TG_OK);
    for (int i = 0; i < P; i++) {
        ranks[i] = (rank){.t = t[i], .method = method};
        assert_int_equal(pthread_create(&thread[i], NULL, run_rank, &ranks[i]), 0);
    }
    for (int i = 0; i < P; i++)
        pthread_join(thread[i], NULL);
    for (int i = 0; i < P; i++)
        if (ranks[i].status != TG_OK)
            fail_msg("%s: rank %d: %s", method, i, ranks[i].error);
}

/* Every kind of memory: none, a residual, velocities, low rank, an owner's, a codec's, a
 * warm-up. */
static void test_resumed(void **state)
{
    (void)state;
    static const char *const methods[] = {"dense",
                                          "topk:density=0.01",
                                          "dgc:density=0.01,warmup=6",
                                          "powersgd:rank=2",
                                          "1bit:twoway=yes",
                                          "strom:target=0.01",
                                          "qsgd:bits=4",
                                          "topk:density=0.05,exchange=reducescatter",
                                          "signum"};
    for (size_t m = 0; m < sizeof methods / sizeof *methods; m++) {
        run(methods[m], interrupt);
        for (int i = 0; i < P; i++)
            assert_memory_equal(ranks[i].mean[0], ranks[i].mean[1], sizeof ranks[i].mean[0]);
    }
}

static void test_taken_back(void **state)
{
    (void)state;
    run("topk:density=0.01", take_back);
    for (int i = 0; i < P; i++)
        assert_int_equal(ranks[i].wrong, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_resumed),
        cmocka_unit_test(test_taken_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
