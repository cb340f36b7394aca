/* Reducers whose vectors are on a GPU, or in its emulation: means and memory have the bits of those
 * on the host, also where only some ranks have one. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "engine/reducer_impl.h"
#include "telegrad/cuda.h"

#include <cuda_runtime_api.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N = 4000, P = 3, STEPS = 7, SLOTS_MAX = 16 };
enum { LARGE_STEPS = 2, NAN_STEP = 2, UNDONE_STEP = 3, SCALED_STEP = 4, HALF_STEP = 5 };

static const tg_segment segments[] = {
    {.begin = 0, .n = 2400, .rows = 40, .cols = 60, .dims = 2},
    {.begin = 2400, .n = 100, .rows = 100, .cols = 1, .dims = 1},
    {.begin = 2500, .n = 1500, .rows = 5, .cols = 300, .dims = 4},
};

typedef struct rank {
    const char *method;
    tg_transport *t;
    tg_reducer *r;
    bool on_gpu, large, native;
    void *device;
    float g[N], mean[STEPS][N];
    float *slots;
    size_t slot_floats;
    tg_status status, nan_status;
    char nan_error[256], error[512], refused[STEPS][256];
} rank;

static tg_status gpu(cudaError_t error)
{
    return error == cudaSuccess ? TG_OK : tg_fail(TG_E_STATE, "%s", cudaGetErrorString(error));
}

/* One mean of `bytes` of values at x, in place. */
static tg_status mean_of(rank *k, void *x, size_t bytes, tg_dtype dtype)
{
    tg_array a = tg_array_f32(x, N);
    a.dtype = dtype;
    if (k->on_gpu) {
        a.memory = TG_CUDA;
        a.data = k->device;
        TG_TRY(gpu(cudaMemcpy(k->device, x, bytes, cudaMemcpyHostToDevice)));
    }
    TG_TRY(tg_reducer_start_array(k->r, &a, &a, NULL, NULL));
    const tg_status status = tg_reducer_wait(k->r);
    if (k->on_gpu) {
        TG_TRY(gpu(cudaMemcpy(x, k->device, bytes, cudaMemcpyDeviceToHost)));
        TG_TRY(gpu(cudaDeviceSynchronize()));
    }
    return status;
}

static void draw(float *g, int rank_number, int step)
{
    const tg_rng_key key = {.seed = 5,
                            .purpose = TG_PURPOSE_TEST,
                            .rank = (uint32_t)rank_number,
                            .step = (uint64_t)step};
    for (size_t i = 0; i < N; i++)
        g[i] = (float)tg_rng_normal(&key, i) * (i < 2400 ? 1.0f : 0.01f);
}

/* Its sum with another one overflows f32. */
static void draw_large(float *g)
{
    for (size_t i = 0; i < N; i++)
        g[i] = g[i] < 0 ? -3.3e38f : 3.3e38f;
}

static tg_status half_step(rank *k, int step)
{
    uint16_t half[N];
    for (size_t i = 0; i < N; i++) { /* bfloat16, cut off */
        uint32_t bits;
        memcpy(&bits, &k->g[i], sizeof bits);
        half[i] = (uint16_t)(bits >> 16);
    }
    TG_TRY(mean_of(k, half, sizeof half, TG_BF16));
    for (size_t i = 0; i < N; i++)
        k->mean[step][i] = half[i];
    return TG_OK;
}

static tg_status take_step(rank *k, int step)
{
    draw(k->g, k->t->rank, step);
    if (k->large && step < LARGE_STEPS && k->t->rank == 0)
        draw_large(k->g);
    if (step == NAN_STEP && k->t->rank == 1)
        k->g[1234] = NAN;
    if (step == SCALED_STEP)
        TG_TRY(tg_reducer_scale(k->r, 0.5));
    if (step == HALF_STEP)
        return half_step(k, step);
    memcpy(k->mean[step], k->g, sizeof k->g);
    const tg_status status = mean_of(k, k->mean[step], sizeof k->g, TG_F32);
    if (step == NAN_STEP) {
        k->nan_status = status;
        snprintf(k->nan_error, sizeof k->nan_error, "%s", tg_error());
        return TG_OK;
    }
    if (k->large && status == TG_E_NONFINITE) {
        snprintf(k->refused[step], sizeof k->refused[step], "%s", tg_error());
        return TG_OK;
    }
    if (status == TG_OK && step == UNDONE_STEP)
        return tg_reducer_undo(k->r);
    return status;
}

