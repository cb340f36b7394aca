/* Codecs against memory: every pass as a ratio to axpy (r += g, 12 bytes an element) and to memcpy
 * of the same vector, measured in turn in the same run. One thread; pin it (taskset -c 0).
 *
 *     bench_codecs [--json] [--n ELEMENTS] [--runs RUNS]      without --n: 1000000 and 25600000 */
#include "base/mem.h"
#include "codec/codec_impl.h"
#include "kernel/kernel.h"
#include "method/method.h"
#include "wire/index.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_RUNS = 101, WARM_UP = 5 };

/* What the works share. */
typedef struct bench {
    size_t n, k;
    float *g[2], *r, *u, *v, *out; /* (n): two gradients taken in turn */
    uint8_t *frame, *sparse, *code;
    size_t sparse_len, code_len;
    uint32_t *idx, *idx_out;
    int code_param;
    tg_codec *topk, *residual_topk, *dgc_topk, *twobit, *fp16; /* a handle has one vector's hint */
    tg__feedback residual, velocity, twobit_residual;
    tg__part part;
    tg_encode_context ctx;
    unsigned turn;
} bench;

static void die(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, tg_error());
    exit(1);
}

#define MUST(expr)           \
    do {                     \
        if ((expr) != TG_OK) \
            die(#expr);      \
    } while (0)

/* ---- the works ------------------------------------------------------------------------------- */

static const float *gradient(bench *b)
{
    return b->g[b->turn++ % 2];
}

static void run_axpy(bench *b)
{
    tg__kernel()->add(b->out, gradient(b), b->n);
}

static void run_memcpy(bench *b)
{
    memcpy(b->out, gradient(b), b->n * sizeof(float));
}

static void run_topk(bench *b)
{
    MUST(tg__codec_encode(b->topk, &b->ctx, gradient(b), b->n, &b->part, 1, NULL));
}

static void fused(bench *b, tg__feedback *f, tg_codec *c)
{
    MUST(tg__fused_find(f, c)(f, c, &b->ctx, gradient(b), b->n, &b->part, 1));
}

static void run_fused_topk(bench *b)
{
    fused(b, &b->residual, b->residual_topk);
}

static void run_fused_dgc(bench *b)
{
    fused(b, &b->velocity, b->dgc_topk);
}

static void run_fused_twobit(bench *b)
{
    fused(b, &b->twobit_residual, b->twobit);
}

static void run_fp16(bench *b)
{
    MUST(tg__codec_encode(b->fp16, &b->ctx, gradient(b), b->n, &b->part, 1, NULL));
}

static void run_decode_add(bench *b)
{
    MUST(tg__frame_check(b->sparse, b->sparse_len, b->n, -1));
    tg__frame_decode_add(b->sparse, b->sparse_len, b->out, NULL);
}

static void run_rice_encode(bench *b)
{
    int coding;
    MUST(tg__index_encode(TG__INDEX_RICE, b->idx, b->k, b->n, b->code, 8 * b->k, &coding,
                          &b->code_param, &b->code_len));
}

static void run_rice_decode(bench *b)
{
    tg__index_reader r;
    size_t count, done = 0;
    MUST(tg__index_read_begin(&r, TG__INDEX_RICE, b->code_param, b->n, b->k, b->code, b->code_len));
    do {
        MUST(tg__index_read(&r, b->idx_out, 512, &count));
        done += count;
    } while (count > 0);
    if (done != b->k)
        die("rice decode");
}

typedef struct work {
    const char *name;
    void (*run)(bench *b);
    bool per_index; /* ns per index instead of ratios */
} work;

enum { AXPY, MEMCPY };
static const work works[] = {
    {"axpy", run_axpy, false},
    {"memcpy", run_memcpy, false},
    {"exact top-k, encode", run_topk, false},
    {"residual + top-k + encode", run_fused_topk, false},
    {"DGC + top-k + encode", run_fused_dgc, false},
    {"residual + 2bit", run_fused_twobit, false},
    {"fp16 encode", run_fp16, false},
    {"check + decode_add (sparse)", run_decode_add, true},
    {"Rice encode", run_rice_encode, true},
    {"Rice decode", run_rice_decode, true},
};

/* ---- measuring ------------------------------------------------------------------------------- */

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

typedef struct result {
    double median, min, max; /* ns */
} result;

static result summary(double *ns, size_t runs)
{
    qsort(ns, runs, sizeof(*ns), by_value);
    return (result){ns[runs / 2], ns[0], ns[runs - 1]};
}

/* All works in turn, run after run, so that a disturbance hits all alike. */
static void measure(bench *b, size_t runs, result *results)
{
    static double ns[TG__COUNT(works)][MAX_RUNS];
    const tg_clock *clock = tg_clock_monotonic();
    for (size_t i = 0; i < runs + WARM_UP; i++) {
        for (size_t w = 0; w < TG__COUNT(works); w++) {
            works[w].run(b); /* warm: caches and pages are the work's own */
            int64_t begin = tg_now_ns(clock);
            works[w].run(b);
            int64_t end = tg_now_ns(clock);
            if (i >= WARM_UP) /* hints have settled, residuals are no longer new */
                ns[w][i - WARM_UP] = (double)(end - begin);
        }
    }
    for (size_t w = 0; w < TG__COUNT(works); w++)
        results[w] = summary(ns[w], runs);
}

/* log2 of n choose k, in bytes */
static double entropy_bytes(double n, double k)
{
    return (lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1)) / log(2) / 8;
}

