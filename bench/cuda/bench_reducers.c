/* Means of gradients that are on a GPU, over an emulated link: milliseconds of a mean, for ranks
 * that are threads and share one GPU.
 *
 *     bench_reducers [--elements 25557032] [--ranks 4] [--link 1gbit,0.1ms] [--steps 7]
 *
 * It prints JSON lines:
 *
 *   device   the reducer takes the vector on the GPU
 *   host     the caller copies it to pinned host memory, and the mean back; the reducer works there
 *            with four cores
 *   link     what the link alone takes for the bytes that a rank sends in a step
 *
 * The elements are those of ResNet-50 by default; GPT-2 small has 124439808. */
#include "telegrad/cuda.h"
#include "telegrad/reducer.h"
#include "telegrad/tools.h"

#include <cuda_runtime_api.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { RANKS_MOST = 8, STEPS_MOST = 100, WARM = 2 };

static size_t n = 25557032;
static int ranks = 4, steps = 7;
static const char *link_text = "1gbit,0.1ms";
static pthread_barrier_t barrier;

typedef struct rank {
    const char *method;
    tg_transport *t;
    bool on_device;
    double seconds[STEPS_MOST];
    uint64_t bytes;
    double ratio;
    char error[512]; /* "": none */
} rank;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static tg_status cuda(cudaError_t error)
{
    return error == cudaSuccess ? TG_OK
                                : tg_fail(TG_E_STATE, "CUDA: %s", cudaGetErrorString(error));
}

typedef struct vectors {
    float *gradient, *work; /* on the GPU */
    float *host;            /* pinned */
    tg_reducer *r;
} vectors;

static tg_status make(rank *k, vectors *v)
{
    const size_t cols = n / 2048, matrix = 2048 * cols;
    const tg_segment segments[2] = {
        {.n = matrix, .rows = 2048, .cols = cols, .dims = 2},
        {.begin = matrix, .n = n - matrix, .rows = n - matrix, .cols = 1, .dims = 1}};
    const tg_reducer_config config = {.struct_size = sizeof config,
                                      .timeout_ms = 100000,
                                      .segments = segments,
                                      .nsegments = n > matrix ? 2 : 1,
                                      .codec_threads = k->on_device ? 1 : 4,
                                      .memory = k->on_device ? TG_CUDA : TG_HOST};
    TG_TRY(cuda(cudaMalloc((void **)&v->gradient, n * sizeof(float))));
    TG_TRY(cuda(cudaMalloc((void **)&v->work, n * sizeof(float))));
    TG_TRY(cuda(cudaHostAlloc((void **)&v->host, n * sizeof(float), cudaHostAllocDefault)));
    uint64_t state = 88172645463325252u + (uint64_t)k->t->rank;
    for (size_t i = 0; i < n; i++) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        const float u = (float)((double)(state >> 11) * 0x1p-53 - 0.5);
        v->host[i] = u * u * u;
    }
    TG_TRY(cuda(cudaMemcpy(v->gradient, v->host, n * sizeof(float), cudaMemcpyHostToDevice)));
    return tg_reducer_create(k->method, k->t, n, &config, &v->r);
}

static tg_status mean(const rank *k, const vectors *v)
{
    if (k->on_device) {
        tg_array x = tg_array_f32(v->work, n);
        x.memory = TG_CUDA;
        TG_TRY(tg_reducer_start_array(v->r, &x, &x, NULL, NULL));
        TG_TRY(tg_reducer_wait(v->r));
    } else {
        TG_TRY(cuda(cudaMemcpy(v->host, v->work, n * sizeof(float), cudaMemcpyDeviceToHost)));
        TG_TRY(tg_reducer_mean(v->r, v->host, v->host));
        TG_TRY(cuda(cudaMemcpy(v->work, v->host, n * sizeof(float), cudaMemcpyHostToDevice)));
    }
    return cuda(cudaStreamSynchronize(NULL));
}