static tg_status keep_slots(rank *k)
{
    for (size_t i = 0; i < tg_reducer_slot_count(k->r); i++) {
        tg_reducer_slot slot = {.struct_size = sizeof slot};
        TG_TRY(tg_reducer_slot_get(k->r, i, &slot));
        const size_t floats = slot.bytes / sizeof(float);
        k->slots = realloc(k->slots, (k->slot_floats + floats) * sizeof(float) + 1);
        memcpy(k->slots + k->slot_floats, slot.data, floats * sizeof(float));
        k->slot_floats += floats;
    }
    return TG_OK;
}

static tg_status run_steps(rank *k)
{
    const tg_reducer_config config = {.struct_size = sizeof config,
                                      .seed = 3,
                                      .timeout_ms = 60000,
                                      .steps_per_epoch = 2,
                                      .segments = segments,
                                      .nsegments = 3,
                                      .memory = k->on_gpu ? TG_CUDA : TG_HOST};
    TG_TRY(tg_reducer_create(k->method, k->t, N, &config, &k->r));
    k->native = k->r->gpu.native;
    for (int step = 0; step < STEPS; step++)
        TG_TRY(take_step(k, step));
    return keep_slots(k);
}

static void *run_rank(void *arg)
{
    rank *k = arg;
    k->status = k->on_gpu ? gpu(cudaMalloc(&k->device, N * sizeof(float))) : TG_OK;
    if (k->status == TG_OK)
        k->status = run_steps(k);
    if (k->status != TG_OK)
        snprintf(k->error, sizeof k->error, "%s", tg_error());
    tg_reducer_destroy(k->r);
    tg_transport_destroy(k->t);
    if (k->device != NULL)
        cudaFree(k->device);
    return NULL;
}

/* Bit r of gpus: rank r has one. */
static void run(const char *method, unsigned gpus, bool large, rank *ranks)
{
    tg_transport *t[P];
    pthread_t thread[P];
    assert_int_equal(tg_transport_inproc(P, t), TG_OK);
    for (int i = 0; i < P; i++) {
        ranks[i] = (rank){.method = method, .t = t[i], .on_gpu = gpus >> i & 1, .large = large};
        assert_int_equal(pthread_create(&thread[i], NULL, run_rank, &ranks[i]), 0);
    }
    for (int i = 0; i < P; i++)
        pthread_join(thread[i], NULL);
    for (int i = 0; i < P; i++)
        if (ranks[i].status != TG_OK)
            fail_msg("%s, GPUs %u, rank %d: %s", method, gpus, i, ranks[i].error);
}

static void forget(rank *ranks)
{
    for (int i = 0; i < P; i++)
        free(ranks[i].slots);
}

static void same(const char *method, unsigned gpus, const rank *host, const rank *other)
{
    for (int i = 0; i < P; i++) {
        for (int step = 0; step < STEPS; step++) {
            const bool refused = step == NAN_STEP; /* vectors are as they were: NaN is not equal */
            if (!refused &&
                memcmp(host[i].mean[step], other[i].mean[step], sizeof host[i].mean[step]) != 0)
                fail_msg("%s, GPUs %u, rank %d, step %d: other means", method, gpus, i, step);
            assert_string_equal(other[i].refused[step], host[i].refused[step]);
        }
        assert_int_equal(other[i].nan_status, TG_E_NONFINITE);
        assert_string_equal(other[i].nan_error, host[i].nan_error);
        if (host[i].slot_floats != other[i].slot_floats ||
            memcmp(host[i].slots, other[i].slots, host[i].slot_floats * sizeof(float)) != 0)
            fail_msg("%s, GPUs %u, rank %d: other memory", method, gpus, i);
    }
}

