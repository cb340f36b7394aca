/* Codecs of one bit an element against axpy (r += g, 12 bytes an element) of the same vector:
 * encoding with a residual, packing, decoding, the majority vote. CPU time of one thread, least of
 * the runs; 25.6 million elements as one matrix and in the shapes of ResNet-50.
 *
 *     bench_signs [--json] [RUNS]        TG_CPU=avx2 for another level */
#include "base/mem.h"
#include "codec/codec_impl.h"
#include "kernel/kernel.h"
#include "method/method.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { N = 25600000, VOTERS = 64 };

#define MUST(expr)                                          \
    do {                                                    \
        if ((expr) != TG_OK) {                              \
            fprintf(stderr, "%s: %s\n", #expr, tg_error()); \
            exit(1);                                        \
        }                                                   \
    } while (0)

static double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

/* Rows, columns, how many: the convolutions and the last layer; what is left is a vector. */
static const size_t resnet[][3] = {
    {64, 147, 1},   {64, 64, 1},     {64, 576, 3},   {64, 256, 2},   {256, 64, 4},   {128, 256, 1},
    {128, 512, 3},  {128, 1152, 4},  {512, 128, 4},  {512, 256, 1},  {256, 512, 1},  {256, 1024, 5},
    {256, 2304, 6}, {1024, 256, 6},  {1024, 512, 1}, {512, 1024, 1}, {512, 2048, 2}, {512, 4608, 3},
    {2048, 512, 3}, {2048, 1024, 1}, {1000, 2048, 1}};

static tg_segment matrix[1] = {{0, N, 4096, N / 4096}}, layers[64];
static size_t nlayers;

static void make_layers(void)
{
    size_t at = 0;
    for (size_t i = 0; i < TG__COUNT(resnet); i++)
        for (size_t k = 0; k < resnet[i][2]; k++) {
            size_t n = resnet[i][0] * resnet[i][1];
            layers[nlayers++] = (tg_segment){at, n, resnet[i][0], resnet[i][1]};
            at += n;
        }
    layers[nlayers++] = (tg_segment){at, N - at, N - at, 1};
}

enum kind { AXPY, ENCODE, RESIDUAL, DECODE, VOTE };

static const struct work {
    const char *name;
    enum kind kind;
    const char *codec;
    bool layers;
    size_t voters;
} works[] = {
    {"axpy", AXPY, NULL, false, 0},
    {"residual + 1bit", RESIDUAL, "1bit", false, 0},
    {"residual + 1bit, layers", RESIDUAL, "1bit", true, 0},
    {"residual + sign, row scales", RESIDUAL, "sign:scale=row", false, 0},
    {"residual + sign, layers", RESIDUAL, "sign:scale=row", true, 0},
    {"sign pack", ENCODE, "sign", false, 0},
    {"sign decode and add", DECODE, "sign", false, 0},
    {"1bit decode and add", DECODE, "1bit", false, 0},
    {"1bit decode and add, layers", DECODE, "1bit", true, 0},
    {"vote of 4", VOTE, NULL, false, 4},
    {"vote of 16", VOTE, NULL, false, 16},
    {"vote of 64", VOTE, NULL, false, 64},
};

static float *g[2], *r, *out;
static uint8_t *frame, *ballots;

static double run(const struct work *w, tg_codec *c, unsigned turn)
{
    static const uint8_t *bits[VOTERS];
    tg_encode_context ctx = {.struct_size = sizeof ctx,
                             .segments = w->layers ? layers : matrix,
                             .nsegments = w->layers ? nlayers : 1};
    tg__part part = {.dst = frame, .cap = 12 + 4 * (size_t)N, .lo = 0, .hi = N};
    tg__feedback f = {.ops = tg__feedback_find("residual"), .vec = {r}};
    for (size_t v = 0; v < w->voters; v++)
        bits[v] = ballots + v * (N / 8);
    if (w->kind == DECODE)
        MUST(tg__codec_encode(c, &ctx, g[0], N, &part, 1, NULL));
    double begin = now_ns();
    if (w->kind == AXPY)
        tg__kernel()->add(out, g[turn % 2], N);
    else if (w->kind == ENCODE)
        MUST(tg__codec_encode(c, &ctx, g[turn % 2], N, &part, 1, NULL));
    else if (w->kind == RESIDUAL)
        MUST(tg__fused_find(&f, c)(&f, c, &ctx, g[turn % 2], N, &part, 1));
    else if (w->kind == DECODE)
        tg__frame_decode_add(frame, part.len, out, NULL);
    else
        tg__kernel()->vote(out, bits, w->voters, 0, N);
    return now_ns() - begin;
}

static void setup(void)
{
    MUST(tg__alloc(N, sizeof(float), &g[0]));
    MUST(tg__alloc(N, sizeof(float), &g[1]));
    MUST(tg__alloc(N, sizeof(float), &r));
    MUST(tg__alloc(N, sizeof(float), &out));
    MUST(tg__alloc(12 + 4 * (size_t)N, 1, &frame));
    MUST(tg__alloc((size_t)VOTERS * (N / 8), 1, &ballots));
    uint64_t s = 88172645463325252u;
    for (size_t i = 0; i < N; i++) {
        s ^= s << 13;
        s ^= s >> 7;
        s ^= s << 17;
        g[0][i] = (float)(int32_t)(s >> 16) * 0x1p-38f;
        g[1][i] = -0.7f * g[0][i];
    }
    for (size_t i = 0; i < (size_t)VOTERS * (N / 8); i++)
        ballots[i] = (uint8_t)((i * UINT64_C(2654435761)) >> 13);
    make_layers();
}

int main(int argc, char **argv)
{
    bool json = argc > 1 && strcmp(argv[1], "--json") == 0;
    int runs = argc > 1 + json ? atoi(argv[1 + json]) : 9;
    double best[TG__COUNT(works)], axpy = 0;
    tg_codec *codec[TG__COUNT(works)] = {NULL};
    MUST(tg__kernel_check());
    setup();
    for (size_t w = 0; w < TG__COUNT(works); w++)
        if (works[w].codec)
            MUST(tg_codec_create(works[w].codec, &codec[w]));
    for (int i = 0; i <= runs; i++)
        for (size_t w = 0; w < TG__COUNT(works); w++) {
            (void)run(&works[w], codec[w], 2 * (unsigned)i); /* warm */
            double ns = run(&works[w], codec[w], 2 * (unsigned)i + 1);
            best[w] = i == 0 || ns < best[w] ? ns : best[w];
        }
    axpy = best[AXPY];
    for (size_t w = 0; w < TG__COUNT(works); w++) {
        if (json)
            printf("{\"work\":\"%s\",\"level\":\"%s\",\"ns_per_element\":%.4f,\"per_axpy\":%.3f}\n",
                   works[w].name, tg_cpu_level(), best[w] / N, best[w] / axpy);
        else
            printf("%-30s %8.3f ns/element %6.2f axpy\n", works[w].name, best[w] / N,
                   best[w] / axpy);
        tg_codec_destroy(codec[w]);
    }
    return 0;
}
