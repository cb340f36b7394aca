/* Any number of codec threads gives the same bits: for every method of the registry, in a session
 * and in a reducer, on vectors of several chunks. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "telegrad/telegrad.h"
#include "tsan_skips.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { P = 2, STEPS = 3, TENSORS = 3, THREADS_MAX = 3 };

static const size_t shape[TENSORS][2] = {{64, 2500}, {70001, 1}, {12, 13}};

enum { N = 64 * 2500 + 70001 + 12 * 13 };

typedef struct rank {
    const char *method;
    tg_transport *transport;
    unsigned threads; /* of rank 0; rank 1 uses one more */
    tg_driver driver;
    tg_status status;
    char error[512];
    uint64_t hash;
} rank;

static float drawn[P][STEPS][N]; /* drawn once, because drawing takes most of the time */

static void draw(uint32_t of, uint64_t step, float *g)
{
    const tg_rng_key key = {.seed = 4, .purpose = TG_PURPOSE_TEST, .rank = of, .step = step};
    for (size_t i = 0; i < N; i += 4) {
        uint32_t r[4];
        tg_rng_block(&key, i, r);
        for (size_t j = 0; j < 4 && i + j < N; j++)
            g[i + j] = ((float)(r[j] >> 8) * 0x1p-23f - 1) * (float)(1 + i % 5);
    }
}

static int draw_all(void **state)
{
    (void)state;
    for (uint32_t r = 0; r < P; r++)
        for (uint64_t step = 0; step < STEPS; step++)
            draw(r, step, drawn[r][step]);
    return 0;
}

static unsigned cores(const rank *r)
{
    return r->threads == 0 ? 0 : r->threads + (unsigned)r->transport->rank;
}

/* ---- a session ------------------------------------------------------------------------------- */

static tg_status train(const rank *r, tg_session *s, float *w, float *g, uint64_t *hash_p)
{
    static const char *const names[TENSORS] = {"conv", "bias", "fc"};
    uint32_t id[TENSORS];
    for (size_t i = 0, at = 0; i < TENSORS; at += shape[i][0] * shape[i][1], i++) {
        size_t n = shape[i][0] * shape[i][1];
        tg_tensor t = {.struct_size = sizeof t,
                       .name = names[i],
                       .shape = shape[i],
                       .ndim = shape[i][1] == 1 ? 1 : 2,
                       .param = tg_array_f32(w + at, n),
                       .grad = tg_array_f32(g + at, n)};
        TG_TRY(tg_session_add(s, &t, &id[i]));
    }
    TG_TRY(tg_session_begin(s));
    for (uint64_t step = 0; step < STEPS; step++) {
        tg_step_info info = {.struct_size = sizeof info, .want_residual_norm = true};
        for (size_t i = 0; i < TENSORS; i++)
            TG_TRY(tg_session_grad_wait(s, id[i]));
        memcpy(g, drawn[r->transport->rank][step], sizeof drawn[0][0]);
        for (size_t i = TENSORS; i-- > 0;)
            TG_TRY(tg_session_grad_ready(s, id[i]));
        TG_TRY(tg_session_step(s, &info));
    }
    TG_TRY(tg_session_finish(s));
    return tg_session_params_hash(s, hash_p);
}

static tg_status run_session(rank *r)
{
    const tg_session_config config = {.struct_size = sizeof config,
                                      .method = r->method,
                                      .optimizer = "sgd:lr=0.125",
                                      .steps_per_epoch = 1,
                                      .timeout_ms = 20000,
                                      .driver = r->driver,
                                      .codec_threads = cores(r)};
    tg_session *s;
    TG_TRY(tg_session_create(&config, r->transport, &s));
    float *w = calloc(N, sizeof *w), *g = calloc(N, sizeof *g);
    tg_status status = train(r, s, w, g, &r->hash);
    tg_session_destroy(s);
    free(w);
    free(g);
    return status;
}

/* ---- a reducer ------------------------------------------------------------------------------- */

static tg_status reduce(const rank *r, tg_reducer *reducer, float *g, float *mean, uint64_t *hash_p)
{
    *hash_p = UINT64_C(0xcbf29ce484222325);
    for (uint64_t step = 0; step < STEPS; step++) {
        memcpy(g, drawn[r->transport->rank][step], sizeof drawn[0][0]);
        TG_TRY(tg_reducer_mean(reducer, g, mean));
        for (size_t i = 0; i < N; i++) {
            uint32_t bits;
            memcpy(&bits, &mean[i], sizeof bits);
            *hash_p = (*hash_p ^ bits) * UINT64_C(0x100000001b3);
        }
    }
    return TG_OK;
}

