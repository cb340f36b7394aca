/* The codecs on a GPU: time of a step (form the vector, encode it, the frame is in host memory)
 * beside copies of the bytes that it must move.
 *
 *     bench_coders [ELEMENTS [REPEATS]] [--json] [--only SPEC]      a table, or JSON lines
 *
 *   touched  a copy on the device that reads and writes as many bytes as the step must: the
 *            gradient, and what the feedback keeps, read and written
 *   link     a copy of the frame from the device to pinned host memory
 *   step     median of the wall time of a step, launches and the wait included
 *   decode   the frame back to a vector on the device */
#include "codec/codec_impl.h"
#include "codec/on_gpu.h"
#include "telegrad/cuda.h"

#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void must(tg_status status)
{
    if (status != TG_OK) {
        fprintf(stderr, "bench_coders: %s\n", tg_error());
        exit(1);
    }
}

static void cuda(cudaError_t error)
{
    if (error != cudaSuccess) {
        fprintf(stderr, "bench_coders: %s\n", cudaGetErrorString(error));
        exit(1);
    }
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *x, int count)
{
    qsort(x, (size_t)count, sizeof *x, by_size);
    return x[count / 2];
}

typedef struct row {
    const char *spec, *feedback;
    double touched; /* bytes per element */
    size_t cols;    /* of a matrix of all elements but the last ones; 0: one vector */
} row;

static const row rows[] = {
    {"topk:density=0.001,values=int8", "velocity", 20, 0},
    {"topk:density=0.001", "residual", 12, 0},
    {"topk:density=0.01", "residual", 12, 0},
    {"topk:density=0.001", "none", 4, 0},
    {"2bit:threshold=0.001", "residual", 12, 0},
    {"2bit", "residual", 12, 0},
    {"sign", "residual", 12, 0},
    {"1bit", "residual", 12, 0},
    {"sign:scale=row", "residual", 12, 1024},
    {"1bit", "residual", 12, 1024},
    {"1bit:weights=yes", "residual", 12, 1024},
    {"qsgd:bits=4", "none", 4, 0},
    {"qsgd:bits=4", "residual", 12, 0},
    {"int8", "none", 4, 0},
    {"fp16", "none", 4, 0},
    {"fp16", "residual", 12, 0},
    {"bf16", "none", 4, 0},
};

enum { INPUTS = 4, MOST = 1000 };
static size_t n = 25600000;
static int repeats = 30;
static bool json;
static const char *only;     /* rows whose spec begins so; NULL: all */
static float *input[INPUTS]; /* (n) each on the device, so that none is in the cache */
static char *room[2];        /* 20 n bytes each, for copies */

/* Gradients have heavy tails: products of normal numbers. */
static void draw(void)
{
    float *x = malloc(n * sizeof *x);
    for (int j = 0; j < INPUTS; j++) {
        uint64_t state = 88172645463325252u + (uint64_t)j;
        for (size_t i = 0; i < n; i++) {
            double sum = 0, product = 1;
            for (int k = 0; k < 4; k++) {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                const double u = (double)(state >> 11) * 0x1p-53 - 0.5;
                sum += u;
                product *= u;
            }
            x[i] = (float)(0.01 * sum * (1 + 64 * product));
        }
        cuda(cudaMalloc((void **)&input[j], n * sizeof *x));
        cuda(cudaMemcpy(input[j], x, n * sizeof *x, cudaMemcpyHostToDevice));
    }
    free(x);
}

static double time_of_copy(size_t bytes)
{
    double t[MOST];
    for (int i = -3; i < repeats; i++) {
        cuda(cudaDeviceSynchronize());
        const double begin = now();
        cuda(cudaMemcpyAsync(room[i & 1], room[(i + 1) & 1], bytes / 2, cudaMemcpyDeviceToDevice,
                             NULL));
        cuda(cudaStreamSynchronize(NULL));
        if (i >= 0)
            t[i] = now() - begin;
    }
    return median(t, repeats);
}

static double time_of_link(void *host, size_t bytes)
{
    double t[MOST];
    for (int i = -3; i < repeats; i++) {
        const double begin = now();
        cuda(cudaMemcpyAsync(host, room[0], bytes, cudaMemcpyDeviceToHost, NULL));
        cuda(cudaStreamSynchronize(NULL));
        if (i >= 0)
            t[i] = now() - begin;
    }
    return median(t, repeats);
}

