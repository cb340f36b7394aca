#include "kernel/parallel.h"
#include "base/mem.h"
#include <math.h>
#include <stdatomic.h>
#include <string.h>

/* The arguments of one call; each kernel uses those it needs. */
typedef struct job {
    float *dst, *u;
    const float *src;
    float a;
    bool nesterov;
    tg__stats *stats;    /* one per chunk */
    size_t base;         /* index of the first element */
    atomic_bool *spoilt; /* [out] some element is not finite */
} job;

enum { PIECE = 4096 }; /* elements that stay cached between two reads */

#define RUN(pool, n, fn, ...) tg__pool_chunks(pool, n, TG__CHUNK, fn, &(job){__VA_ARGS__})

static void add(void *arg, size_t lo, size_t hi)
{
    const job *j = arg;
    tg__kernel()->add(j->dst + lo, j->src + lo, hi - lo);
}

void tg__parallel_add(tg__pool *pool, float *dst, const float *src, size_t n)
{
    RUN(pool, n, add, .dst = dst, .src = src);
}

static void look(const job *j, const float *x, size_t n)
{
    if (!tg__kernel()->all_finite(x, n))
        atomic_store(j->spoilt, true);
}

static void look_range(void *arg, size_t lo, size_t hi)
{
    const job *j = arg;
    look(j, j->src + lo, hi - lo);
}

bool tg__parallel_finite(tg__pool *pool, const float *x, size_t n)
{
    atomic_bool spoilt = false;
    RUN(pool, n, look_range, .src = x, .spoilt = &spoilt);
    return !spoilt;
}

static void add_finite(void *arg, size_t lo, size_t hi)
{
    const job *j = arg;
    for (size_t at = lo; at < hi; at += PIECE) {
        const size_t n = TG__MIN(hi - at, (size_t)PIECE);
        tg__kernel()->add(j->dst + at, j->src + at, n);
        look(j, j->dst + at, n);
    }
}

bool tg__parallel_add_finite(tg__pool *pool, float *dst, const float *src, size_t n)
{
    atomic_bool spoilt = false;
    RUN(pool, n, add_finite, .dst = dst, .src = src, .spoilt = &spoilt);
    return !spoilt;
}

static void scale_add_finite(void *arg, size_t lo, size_t hi)
{
    const job *j = arg;
    for (size_t at = lo; at < hi; at += PIECE) {
        const size_t n = TG__MIN(hi - at, (size_t)PIECE);
        tg__kernel()->scale(j->dst + at, j->a, n);
        tg__kernel()->add(j->dst + at, j->src + at, n);
        look(j, j->dst + at, n);
    }
}

bool tg__parallel_scale_add_finite(tg__pool *pool, float *dst, float a, const float *src, size_t n)
{
    atomic_bool spoilt = false;
    RUN(pool, n, scale_add_finite, .dst = dst, .src = src, .a = a, .spoilt = &spoilt);
    return !spoilt;
}

static void filter_finite(void *arg, size_t lo, size_t hi)
{
    const job *j = arg;
    const tg__kernels *k = tg__kernel();
    for (size_t at = lo; at < hi; at += PIECE) {
        const size_t n = TG__MIN(hi - at, (size_t)PIECE);
        memcpy(j->dst + at, j->u + at, n * sizeof *j->dst);
        k->add(j->dst + at, j->src + at, n);
        look(j, j->dst + at, n);
        k->axpy(j->u + at, j->a, j->src + at, n);
    }
}

bool tg__parallel_filter_finite(tg__pool *pool, float *p, float *r, float beta, const float *g,
                                size_t n)
{
    atomic_bool spoilt = false;
    RUN(pool, n, filter_finite, .dst = p, .u = r, .src = g, .a = beta, .spoilt = &spoilt);
    return !spoilt;
}

static void sub(void *arg, size_t lo, size_t hi)
{
    const job *j = arg;
    tg__kernel()->sub(j->dst + lo, j->src + lo, hi - lo);
}

void tg__parallel_sub(tg__pool *pool, float *dst, const float *src, size_t n)
{
    RUN(pool, n, sub, .dst = dst, .src = src);
}

static void copy(void *arg, size_t lo, size_t hi)
{
    const job *j = arg;
    memcpy(j->dst + lo, j->src + lo, (hi - lo) * sizeof *j->dst);
}

void tg__parallel_copy(tg__pool *pool, float *dst, const float *src, size_t n)
{
    RUN(pool, n, copy, .dst = dst, .src = src);
}

static void copy_finite(void *arg, size_t lo, size_t hi)
{
    const job *j = arg;
    for (size_t at = lo; at < hi; at += PIECE) {
        const size_t n = TG__MIN(hi - at, (size_t)PIECE);
        if (j->dst != j->src)
            memcpy(j->dst + at, j->src + at, n * sizeof *j->dst);
        look(j, j->dst + at, n);
    }
}

bool tg__parallel_copy_finite(tg__pool *pool, float *dst, const float *src, size_t n)
{
    atomic_bool spoilt = false;
    RUN(pool, n, copy_finite, .dst = dst, .src = src, .spoilt = &spoilt);
    return !spoilt;
}

static void chunk_stats(void *arg, size_t lo, size_t hi)
{
    const job *j = arg;
    for (size_t at = lo; at < hi; at += TG__CHUNK)
        tg__kernel()->copy_stats(j->dst == NULL ? NULL : j->dst + j->base + at,
                                 j->src + j->base + at, TG__MIN(hi - at, (size_t)TG__CHUNK),
                                 &j->stats[at / TG__CHUNK]);
}

/* Sums of chunks are independent, so they can be added here, in order. */
void tg__parallel_copy_stats(tg__pool *pool, float *dst, const float *src, size_t n,
                             tg__stats *stats)
{
    enum { CHUNKS = 128 };
    tg__stats chunk[CHUNKS], sum = {.finite = true};
    if (pool == NULL) {
        tg__kernel()->copy_stats(dst, src, n, stats);
        return;
    }
    for (size_t base = 0; base < n; base += CHUNKS * (size_t)TG__CHUNK) {
        size_t m = TG__MIN(n - base, CHUNKS * (size_t)TG__CHUNK);
        RUN(pool, m, chunk_stats, .dst = dst, .src = src, .base = base, .stats = chunk);
        for (size_t c = 0; c * TG__CHUNK < m; c++) {
            sum.sum_sq += chunk[c].sum_sq;
            sum.sum_abs += chunk[c].sum_abs;
            sum.finite = sum.finite && chunk[c].finite;
        }
    }
    *stats = sum;
}

/* A NaN threshold selects nothing. */
static void dgc(void *arg, size_t lo, size_t hi)
{
    const job *j = arg;
    uint32_t idx[TG__SELECT_SLACK];
    float val[TG__SELECT_SLACK];
    for (size_t at = lo; at < hi; at += PIECE) {
        const size_t n = TG__MIN(hi - at, (size_t)PIECE);
        tg__kernel()->dgc_select(j->u + at, j->dst + at, j->src + at, n, j->a, j->nesterov, NAN,
                                 idx, val, 0);
        look(j, j->dst + at, n);
    }
}

bool tg__parallel_dgc(tg__pool *pool, float *u, float *v, const float *g, size_t n, float m,
                      bool nesterov)
{
    atomic_bool spoilt = false;
    RUN(pool, n, dgc, .u = u, .dst = v, .src = g, .a = m, .nesterov = nesterov, .spoilt = &spoilt);
    return !spoilt;
}