/* native: the GPU codes them; else the vectors are copied to the host. */
static void compare_bits(const char *const *methods, bool native)
{
    static rank host[P], other[P];
    static const unsigned places[] = {7, 5};
    for (; *methods != NULL; methods++) {
        run(*methods, 0, false, host);
        for (size_t j = 0; j < 2; j++) {
            run(*methods, places[j], false, other);
            same(*methods, places[j], host, other);
            if (other[0].native != native)
                fail_msg("%s: native is %d", *methods, other[0].native);
            forget(other);
        }
        assert_non_null(strstr(host[1].nan_error, "element 1234"));
        forget(host);
    }
}

static void test_bits(void **state)
{
    static const char *const methods[] = {
        "topk:density=0.01",
        "topk:density=0.05,values=f32,warmup=3",
        "topk:density=0.02,feedback=none",
        "topk:density=0.02,rescale=yes",
        "topk:density=0.02,lookahead=0",
        "topk:density=0.3,lookahead=0.5,values=1bit,index=ef",
        "dgc:density=0.01,warmup=2",
        "dgc:density=0.01,warmup=0,nesterov=yes,masking=no",
        "dgc:density=0.01,warmup=0,lookahead=0",
        "dgc:density=0.01,warmup=0,lookahead=0.5,nesterov=yes,clip=1",
        "dgc:density=0.01,warmup=0,clip=1",
        "dgc:density=0.05,warmup=2,masking=no,clip=0.3",
        "2bit",
        "2bit:threshold=0.5",
        "2bit:lookahead=0",
        "2bit:threshold=0.5,lookahead=0.3",
        "1bit",
        "1bit:weights=no",
        "1bit:threshold=mean",
        "efsign",
        "qsgd:bits=4",
        "qsgd:bits=4,exchange=allgather",
        "int8:exchange=allgather",
        "fp16:exchange=allgather",
        "bf16:exchange=allgather",
        "dense:exchange=allgather",
        "randomk:density=0.1",
        "randomk:density=0.02,values=fp16,warmup=3,exchange=ring",
        "randomk:density=0.6,feedback=none,exchange=ring",
        "powersgd:rank=2",
        "powersgd:rank=4,min_ratio=1,warm=no",
        "powersgd:rank=1,start=4",
        "powersgd:rank=3,exchange=allgather",
        NULL,
    };
    (void)state;
    compare_bits(methods, true);
}

static void test_copied(void **state)
{
    static const char *const methods[] = {
        "topk:density=0.02,scope=tensor",
        "topk:density=0.02,exchange=reducescatter",
        "csc:clip=1",
        "signsgd",
        "signum",
        "dense",
        "powersgd:rank=64",
        "terngrad",
        "adacomp",
        NULL,
    };
    (void)state;
    compare_bits(methods, false);
}

/* Steps that overflow f32 are refused with the same words, and memories start anew alike. */
static void test_overflow(void **state)
{
    static const char *const methods[] = {
        "powersgd:rank=2",
        "powersgd:rank=4,min_ratio=1,warm=no",
        "powersgd:rank=2,start=1",
        "randomk:density=0.1",
        "randomk:density=0.1,feedback=none",
        "topk:density=0.01",
        "2bit",
        "2bit:lookahead=0",
        "dgc:density=0.3",
    };
    static rank host[P], other[P];
    (void)state;
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
        run(methods[i], 0, true, host);
        run(methods[i], 7, true, other);
        same(methods[i], 7, host, other);
        assert_true(strlen(host[0].refused[1]) > 0);
        forget(other);
        forget(host);
    }
}

/* A NaN that was written into the memory has the same effect as on the host: it is found when no
 * threshold is known that enough elements reach, and the memory starts anew. */
