/* Reducers over vectors of 16 bits: the mean is that of the widened vectors, rounded. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "kernel/kernel.h"
#include "telegrad/random.h"
#include "telegrad/reducer.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { N = 70001, P = 2, STEPS = 3 };

typedef struct rank {
    tg_transport *t;
    const char *method;
    tg_dtype dtype;
    unsigned threads;
    tg_status status;
    char error[512];
    float g[N], mean[N];
    uint16_t words[N], result[N], want[N];
} rank;

static rank ranks[P];

static tg_status make(const rank *r, tg_reducer **reducer_p)
{
    const tg_reducer_config config = {
        .struct_size = sizeof config, .timeout_ms = 5000, .codec_threads = r->threads};
    return tg_reducer_create(r->method, r->t, N, &config, reducer_p);
}

static tg_status compare(rank *r)
{
    const tg__kernels *k = tg__kernel_level("ref");
    tg_reducer *wide, *narrow;
    TG_TRY(make(r, &wide));
    TG_TRY(make(r, &narrow));
    for (int step = 0; step < STEPS; step++) {
        const tg_rng_key key = {
            .purpose = TG_PURPOSE_TEST, .rank = (uint32_t)r->t->rank, .step = (uint64_t)step};
        for (size_t i = 0; i < N; i++)
            r->g[i] = (float)tg_rng_normal(&key, i);
        (r->dtype == TG_BF16 ? k->bf16_encode : k->f16_encode)(r->words, r->g, N);
        (r->dtype == TG_BF16 ? k->bf16_decode : k->f16_decode)(r->g, r->words, N);
        TG_TRY(tg_reducer_mean(wide, r->g, r->mean));
        (r->dtype == TG_BF16 ? k->bf16_encode : k->f16_encode)(r->want, r->mean, N);
        uint16_t *to = step == 0 ? r->words : r->result; /* in place, and elsewhere */
        TG_TRY(tg_reducer_start_as(narrow, r->dtype, r->words, to, NULL, NULL));
        TG_TRY(tg_reducer_wait(narrow));
        if (memcmp(to, r->want, sizeof r->want) != 0)
            return tg_fail(TG_E_STATE, "other means in step %d", step);
    }
    tg_reducer_destroy(wide);
    tg_reducer_destroy(narrow);
    return TG_OK;
}

/* Another type in each call and on each rank: float32 among them. */
static tg_status mix(rank *r)
{
    tg_reducer *reducer;
    TG_TRY(make(r, &reducer));
    const uint16_t one[] = {[TG_F16] = 0x3c00, [TG_BF16] = 0x3f80};
    for (int step = 0; step < 4; step++) {
        const tg_dtype dtype = (tg_dtype)((step + r->t->rank) % 3);
        void *x = dtype == TG_F32 ? (void *)r->g : (void *)r->words;
        for (size_t i = 0; i < N; i++) {
            r->g[i] = 1;
            r->words[i] = one[dtype];
        }
        TG_TRY(tg_reducer_start_as(reducer, dtype, x, x, NULL, NULL));
        TG_TRY(tg_reducer_wait(reducer));
        if (dtype == TG_F32 ? r->g[N - 1] != 1 : r->words[N - 1] != one[dtype])
            return tg_fail(TG_E_STATE, "dtype %d: another mean", (int)dtype);
    }
    tg_reducer_destroy(reducer);
    return TG_OK;
}

static tg_status says(tg_status status, tg_status wanted, const char *words)
{
    if (status != wanted || strstr(tg_error(), words) == NULL)
        return tg_fail(TG_E_STATE, "status %d instead of %d, or no \"%s\"", (int)status,
                       (int)wanted, words);
    return TG_OK;
}

static tg_status refuse(rank *r)
{
    tg_reducer *reducer;
    TG_TRY(make(r, &reducer));
    char *x = (char *)r->words;
    TG_TRY(says(tg_reducer_start_as(reducer, (tg_dtype)7, x, x, NULL, NULL), TG_E_ARG,
                "dtype=7: allowed: TG_F32, TG_F16, TG_BF16"));
    TG_TRY(says(tg_reducer_start_as(reducer, TG_F16, x + 1, x + 1, NULL, NULL), TG_E_ARG,
                "aligned to 2 bytes"));
    TG_TRY(says(tg_reducer_start_as(reducer, TG_F16, x, x + 2, NULL, NULL), TG_E_ARG,
                "mean begins 2 bytes after g"));
    memset(r->words, 0, sizeof r->words);
    if (r->t->rank == 1)
        r->words[N - 1] = 0x7c00; /* infinity */
    TG_TRY(tg_reducer_start_as(reducer, TG_F16, x, x, NULL, NULL));
    TG_TRY(says(tg_reducer_wait(reducer), TG_E_NONFINITE,
                r->t->rank == 1 ? "rank 1: element 70000 of the gradient is inf" : "another rank"));
    r->words[N - 1] = 0;
    TG_TRY(tg_reducer_start_as(reducer, TG_F16, x, x, NULL, NULL));
    TG_TRY(tg_reducer_wait(reducer));
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

static void run(const char *method, tg_dtype dtype, unsigned threads, tg_status (*what)(rank *r))
{
    tg_transport *t[P];
    pthread_t thread[P];
    body = what;
    assert_int_equal(tg_transport_inproc(P, t), TG_OK);
    for (int i = 0; i < P; i++) {
        ranks[i] = (rank){.t = t[i], .method = method, .dtype = dtype, .threads = threads};
        assert_int_equal(pthread_create(&thread[i], NULL, run_rank, &ranks[i]), 0);
    }
    for (int i = 0; i < P; i++)
        pthread_join(thread[i], NULL);
    for (int i = 0; i < P; i++)
        if (ranks[i].status != TG_OK)
            fail_msg("%s: rank %d: %s", method, i, ranks[i].error);
}

static void test_mean(void **state)
{
    (void)state;
    static const char *const methods[] = {"dense", "topk:density=0.01", "qsgd:bits=4"};
    for (size_t m = 0; m < sizeof methods / sizeof *methods; m++)
        for (unsigned threads = 1; threads <= 2; threads++) {
            run(methods[m], TG_BF16, threads, compare);
            run(methods[m], TG_F16, threads, compare);
        }
}

static void test_mixed(void **state)
{
    (void)state;
    run("dense", TG_F32, 1, mix);
}

static void test_refused(void **state)
{
    (void)state;
    run("topk:density=0.01", TG_F16, 1, refuse);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mean),
        cmocka_unit_test(test_mixed),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
