/* In the emulation: the k-th call of CUDA fails on one of two ranks, for each k. The other rank
 * learns of it at once, and nothing is leaked. Links with --wrap for the calls below. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "telegrad/cuda.h"
#include "telegrad/reducer.h"

#include <cuda_runtime_api.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum { N = 2000, P = 2, STEPS = 2, TIMEOUT_MS = 20000 };

static _Thread_local bool victim;
static int at_k, calls;
static atomic_int device_blocks, pinned_blocks;

static bool fails(void)
{
    return victim && ++calls == at_k;
}

#define WRAPPED(name, parameters, arguments) \
    cudaError_t __real_##name parameters;    \
    cudaError_t __wrap_##name parameters;    \
    cudaError_t __wrap_##name parameters     \
    {                                        \
        if (fails())                         \
            return cudaErrorInvalidValue;    \
        return __real_##name arguments;      \
    }
WRAPPED(cudaMemcpyAsync,
        (void *dst, const void *src, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream),
        (dst, src, bytes, kind, stream))
WRAPPED(cudaMemsetAsync, (void *p, int value, size_t bytes, cudaStream_t stream),
        (p, value, bytes, stream))
WRAPPED(cudaStreamSynchronize, (cudaStream_t stream), (stream))
WRAPPED(cudaStreamCreateWithFlags, (cudaStream_t * stream, unsigned flags), (stream, flags))
WRAPPED(cudaEventRecord, (cudaEvent_t event, cudaStream_t stream), (event, stream))
WRAPPED(cudaStreamWaitEvent, (cudaStream_t stream, cudaEvent_t event, unsigned flags),
        (stream, event, flags))

cudaError_t __real_cudaMalloc(void **p, size_t bytes);
cudaError_t __wrap_cudaMalloc(void **p, size_t bytes);
cudaError_t __wrap_cudaMalloc(void **p, size_t bytes)
{
    if (fails())
        return cudaErrorMemoryAllocation;
    device_blocks++;
    return __real_cudaMalloc(p, bytes);
}
cudaError_t __real_cudaFree(void *p);
cudaError_t __wrap_cudaFree(void *p);
cudaError_t __wrap_cudaFree(void *p)
{
    device_blocks -= p != NULL;
    return __real_cudaFree(p);
}
cudaError_t __real_cudaHostAlloc(void **p, size_t bytes, unsigned flags);
cudaError_t __wrap_cudaHostAlloc(void **p, size_t bytes, unsigned flags);
cudaError_t __wrap_cudaHostAlloc(void **p, size_t bytes, unsigned flags)
{
    if (fails())
        return cudaErrorMemoryAllocation;
    pinned_blocks++;
    return __real_cudaHostAlloc(p, bytes, flags);
}
cudaError_t __real_cudaFreeHost(void *p);
cudaError_t __wrap_cudaFreeHost(void *p);
cudaError_t __wrap_cudaFreeHost(void *p)
{
    pinned_blocks--;
    return __real_cudaFreeHost(p);
}

typedef struct rank {
    const char *method;
    tg_dtype dtype;
    tg_transport *t;
    tg_reducer *r;
    tg_status status;
    char error[512];
} rank;
static pthread_barrier_t ended;

static tg_status run_steps(rank *k, void *x)
{
    const tg_reducer_config config = {
        .struct_size = sizeof config, .timeout_ms = TIMEOUT_MS, .memory = TG_CUDA};
    tg_array a = tg_array_f32(x, N);
    a.memory = TG_CUDA;
    a.dtype = k->dtype;
    TG_TRY(tg_reducer_create(k->method, k->t, N, &config, &k->r));
    for (int step = 0; step < STEPS; step++) {
        TG_TRY(tg_reducer_start_array(k->r, &a, &a, NULL, NULL));
        TG_TRY(tg_reducer_wait(k->r));
    }
    return TG_OK;
}

static void *run_rank(void *arg)
{
    rank *k = arg;
    void *x;
    if (__real_cudaMalloc(&x, N * sizeof(float)) != cudaSuccess)
        return NULL;
    for (size_t i = 0; i < N; i++)
        ((float *)x)[i] = (float)(i % 13);
    if (k->dtype == TG_BF16)
        memset(x, 0x3c, N * sizeof(float));
    victim = k->t->rank == 1;
    k->status = run_steps(k, x);
    victim = false;
    snprintf(k->error, sizeof k->error, "%s", tg_error());
    pthread_barrier_wait(&ended); /* the other must not learn of it by this rank's leaving */
    tg_reducer_destroy(k->r);
    tg_transport_destroy(k->t);
    __real_cudaFree(x);
    return NULL;
}

/* Returns whether the k-th call was reached. */
static bool run(const char *method, tg_dtype dtype, int k)
{
    tg_transport *t[P];
    rank ranks[P];
    pthread_t thread[P];
    const int blocks = device_blocks, pinned = pinned_blocks;
    at_k = k;
    calls = 0;
    assert_int_equal(tg_transport_inproc(P, t), TG_OK);
    for (int i = 0; i < P; i++) {
        ranks[i] = (rank){.method = method, .dtype = dtype, .t = t[i]};
        assert_int_equal(pthread_create(&thread[i], NULL, run_rank, &ranks[i]), 0);
    }
    for (int i = 0; i < P; i++)
        pthread_join(thread[i], NULL);
    if (ranks[1].status == TG_OK) {
        assert_int_equal(ranks[0].status, TG_OK);
    } else if (ranks[0].status != TG_OK) { /* else it was done already */
        assert_int_equal(ranks[0].status, TG_E_PEER);
        if (strstr(ranks[0].error, "sent nothing") != NULL)
            fail_msg("%s, call %d: rank 0 had to wait: %s", method, k, ranks[0].error);
    }
    assert_int_equal(device_blocks, blocks);
    assert_int_equal(pinned_blocks, pinned);
    return calls >= k;
}

static void test_failures(void **state)
{
    static const struct {
        const char *method;
        tg_dtype dtype;
    } cases[] = {{"topk:density=0.05", TG_F32},
                 {"topk:density=0.05", TG_BF16},
                 {"dgc:density=0.05,warmup=0,clip=1", TG_F32},
                 {"2bit", TG_F32},
                 {"powersgd:rank=1", TG_F32},
                 {"terngrad", TG_BF16}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int k = 1;
        while (run(cases[i].method, cases[i].dtype, k))
            k++;
        assert_true(k > 10);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_failures)};
    pthread_barrier_init(&ended, NULL, P);
    if (tg_cuda_attach() != TG_OK)
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