static void fill(float *x, size_t n, uint64_t seed)
{
    tg_rng_key key = {.seed = seed, .purpose = TG_PURPOSE_TEST};
    for (size_t i = 0; i < n; i += 4) {
        uint32_t r[4];
        tg_rng_block(&key, i, r);
        for (size_t j = 0; j < 4 && i + j < n; j++) /* Laplace: heavy tails */
            x[i + j] = (r[j] & 1 ? 0.01f : -0.01f) * logf(((float)(r[j] >> 9) + 0.5f) * 0x1p-23f);
    }
}

static void feedback(tg__feedback *f, const char *name, float *u, float *v)
{
    f->ops = tg__feedback_find(name);
    f->params = (tg__feedback_params){.momentum = 0.9, .masking = true, .world = 1};
    f->vec[0] = u;
    f->vec[1] = v;
}

static void setup(bench *b, size_t n)
{
    memset(b, 0, sizeof(*b));
    b->n = n;
    float **vectors[] = {&b->g[0], &b->g[1], &b->r, &b->u, &b->v, &b->out};
    for (size_t i = 0; i < TG__COUNT(vectors); i++)
        MUST(tg__alloc(n, sizeof(float), vectors[i]));
    fill(b->g[0], n, 1);
    fill(b->g[1], n, 2);
    tg_codec **sparsifiers[] = {&b->topk, &b->residual_topk, &b->dgc_topk};
    for (size_t i = 0; i < TG__COUNT(sparsifiers); i++)
        MUST(tg_codec_create("topk:density=0.001", sparsifiers[i]));
    MUST(tg_codec_create("2bit:threshold=0.05", &b->twobit));
    MUST(tg_codec_create("fp16", &b->fp16));
    MUST(tg__alloc(12 + 4 * n, 1, &b->frame));
    b->part = (tg__part){.dst = b->frame, .cap = 12 + 4 * n, .lo = 0, .hi = n};
    b->ctx = (tg_encode_context){.struct_size = sizeof(b->ctx)};
    feedback(&b->residual, "residual", b->r, NULL);
    feedback(&b->velocity, "velocity", b->u, b->v);
    MUST(tg__alloc(n, sizeof(float), &b->twobit_residual.vec[0]));
    feedback(&b->twobit_residual, "residual", b->twobit_residual.vec[0], NULL);
    tg__view view;
    MUST(tg__codec_encode(b->topk, &b->ctx, b->g[0], n, &b->part, 1, &view));
    b->k = view.k;
    b->sparse_len = b->part.len;
    MUST(tg__alloc(b->sparse_len, 1, &b->sparse));
    memcpy(b->sparse, b->frame, b->sparse_len);
    MUST(tg__alloc(b->k, sizeof(*b->idx), &b->idx));
    memcpy(b->idx, view.idx, b->k * sizeof(*b->idx));
    MUST(tg__alloc(512, sizeof(*b->idx_out), &b->idx_out));
    MUST(tg__alloc(b->k, 8, &b->code));
}

