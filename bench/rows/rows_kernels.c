/* The kernels: loops over elements, one by one. */
#include "base/mem.h"
#include "bench/rows/bench_impl.h"
#include <stdlib.h>
#include <string.h>

typedef struct vectors {
    bench *b;
    void (*run)(const tg__kernels *k, struct vectors *v);
    float *out, *r, *u;   /* (n) */
    float *minus;         /* (n) -g */
    uint16_t *half;       /* (n) */
    uint8_t *bytes;       /* 2-bit planes of g */
    uint32_t *idx, *hist; /* idx (cap) of g; hist (2048) */
    float *val;           /* (cap) */
    size_t n, cap;
    float threshold, tau;
    unsigned turn;
    volatile double sink;
} vectors;

typedef void call(const tg__kernels *k, vectors *v);

/* The gradient and its negative in turn, so that the vector they are added to stays bounded. */
static const float *next(vectors *v)
{
    return v->turn++ % 2 == 0 ? v->b->g[0] : v->minus;
}

#define KERNEL(name, ...)                                   \
    static void do_##name(const tg__kernels *k, vectors *v) \
    {                                                       \
        const float *g = v->b->g[0];                        \
        (void)g;                                            \
        __VA_ARGS__;                                        \
    }

KERNEL(add, k->add(v->out, g, v->n))
KERNEL(axpy, k->axpy(v->out, 1e-3f, g, v->n))
KERNEL(scale, k->scale(v->out, 1.0f, v->n))
KERNEL(abs_max, v->sink = k->abs_max(g, v->n))
KERNEL(all_finite, v->sink = k->all_finite(g, v->n))
KERNEL(copy_stats, tg__stats s; k->copy_stats(v->out, g, v->n, &s); v->sink = s.sum_sq)
KERNEL(look_stats, tg__stats s; k->copy_stats(NULL, g, v->n, &s); v->sink = s.sum_sq)
KERNEL(moments, tg__moments s; k->moments(g, v->n, g[0], &s); v->sink = s.sum_sq)
KERNEL(histogram, k->histogram(g, v->n, v->hist))
KERNEL(select, v->sink = (double)k->select(g, v->n, v->threshold, v->idx, v->val, v->cap))
KERNEL(add_select, v->sink = (double)k->add_select(v->r, next(v), v->n, 2, v->threshold, v->idx,
                                                   v->val, v->cap))
KERNEL(dgc_select, v->sink = (double)k->dgc_select(v->u, v->r, next(v), v->n, 0.9f, false, 2,
                                                   v->threshold, v->idx, v->val, v->cap))
KERNEL(dgc_sum_abs, v->sink = k->dgc_sum_abs(v->u, v->r, next(v), v->n, 0.9f, false))
KERNEL(scatter_add, k->scatter_add(v->out, v->idx, v->val, v->cap / 10))
KERNEL(twobit_encode, k->twobit_encode(g, v->n, v->tau, v->bytes))
KERNEL(twobit_add_encode, k->twobit_add_encode(v->r, next(v), v->n, 1, v->tau, v->bytes))
KERNEL(twobit_decode_add, k->twobit_decode_add(v->out, v->bytes, v->n, v->tau))
KERNEL(twobit_decode, k->twobit_decode(v->out, v->bytes, v->n, v->tau))
KERNEL(twobit_valid, v->sink = k->twobit_valid(v->bytes, v->n))
KERNEL(f16_encode, k->f16_encode(v->half, g, v->n))
KERNEL(f16_decode, k->f16_decode(v->out, v->half, v->n))
KERNEL(f16_decode_add, k->f16_decode_add(v->out, v->half, v->n))
KERNEL(bf16_encode, k->bf16_encode(v->half, g, v->n))
KERNEL(bf16_decode, k->bf16_decode(v->out, v->half, v->n))
KERNEL(bf16_decode_add, k->bf16_decode_add(v->out, v->half, v->n))
KERNEL(sgd, k->sgd(v->out, g, v->n, 1e-3f, 1e-4f))
KERNEL(sgd_momentum, k->sgd_momentum(v->out, v->u, g, v->n, 1e-3f, 0.9f, 1e-4f, false))
KERNEL(adam, static const tg__adam a = {1, 0, 0.9f, 0.1f, 0.999f, 0.001f, 1e-3f, 1, 1e-8f};
       k->adam(v->out, v->u, v->r, g, v->n, &a))
KERNEL(lars, k->lars(v->out, v->u, g, v->n, 1e-3f, 0.9f, 1e-4f))
KERNEL(crc32c, v->sink = k->crc32c(0, g, v->n * sizeof *g))

