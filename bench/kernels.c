/* How fast the kernels are, against two yardsticks measured in the same rounds: axpy (`r += g`, a
 * plain loop, 12 bytes an element) and memcpy of the same n floats.
 *
 * usage: bench_kernels [--quick] [--json] [--runs N] [--only NAME] [--level LEVEL]
 *   --quick  n = 1M only (default: 25.6M, 1M, 100k)
 *   --json   one JSON object a line instead of the table
 * A run of small vectors repeats the call until about 2 ms have passed; times are per call.
 * Gradients are normal numbers times a scale that is heavy-tailed over blocks, as the layers of a
 * network have it. */
#include "base/mem.h"
#include "kernel/kernel.h"
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_RUNS = 101 };

typedef struct bench {
    size_t n;
    float *g[2], *r, *u, *out; /* gradient and its negative, residual, velocity, destination */
    bool turn;
    uint16_t *half;
    uint8_t *bytes;
    uint32_t *idx, *hist;
    float *val;
    size_t cap;
    float threshold, residual_threshold, tau;
    volatile double sink;
} bench;

typedef void call(const tg__kernels *k, bench *b);

/* ---- data ------------------------------------------------------------------------------------ */

static void fill(bench *b)
{
    const tg_rng_key key = {.seed = 1, .purpose = TG_PURPOSE_TEST};
    enum { BLOCK = 4096, POOL = 1 << 16 };
    static float pool[POOL];
    for (uint64_t i = 0; i < POOL; i++)
        pool[i] = (float)tg_rng_normal(&key, i);
    for (size_t begin = 0, block = 0; begin < b->n; begin += BLOCK, block++) {
        float scale = 1e-3f * (float)exp(1.5 * tg_rng_normal(&key, POOL + block));
        for (size_t i = begin; i < TG__MIN(b->n, begin + BLOCK); i++) {
            b->g[0][i] = scale * pool[(i * 31 + block * 977) % POOL];
            b->g[1][i] = -b->g[0][i];
            b->r[i] = 3 * scale * pool[(i * 17 + block * 1409 + 5) % POOL];
            b->u[i] = scale * pool[(i * 13 + block * 353 + 9) % POOL];
        }
    }
}

/* The gradient and its negative by turns, so that what they are added to stays as it is. */
static const float *next_gradient(bench *b)
{
    b->turn = !b->turn;
    return b->g[b->turn];
}

static int descending(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x < y) - (x > y);
}

/* The |x| that the fraction `density` of the elements reaches. */
static float threshold_at(bench *b, const float *x, double density)
{
    size_t stride = b->n > 1000000 ? 29 : 1, m = 0;
    for (size_t i = 0; i < b->n; i += stride)
        b->out[m++] = fabsf(x[i]);
    qsort(b->out, m, sizeof(*b->out), descending);
    return b->out[(size_t)(density * (double)m)];
}

static bool prepare(bench *b, size_t n)
{
    *b = (bench){.n = n, .cap = n / 100 + 1};
    size_t room = b->cap + TG__SELECT_SLACK;
    if (tg__alloc(n, 4, &b->g[0]) || tg__alloc(n, 4, &b->g[1]) || tg__alloc(n, 4, &b->r) ||
        tg__alloc(n, 4, &b->u) || tg__alloc(n, 4, &b->out) || tg__alloc(n, 2, &b->half) ||
        tg__alloc(tg__twobit_bytes(n), 1, &b->bytes) || tg__alloc(room, 4, &b->idx) ||
        tg__alloc(room, 4, &b->val) || tg__alloc(2048, 4, &b->hist)) {
        fprintf(stderr, "%s\n", tg_error());
        return false;
    }
    fill(b);
    b->threshold = threshold_at(b, b->g[0], 0.001);
    b->residual_threshold = threshold_at(b, b->r, 0.001);
    b->tau = threshold_at(b, b->r, 0.05);
    const tg__kernels *ref = tg__kernel_level("ref");
    ref->f16_encode(b->half, b->g[0], n);
    ref->twobit_encode(b->g[0], n, b->tau, b->bytes);
    (void)ref->select(b->g[0], n, b->threshold, b->idx, b->val, b->cap);
    return true;
}

static void release(bench *b)
{
    void *all[] = {b->g[0], b->g[1],  b->r,   b->u,   b->out,
                   b->half, b->bytes, b->idx, b->val, b->hist};
    for (size_t i = 0; i < TG__COUNT(all); i++)
        free(all[i]);
}

/* ---- what is measured ------------------------------------------------------------------------ */

static void yard_axpy(const tg__kernels *k, bench *b)
{
    (void)k;
    float *restrict r = b->out;
    const float *restrict g = b->g[0];
    for (size_t i = 0; i < b->n; i++)
        r[i] += g[i];
}