static tg_status run_steps(rank *k, const vectors *v)
{
    for (int i = -WARM; i < steps; i++) {
        TG_TRY(cuda(cudaMemcpy(v->work, v->gradient, n * sizeof(float), cudaMemcpyDeviceToDevice)));
        TG_TRY(cuda(cudaDeviceSynchronize()));
        pthread_barrier_wait(&barrier);
        const uint64_t sent = tg_reducer_bytes_sent(v->r);
        const double begin = now();
        TG_TRY(mean(k, v));
        if (i >= 0)
            k->seconds[i] = now() - begin;
        k->bytes = tg_reducer_bytes_sent(v->r) - sent;
    }
    k->ratio = tg_reducer_ratio(v->r);
    return TG_OK;
}

static void *run_rank(void *arg)
{
    rank *k = arg;
    vectors v = {0};
    tg_status status = make(k, &v);
    if (status == TG_OK)
        status = run_steps(k, &v);
    if (status != TG_OK) {
        snprintf(k->error, sizeof k->error, "%s", tg_error());
        fprintf(stderr, "bench_reducers: rank %d: %s\n", k->t->rank, k->error);
        exit(1);
    }
    tg_reducer_destroy(v.r);
    cudaFree(v.gradient);
    cudaFree(v.work);
    cudaFreeHost(v.host);
    return NULL;
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static int measure(const char *method, bool on_device)
{
    static rank all[RANKS_MOST];
    tg_transport *inner[RANKS_MOST];
    pthread_t thread[RANKS_MOST];
    tg_link link;
    if (tg_link_parse(link_text, &link) != TG_OK || tg_transport_inproc(ranks, inner) != TG_OK)
        return 1;
    for (int i = 0; i < ranks; i++) {
        all[i] = (rank){.method = method, .on_device = on_device};
        if (tg_transport_shaped(inner[i], &link, &all[i].t) != TG_OK)
            return 1;
    }
    for (int i = 0; i < ranks; i++)
        pthread_create(&thread[i], NULL, run_rank, &all[i]);
    for (int i = 0; i < ranks; i++) {
        pthread_join(thread[i], NULL);
        tg_transport_destroy(all[i].t);
    }
    qsort(all[0].seconds, (size_t)steps, sizeof all[0].seconds[0], by_size);
    printf("{\"method\": \"%s\", \"vectors\": \"%s\", \"elements\": %zu, \"ranks\": %d, \"link\": "
           "\"%s\", \"ms\": %.2f, \"link_ms\": %.2f, \"sent\": %llu, \"ratio\": %.1f}\n",
           method, on_device ? "device" : "host", n, ranks, link_text,
           1e3 * all[0].seconds[steps / 2], 8e3 * (double)all[0].bytes / link.up_bps,
           (unsigned long long)all[0].bytes, all[0].ratio);
    fflush(stdout);
    return 0;
}

int main(int argc, char **argv)
{
    static const char *const methods[] = {
        "dgc:density=0.001,warmup=0",     "topk:density=0.01", "2bit", "efsign",
        "qsgd:bits=4,exchange=allgather", "powersgd:rank=4"};
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--elements") == 0)
            n = (size_t)strtod(argv[i + 1], NULL);
        else if (strcmp(argv[i], "--ranks") == 0)
            ranks = atoi(argv[i + 1]);
        else if (strcmp(argv[i], "--link") == 0)
            link_text = argv[i + 1];
        else if (strcmp(argv[i], "--steps") == 0)
            steps = atoi(argv[i + 1]);
    }
    if (n < 2048 || n > TG_MAX_ELEMENTS || ranks < 1 || ranks > RANKS_MOST || steps < 1 ||
        steps > STEPS_MOST) {
        fprintf(stderr, "usage: bench_reducers [--elements N] [--ranks 1..8] [--link LINK] "
                        "[--steps 1..100]; N is at least 2048\n");
        return 2;
    }
    if (tg_cuda_attach() != TG_OK) {
        fprintf(stderr, "bench_reducers: %s\n", tg_error());
        return 77;
    }
    pthread_barrier_init(&barrier, NULL, (unsigned)ranks);
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
        if (measure(methods[i], true) != 0 || measure(methods[i], false) != 0) {
            fprintf(stderr, "bench_reducers: %s\n", tg_error());
            return 1;
        }
    return 0;
}