static void measure(const tg_device_ops *ops, const row *what)
{
    tg_codec *codec;
    tg_queue *q;
    tg_coder *coder;
    must(tg_codec_create(what->spec, &codec));
    must(ops->queue_create(0, &q));
    const size_t rows_in = what->cols > 0 ? n / what->cols : 0, matrix = rows_in * what->cols;
    const tg_segment parts[2] = {
        {.n = matrix, .rows = rows_in, .cols = what->cols, .dims = 2},
        {.begin = matrix, .n = n - matrix, .rows = n - matrix, .cols = 1, .dims = 1}};
    const tg_segment *segments = matrix > 0 ? parts : parts + 1;
    const size_t nsegments = matrix > 0 && matrix < n ? 2 : 1;
    tg_coder_setup setup = {.struct_size = sizeof setup,
                            .codec = codec->ops->entry.name,
                            .spec = codec->spec,
                            .feedback = what->feedback,
                            .momentum = 0.9,
                            .masking = true,
                            .n = n,
                            .segments = segments,
                            .nsegments = nsegments};
    for (int i = 0; i < TG_CODER_VECTORS; i++)
        must(ops->alloc(q, n * sizeof(float), (void **)&setup.vector[i]));
    const tg_status made = ops->coder_create(q, &setup, &coder);
    if (made == TG_E_UNSUPPORTED) {
        printf("%-32s %-9s not on the GPU: %s\n", what->spec, what->feedback, tg_error());
        return;
    }
    must(made);
    const size_t cap = tg__codec_bound(codec, n);
    uint8_t *frame = aligned_alloc(4096, (cap + 4095) / 4096 * 4096);
    memset(frame, 0, cap);
    ops->pin(q, frame, cap);
    float memory[16] = {0};
    tg_encode_context ctx = {
        .struct_size = sizeof ctx, .segments = segments, .nsegments = nsegments, .memory = memory};
    double t[MOST], d[MOST];
    tg_coded coded = {.struct_size = sizeof coded};
    bool finite = true;
    for (int i = -8; i < repeats; i++) {
        cuda(cudaDeviceSynchronize());
        ctx.rng.step = (uint64_t)(i + 8);
        const double begin = now();
        must(ops->encode(coder, &ctx, input[(i + 8) % INPUTS], frame, cap, &coded));
        if (i >= 0)
            t[i] = now() - begin;
    }
    const uint8_t *frames[1] = {frame};
    for (int i = -3; i < repeats; i++) {
        const double begin = now();
        must(ops->decode(q, frames, &coded.len, 1, (float *)(void *)room[0], n, false, 1, &finite));
        if (i >= 0)
            d[i] = now() - begin;
    }
    const double touched = time_of_copy((size_t)(what->touched * (double)n)),
                 link = time_of_link(frame, coded.len), step = median(t, repeats),
                 decode = median(d, repeats);
    if (json)
        printf("{\"codec\": \"%s\", \"feedback\": \"%s\", \"elements\": %zu, \"columns\": %zu, "
               "\"bytes\": %zu, "
               "\"touched_ms\": %.4f, \"link_ms\": %.4f, \"step_ms\": %.4f, \"decode_ms\": %.4f}\n",
               what->spec, what->feedback, n, what->cols, coded.len, 1e3 * touched, 1e3 * link,
               1e3 * step, 1e3 * decode);
    else
        printf("%-32s %-9s %7zu %10zu %8.3f %8.3f %8.3f %8.3f %8.2f\n", what->spec, what->feedback,
               what->cols, coded.len, 1e3 * touched, 1e3 * link, 1e3 * step, 1e3 * decode,
               step / touched);
    fflush(stdout);
    ops->unpin(q, frame);
    ops->coder_destroy(coder);
    for (int i = 0; i < TG_CODER_VECTORS; i++)
        ops->release(q, setup.vector[i]);
    ops->queue_destroy(q);
    tg_codec_destroy(codec);
    free(frame);
}

int main(int argc, char **argv)
{
    for (int i = 1, at = 0; i < argc; i++) {
        if (strcmp(argv[i], "--json") == 0)
            json = true;
        else if (strcmp(argv[i], "--only") == 0 && i + 1 < argc)
            only = argv[++i];
        else if (at++ == 0)
            n = (size_t)strtod(argv[i], NULL);
        else
            repeats = atoi(argv[i]);
    }
    if (n < 1 || n > TG_MAX_ELEMENTS || repeats < 1 || repeats > MOST) {
        fprintf(stderr, "usage: bench_coders [ELEMENTS [REPEATS]] [--json] [--only SPEC]\n");
        return 2;
    }
    if (tg_cuda_attach() != TG_OK) {
        fprintf(stderr, "bench_coders: %s\n", tg_error());
        return 77;
    }
    draw();
    for (int i = 0; i < 2; i++)
        cuda(cudaMalloc((void **)&room[i], 20 * n));
    if (!json)
        printf("%zu elements, ms\n%-32s %-9s %7s %10s %8s %8s %8s %8s %8s\n", n, "codec",
               "feedback", "columns", "bytes", "touched", "link", "step", "decode", "step/t.");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (only == NULL || strncmp(rows[i].spec, only, strlen(only)) == 0)
            measure(tg__device(), &rows[i]);
    return 0;
}