static void clean(bench *b)
{
    float *vectors[] = {b->g[0], b->g[1], b->r, b->u, b->v, b->out, b->twobit_residual.vec[0]};
    for (size_t i = 0; i < TG__COUNT(vectors); i++)
        free(vectors[i]);
    free(b->frame);
    free(b->sparse);
    free(b->code);
    free(b->idx);
    free(b->idx_out);
    tg_codec_destroy(b->topk);
    tg_codec_destroy(b->residual_topk);
    tg_codec_destroy(b->dgc_topk);
    tg_codec_destroy(b->twobit);
    tg_codec_destroy(b->fp16);
}

/* ---- report ---------------------------------------------------------------------------------- */

static void report(const bench *b, const result *results, size_t runs, bool json, bool first)
{
    double over = (double)b->code_len / entropy_bytes((double)b->n, (double)b->k);
    double ratio = 4.0 * (double)b->n / (double)b->sparse_len;
    if (json)
        printf("%s{\"n\":%zu,\"k\":%zu,\"runs\":%zu,\"level\":\"%s\",\"rice_over_entropy\":%.4f,"
               "\"frame_ratio\":%.1f,\"works\":[",
               first ? "" : ",\n", b->n, b->k, runs, tg_cpu_level(), over, ratio);
    else
        printf("n = %zu, k = %zu, %zu runs, %s\n"
               "%-30s %12s %12s %12s %8s %8s %9s\n",
               b->n, b->k, runs, tg_cpu_level(), "work", "median us", "min us", "max us", "/ axpy",
               "/ memcpy", "ns/index");
    for (size_t w = 0; w < TG__COUNT(works); w++) {
        const result *r = &results[w];
        double axpy = r->median / results[AXPY].median, copy = r->median / results[MEMCPY].median;
        double each = r->median / (double)b->k;
        if (json)
            printf("%s{\"name\":\"%s\",\"median_ns\":%.0f,\"min_ns\":%.0f,\"max_ns\":%.0f,"
                   "\"per_axpy\":%.4f,\"per_memcpy\":%.4f,\"ns_per_index\":%.3f}",
                   w ? "," : "", works[w].name, r->median, r->min, r->max, axpy, copy, each);
        else if (works[w].per_index)
            printf("%-30s %12.1f %12.1f %12.1f %8s %8s %9.2f\n", works[w].name, r->median / 1e3,
                   r->min / 1e3, r->max / 1e3, "", "", each);
        else
            printf("%-30s %12.1f %12.1f %12.1f %8.2f %8.2f\n", works[w].name, r->median / 1e3,
                   r->min / 1e3, r->max / 1e3, axpy, copy);
    }
    if (json)
        printf("]}");
    else
        printf("Rice: %zu bytes, %.4f of the entropy; top-k frame %zu bytes, ratio %.0f\n\n",
               b->code_len, over, b->sparse_len, ratio);
}

int main(int argc, char **argv)
{
    size_t ns[] = {1000000, 25600000}, count = TG__COUNT(ns), runs = 15;
    bool json = false;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--json") == 0) {
            json = true;
        } else if (strcmp(argv[i], "--n") == 0 && i + 1 < argc) {
            ns[0] = (size_t)strtoull(argv[++i], NULL, 10);
            count = 1;
        } else if (strcmp(argv[i], "--runs") == 0 && i + 1 < argc) {
            runs = (size_t)strtoull(argv[++i], NULL, 10);
        } else {
            fprintf(stderr, "usage: %s [--json] [--n ELEMENTS] [--runs RUNS]\n", argv[0]);
            return 2;
        }
    }
    if (runs < 1 || runs > MAX_RUNS || ns[0] < 1000 || ns[0] > TG_MAX_ELEMENTS) {
        fprintf(stderr, "runs: 1..%d; elements: 1000..%zu\n", MAX_RUNS, TG_MAX_ELEMENTS);
        return 2;
    }
    MUST(tg__kernel_check());
    if (json)
        printf("[");
    for (size_t i = 0; i < count; i++) {
        bench b;
        result results[TG__COUNT(works)];
        setup(&b, ns[i]);
        measure(&b, runs, results);
        report(&b, results, runs, json, i == 0);
        clean(&b);
    }
    if (json)
        printf("]\n");
    return 0;
}