static tg_status run_reducer(rank *r)
{
    tg_segment segments[TENSORS];
    for (size_t i = 0, at = 0; i < TENSORS; at += segments[i].n, i++)
        segments[i] = (tg_segment){
            .begin = at, .n = shape[i][0] * shape[i][1], .rows = shape[i][0], .cols = shape[i][1]};
    const tg_reducer_config config = {.struct_size = sizeof config,
                                      .steps_per_epoch = 1,
                                      .timeout_ms = 20000,
                                      .segments = segments,
                                      .nsegments = TENSORS,
                                      .codec_threads = cores(r)};
    tg_reducer *reducer;
    TG_TRY(tg_reducer_create(r->method, r->transport, N, &config, &reducer));
    float *g = calloc(N, sizeof *g), *mean = calloc(N, sizeof *mean);
    tg_status status = reduce(r, reducer, g, mean, &r->hash);
    tg_reducer_destroy(reducer);
    free(g);
    free(mean);
    return status;
}

/* ---- the tests ------------------------------------------------------------------------------- */

static tg_status (*body)(rank *r);

static void *run_rank(void *arg)
{
    rank *r = arg;
    r->status = body(r);
    snprintf(r->error, sizeof r->error, "%s", r->status == TG_OK ? "" : tg_error());
    tg_transport_destroy(r->transport);
    return NULL;
}

/* The hash that both ranks agree on. */
static uint64_t run(const char *method, unsigned threads, tg_driver driver)
{
    tg_transport *t[P];
    pthread_t thread[P];
    rank ranks[P];
    assert_int_equal(tg_transport_inproc(P, t), TG_OK);
    for (int i = 0; i < P; i++) {
        ranks[i] =
            (rank){.method = method, .transport = t[i], .threads = threads, .driver = driver};
        assert_int_equal(pthread_create(&thread[i], NULL, run_rank, &ranks[i]), 0);
    }
    for (int i = 0; i < P; i++)
        pthread_join(thread[i], NULL);
    for (int i = 0; i < P; i++)
        if (ranks[i].status != TG_OK)
            fail_msg("%s, %u threads: %s", method, threads, ranks[i].error);
    assert_true(ranks[0].hash == ranks[1].hash);
    return ranks[0].hash;
}

static void same_for_any_number(const char *method)
{
    static size_t calls;
    calls++;
    uint64_t one = run(method, 0, TG_DRIVER_THREAD);
    for (unsigned threads = 1; threads <= THREADS_MAX; threads++)
        if (!tsan_skips(calls, threads == 1 ? 2 : threads - 2, 2) &&
            run(method, threads, threads == 2 ? TG_DRIVER_INLINE : TG_DRIVER_THREAD) != one)
            fail_msg("%s: other bits with %u threads", method, threads);
}

static void every_method(void)
{
    size_t count;
    const tg_entry *const *methods = tg_registry_entries(TG_KIND_METHOD, &count);
    for (size_t i = 0; i < count; i++)
        same_for_any_number(methods[i]->name);
}

static void in_a_session(void **state)
{
    (void)state;
    static const char *const more[] = {"fp16:feedback=residual,exchange=direct",
                                       "2bit:threshold=0.25,exchange=direct",
                                       "dense:exchange=ring",
                                       "dgc:warmup=0,clip=1",
                                       "csc:warmup=0,chunk=1000,density=0.3",
                                       "fetchsgd:ratio=2,density=0.05"};
    body = run_session;
    every_method();
    for (size_t i = 0; i < sizeof more / sizeof *more; i++)
        same_for_any_number(more[i]);
}

static void in_a_reducer(void **state)
{
    (void)state;
    body = run_reducer;
    every_method();
}

static void too_many(void **state)
{
    (void)state;
    tg_transport *t;
    tg_session *s = NULL;
    tg_reducer *r = NULL;
    const tg_session_config config = {.struct_size = sizeof config, .codec_threads = 257};
    const tg_reducer_config reducer = {.struct_size = sizeof reducer, .codec_threads = 257};
    assert_int_equal(tg_transport_inproc(1, &t), TG_OK);
    assert_int_equal(tg_session_create(&config, t, &s), TG_E_ARG);
    assert_non_null(strstr(tg_error(), "codec_threads=257: allowed: 0 to 256"));
    assert_int_equal(tg_reducer_create("dense", t, 10, &reducer, &r), TG_E_ARG);
    assert_non_null(strstr(tg_error(), "codec_threads=257: allowed: 0 to 256"));
    assert_null(s);
    assert_null(r);
    tg_transport_destroy(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(in_a_session),
                                       cmocka_unit_test(in_a_reducer), cmocka_unit_test(too_many)};
    return cmocka_run_group_tests(tests, draw_all, NULL);
}