static void yard_memcpy(const tg__kernels *k, bench *b)
{
    (void)k;
    memcpy(b->out, b->g[0], b->n * sizeof(float));
}

#define BENCH(name, ...)                                  \
    static void do_##name(const tg__kernels *k, bench *b) \
    {                                                     \
        __VA_ARGS__;                                      \
    }

BENCH(add, k->add(b->out, b->g[0], b->n))
BENCH(axpy, k->axpy(b->out, 1e-3f, b->g[0], b->n))
BENCH(scale, k->scale(b->out, 1.0f, b->n))
BENCH(abs_max, b->sink = k->abs_max(b->g[0], b->n))
BENCH(copy_stats, tg__stats s; k->copy_stats(b->out, b->g[0], b->n, &s); b->sink = s.sum_sq)
BENCH(look_stats, tg__stats s; k->copy_stats(NULL, b->g[0], b->n, &s); b->sink = s.sum_sq)
BENCH(histogram, k->histogram(b->g[0], b->n, b->hist))
BENCH(select, b->sink = (double)k->select(b->g[0], b->n, b->threshold, b->idx, b->val, b->cap))
BENCH(add_select, b->sink = (double)k->add_select(b->r, next_gradient(b), b->n,
                                                  b->residual_threshold, b->idx, b->val, b->cap))
BENCH(dgc_select, b->sink = (double)k->dgc_select(b->u, b->r, next_gradient(b), b->n, 0.9f, false,
                                                  b->residual_threshold, b->idx, b->val, b->cap))
BENCH(scatter_add, k->scatter_add(b->out, b->idx, b->val, b->cap / 10))
BENCH(twobit_encode, k->twobit_encode(b->g[0], b->n, b->tau, b->bytes))
BENCH(twobit_add_encode, k->twobit_add_encode(b->r, next_gradient(b), b->n, b->tau, b->bytes))
BENCH(twobit_decode_add, k->twobit_decode_add(b->out, b->bytes, b->n, b->tau))
BENCH(twobit_decode, k->twobit_decode(b->out, b->bytes, b->n, b->tau))
BENCH(twobit_valid, b->sink = k->twobit_valid(b->bytes, b->n))
BENCH(f16_encode, k->f16_encode(b->half, b->g[0], b->n))
BENCH(f16_decode, k->f16_decode(b->out, b->half, b->n))
BENCH(f16_decode_add, k->f16_decode_add(b->out, b->half, b->n))
BENCH(bf16_encode, k->bf16_encode(b->half, b->g[0], b->n))
BENCH(bf16_decode, k->bf16_decode(b->out, b->half, b->n))
BENCH(bf16_decode_add, k->bf16_decode_add(b->out, b->half, b->n))
BENCH(sgd, k->sgd(b->out, b->g[0], b->n, 1e-3f, 1e-4f))
BENCH(sgd_momentum, k->sgd_momentum(b->out, b->u, b->g[0], b->n, 1e-3f, 0.9f, 1e-4f, false))
BENCH(crc32c, b->sink = k->crc32c(0, b->g[0], b->n * sizeof(float)))

#define ROW(name, ...)                \
    {                                 \
#name, do_##name, __VA_ARGS__ \
    }

/* Targets as multiples of axpy and memcpy; 0: none. */
static const struct row {
    const char *name;
    call *run;
    double avx2[2], avx512[2];
} rows[] = {
    ROW(add, {0}, {0}),
    ROW(axpy, {0}, {0}),
    ROW(scale, {0}, {0}),
    ROW(abs_max, {0}, {0}),
    ROW(copy_stats, {0}, {0}),
    ROW(look_stats, {0}, {0}),
    ROW(histogram, {0}, {0}),
    ROW(select, {0.55, 0.50}, {0.45, 0.40}),
    ROW(add_select, {0}, {0}),
    ROW(scatter_add, {0}, {0}),
    ROW(dgc_select, {0}, {0}),
    ROW(twobit_encode, {0}, {0}),
    ROW(twobit_add_encode, {1.15, 0.85}, {1.15, 0.85}),
    ROW(twobit_decode_add, {0}, {0}),
    ROW(twobit_decode, {0}, {0}),
    ROW(twobit_valid, {0}, {0}),
    ROW(f16_encode, {0.75, 0.60}, {0.75, 0.60}),
    ROW(f16_decode, {0}, {0}),
    ROW(f16_decode_add, {0}, {0}),
    ROW(bf16_encode, {0.75, 0.60}, {0.75, 0.60}),
    ROW(bf16_decode, {0}, {0}),
    ROW(bf16_decode_add, {0}, {0}),
    ROW(sgd, {0}, {0}),
    ROW(sgd_momentum, {0}, {0}),
    ROW(crc32c, {0}, {0}),
};

/* ---- measuring ------------------------------------------------------------------------------- */

typedef struct times {
    double ms[MAX_RUNS];
    int count;
} times;