static void nan_in_memory(const char *method)
{
    static float x[N];
    tg_status statuses[2][8];
    float memory[2][8];
    int refused = 0;
    for (int on_gpu = 0; on_gpu < 2; on_gpu++) {
        tg_transport *t;
        rank k = {.on_gpu = on_gpu != 0};
        const tg_reducer_config config = {.struct_size = sizeof config,
                                          .memory = on_gpu ? TG_CUDA : TG_HOST};
        assert_int_equal(tg_transport_inproc(1, &t), TG_OK);
        assert_int_equal(tg_reducer_create(method, t, N, &config, &k.r), TG_OK);
        if (k.on_gpu)
            assert_int_equal(cudaMalloc(&k.device, sizeof x), cudaSuccess);
        for (int step = 0; step < 8; step++) {
            tg_reducer_slot slot = {.struct_size = sizeof slot};
            assert_int_equal(tg_reducer_slot_get(k.r, 0, &slot), TG_OK);
            if (step == 2)
                ((float *)slot.data)[1000] = NAN;
            memory[on_gpu][step] = ((float *)slot.data)[500];
            draw(x, 0, step);
            for (size_t i = 0; step >= 2 && i < N; i++)
                x[i] *= 1e-3f; /* the last threshold is far too high */
            statuses[on_gpu][step] = mean_of(&k, x, sizeof x, TG_F32);
        }
        tg_reducer_destroy(k.r);
        tg_transport_destroy(t);
        if (k.on_gpu)
            cudaFree(k.device);
    }
    for (int step = 0; step < 8; step++) {
        assert_int_equal(statuses[0][step], statuses[1][step]);
        assert_memory_equal(&memory[0][step], &memory[1][step], sizeof memory[0][step]);
        refused += statuses[1][step] == TG_E_NONFINITE;
    }
    assert_true(refused > 0);
}

static void test_nan_in_memory(void **state)
{
    (void)state;
    nan_in_memory("topk:density=0.1");
    nan_in_memory("topk:density=0.1,lookahead=2");
}

static void test_refused(void **state)
{
    tg_transport *t;
    tg_reducer *r = NULL, *of_host = NULL;
    float x[8] = {1};
    tg_reducer_config config = {.struct_size = sizeof config, .memory = TG_CUDA, .device = 1000};
    (void)state;
    assert_int_equal(tg_transport_inproc(1, &t), TG_OK);
    assert_int_equal(tg_reducer_create("dense", t, 8, &config, &r), TG_E_ARG);
    assert_non_null(strstr(tg_error(), "device=1000"));
    config.device = 0;
    assert_int_equal(tg_reducer_create("dense", t, 8, &config, &r), TG_OK);
    assert_int_equal(tg_reducer_mean(r, x, x), TG_E_ARG);
    assert_non_null(strstr(tg_error(), "the device's, by tg_reducer_start_array"));
    tg_array a = tg_array_f32(x, 8);
    a.memory = TG_CUDA;
    a.device = 1;
    assert_int_equal(tg_reducer_start_array(r, &a, &a, NULL, NULL), TG_E_ARG);
    assert_non_null(strstr(tg_error(), "device 1: allowed: 0"));
    a.n = 7;
    assert_int_equal(tg_reducer_start_array(r, &a, &a, NULL, NULL), TG_E_ARG);
    config.memory = (tg_memory)7;
    assert_int_equal(tg_reducer_create("dense", t, 8, &config, &of_host), TG_E_ARG);
    config.memory = TG_HOST;
    assert_int_equal(tg_reducer_create("dense", t, 8, &config, &of_host), TG_OK);
    a = tg_array_f32(x, 8);
    a.memory = TG_CUDA;
    assert_int_equal(tg_reducer_start_array(of_host, &a, &a, NULL, NULL), TG_E_ARG);
    tg_reducer_destroy(of_host);
    tg_reducer_destroy(r);
    tg_transport_destroy(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bits), cmocka_unit_test(test_copied), cmocka_unit_test(test_overflow),
        cmocka_unit_test(test_nan_in_memory), cmocka_unit_test(test_refused)};
    if (tg_cuda_attach() != TG_OK) {
        printf("SKIP: %s\n", tg_error());
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