/* `bytes`: what the kernel must touch per element. */
#define ROW(name, bytes)         \
    {                            \
#name, do_##name, bytes, \
    }
static const struct {
    const char *name;
    call *run;
    double bytes;
} rows[] = {
    ROW(add, 12),
    ROW(axpy, 12),
    ROW(scale, 8),
    ROW(abs_max, 4),
    ROW(all_finite, 4),
    ROW(copy_stats, 8),
    ROW(look_stats, 4),
    ROW(moments, 4),
    ROW(histogram, 4),
    ROW(select, 4),
    ROW(add_select, 12),
    ROW(dgc_select, 20),
    ROW(dgc_sum_abs, 20),
    ROW(scatter_add, 0.128),
    ROW(twobit_encode, 4.25),
    ROW(twobit_add_encode, 12.25),
    ROW(twobit_decode_add, 8.25),
    ROW(twobit_decode, 4.25),
    ROW(twobit_valid, 0.25),
    ROW(f16_encode, 6),
    ROW(f16_decode, 6),
    ROW(f16_decode_add, 10),
    ROW(bf16_encode, 6),
    ROW(bf16_decode, 6),
    ROW(bf16_decode_add, 10),
    ROW(sgd, 12),
    ROW(sgd_momentum, 20),
    ROW(adam, 28),
    ROW(lars, 20),
    ROW(crc32c, 4),
};

static tg_status vectors_open(vectors *v, bench *b)
{
    *v = (vectors){.b = b, .n = b->n, .cap = b->n / 100 + 1};
    const size_t room = v->cap + TG__SELECT_SLACK;
    TG_TRY(tg_alloc(v->n, sizeof(float), &v->out));
    TG_TRY(tg_alloc(v->n, sizeof(float), &v->r));
    TG_TRY(tg_alloc(v->n, sizeof(float), &v->u));
    TG_TRY(tg_alloc(v->n, sizeof(float), &v->minus));
    TG_TRY(tg_alloc(v->n, sizeof *v->half, &v->half));
    TG_TRY(tg_alloc(tg__twobit_bytes(v->n), 1, &v->bytes));
    TG_TRY(tg_alloc(room, sizeof *v->idx, &v->idx));
    TG_TRY(tg_alloc(room, sizeof *v->val, &v->val));
    TG_TRY(tg_alloc(2048, sizeof *v->hist, &v->hist));
    v->threshold = bench_threshold(b, b->g[0], 0.001);
    v->tau = bench_threshold(b, b->g[0], 0.05);
    const tg__kernels *k = tg__kernel();
    k->sub(v->minus, b->g[0], v->n);
    k->add(v->r, b->g[0], v->n); /* the state after an earlier step */
    k->f16_encode(v->half, b->g[0], v->n);
    k->twobit_encode(b->g[0], v->n, v->tau, v->bytes);
    (void)k->select(b->g[0], v->n, v->threshold, v->idx, v->val, v->cap);
    return TG_OK;
}

static void vectors_close(vectors *v)
{
    void *all[] = {v->out, v->r, v->u, v->minus, v->half, v->bytes, v->idx, v->val, v->hist};
    for (size_t i = 0; i < TG_COUNT(all); i++)
        free(all[i]);
}

static tg_status run(void *arg, int64_t *ns_p)
{
    vectors *v = arg;
    int64_t begin = bench_now(v->b);
    v->run(tg__kernel(), v);
    *ns_p += bench_now(v->b) - begin;
    return TG_OK;
}

static tg_status measure_all(bench *b, vectors *v)
{
    for (size_t i = 0; i < TG_COUNT(rows); i++) {
        if (!bench_wanted(b, "kernel", rows[i].name))
            continue;
        bench_row row = bench_row_of(b, "kernel", rows[i].name);
        v->run = rows[i].run;
        tg_status status = bench_measure(b, run, v, &row);
        bench_row_bytes(&row, rows[i].bytes * (double)b->n);
        TG_TRY(bench_report(b, &row, status));
    }
    return TG_OK;
}

bool bench_any_kernel(const char *filter)
{
    size_t i = 0;
    while (i < TG_COUNT(rows) && !bench_matches(filter, "kernel", rows[i].name))
        i++;
    return i < TG_COUNT(rows);
}

tg_status bench_kernels(bench *b)
{
    vectors v;
    if (!bench_any_kernel(b->o->filter))
        return TG_OK;
    tg_status status = vectors_open(&v, b);
    if (status == TG_OK)
        status = measure_all(b, &v);
    vectors_close(&v);
    return status;
}