static void measure(call *run, const tg__kernels *k, bench *b, int repeats, times *t)
{
    const tg_clock *clock = tg_clock_monotonic();
    int64_t begin = tg_now_ns(clock);
    for (int i = 0; i < repeats; i++) {
        run(k, b);
        __asm__ volatile("" ::: "memory");
    }
    t->ms[t->count++] = (double)(tg_now_ns(clock) - begin) / 1e6 / repeats;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(times *t)
{
    qsort(t->ms, (size_t)t->count, sizeof(*t->ms), ascending);
    return t->ms[t->count / 2];
}

static void report(const char *level, const struct row *row, size_t n, times t[3], bool json)
{
    double ms = median(&t[0]), axpy = ms / median(&t[1]), memcpy_ = ms / median(&t[2]);
    double min = t[0].ms[0], max = t[0].ms[t[0].count - 1];
    if (json) {
        printf("{\"level\": \"%s\", \"kernel\": \"%s\", \"n\": %zu, \"median_ms\": %.6f, "
               "\"min_ms\": %.6f, \"max_ms\": %.6f, \"per_axpy\": %.4f, \"per_memcpy\": %.4f}\n",
               level, row->name, n, ms, min, max, axpy, memcpy_);
        return;
    }
    char target[32] = "";
    const double *goal = strcmp(level, "avx2") == 0 ? row->avx2 : row->avx512;
    if (goal[0] > 0 && strcmp(level, "ref") != 0)
        snprintf(target, sizeof(target), "%.2f / %.2f", goal[0], goal[1]);
    printf("%-7s %-18s %10zu %10.4f %10.4f %10.4f %8.3f %8.3f   %s\n", level, row->name, n, ms, min,
           max, axpy, memcpy_, target);
}

typedef struct options {
    bool quick, json;
    int runs;
    const char *only, *level;
} options;

/* Every run of the kernel has a run of each yardstick beside it. */
static void bench_row(const tg__kernels *k, const struct row *row, bench *b, const options *o)
{
    times t[3] = {{.count = 0}, {.count = 0}, {.count = 0}};
    int repeats = b->n > 4000000 ? 1 : (int)(4000000 / b->n);
    row->run(k, b);
    for (int run = 0; run < o->runs; run++) {
        measure(yard_axpy, k, b, repeats, &t[1]);
        measure(row->run, k, b, repeats, &t[0]);
        measure(yard_memcpy, k, b, repeats, &t[2]);
    }
    report(k->level, row, b->n, t, o->json);
    fflush(stdout);
}

static void bench_size(size_t n, const options *o)
{
    static const char *const levels[] = {"ref", "avx2", "avx512"};
    bench b;
    bool ready = prepare(&b, n);
    for (size_t l = 0; ready && l < TG__COUNT(levels); l++) {
        const tg__kernels *k = tg__kernel_level(levels[l]);
        if (!k || (o->level && strcmp(o->level, levels[l]) != 0))
            continue;
        for (size_t i = 0; i < TG__COUNT(rows); i++)
            if (!o->only || strcmp(o->only, rows[i].name) == 0)
                bench_row(k, &rows[i], &b, o);
    }
    release(&b);
}

static void pin(void)
{
    cpu_set_t set;
    int cpu = sched_getcpu();
    CPU_ZERO(&set);
    CPU_SET(cpu < 0 ? 0 : (unsigned)cpu, &set);
    if (sched_setaffinity(0, sizeof(set), &set) != 0)
        fprintf(stderr, "not pinned to a core\n");
}

int main(int argc, char **argv)
{
    options o = {.runs = 9};
    for (int i = 1; i < argc; i++) {
        bool more = i + 1 < argc;
        if (strcmp(argv[i], "--quick") == 0)
            o.quick = true;
        else if (strcmp(argv[i], "--json") == 0)
            o.json = true;
        else if (strcmp(argv[i], "--runs") == 0 && more)
            o.runs = atoi(argv[++i]);
        else if (strcmp(argv[i], "--only") == 0 && more)
            o.only = argv[++i];
        else if (strcmp(argv[i], "--level") == 0 && more)
            o.level = argv[++i];
        else {
            fprintf(stderr, "usage: %s [--quick] [--json] [--runs N] [--only NAME] [--level L]\n",
                    argv[0]);
            return 2;
        }
    }
    o.runs = TG__MAX(1, TG__MIN(o.runs, (int)MAX_RUNS));
    pin();
    if (!o.json)
        printf("%-7s %-18s %10s %10s %10s %10s %8s %8s   %s\n", "level", "kernel", "n", "median ms",
               "min", "max", "/axpy", "/memcpy", "target");
    if (!o.quick)
        bench_size(25600000, &o);
    bench_size(1000000, &o);
    if (!o.quick)
        bench_size(100000, &o);
    return 0;
}
