#include "kernel/parallel.h"
#include "base/mem.h"
#include <math.h>
#include <stdatomic.h>
#include <string.h>

/* One call: `work` on every range, then, if dst is looked at, a check while it is cached. */
typedef struct job job;
struct job {
    void (*work)(const job *j, size_t at, size_t n); /* NULL: only look */
    float *dst, *u;
    const float *src;
    float a;
    bool nesterov;
    bool looks;         /* whether dst (src if there is none) is finite */
    atomic_bool spoilt; /* [out] it is not */
};

enum { PIECE = 4096 }; /* elements that stay cached between two reads */

static void range(void *arg, size_t lo, size_t hi)
{
    job *j = arg;
    const size_t piece = j->looks ? PIECE : hi - lo;
    for (size_t at = lo; at < hi; at += piece) {
        const size_t n = TG__MIN(hi - at, piece);
        if (j->work)
            j->work(j, at, n);
        if (j->looks && !tg__kernel()->all_finite((j->dst ? j->dst : j->src) + at, n))
            atomic_store(&j->spoilt, true);
    }
}

static bool run(tg__pool *pool, size_t n, job *j)
{
    tg__pool_chunks(pool, n, TG__CHUNK, range, j);
    return !j->spoilt;
}

#define RUN(pool, n, ...) run(pool, n, &(job){__VA_ARGS__})

static void add(const job *j, size_t at, size_t n)
{
    tg__kernel()->add(j->dst + at, j->src + at, n);
}

void tg__parallel_add(tg__pool *pool, float *dst, const float *src, size_t n)
{
    (void)RUN(pool, n, .work = add, .dst = dst, .src = src);
}

bool tg__parallel_add_finite(tg__pool *pool, float *dst, const float *src, size_t n)
{
    return RUN(pool, n, .work = add, .dst = dst, .src = src, .looks = true);
}

bool tg__parallel_finite(tg__pool *pool, const float *x, size_t n)
{
    return RUN(pool, n, .src = x, .looks = true);
}

static void scale_add(const job *j, size_t at, size_t n)
{
    tg__kernel()->scale(j->dst + at, j->a, n);
    tg__kernel()->add(j->dst + at, j->src + at, n);
}

bool tg__parallel_scale_add_finite(tg__pool *pool, float *dst, float a, const float *src, size_t n)
{
    return RUN(pool, n, .work = scale_add, .dst = dst, .src = src, .a = a, .looks = true);
}

static void filter(const job *j, size_t at, size_t n)
{
    memcpy(j->dst + at, j->u + at, n * sizeof *j->dst);
    tg__kernel()->add(j->dst + at, j->src + at, n);
    tg__kernel()->axpy(j->u + at, j->a, j->src + at, n);
}

bool tg__parallel_filter_finite(tg__pool *pool, float *p, float *r, float beta, const float *g,
                                size_t n)
{
    return RUN(pool, n, .work = filter, .dst = p, .u = r, .src = g, .a = beta, .looks = true);
}

static void sub(const job *j, size_t at, size_t n)
{
    tg__kernel()->sub(j->dst + at, j->src + at, n);
}

void tg__parallel_sub(tg__pool *pool, float *dst, const float *src, size_t n)
{
    (void)RUN(pool, n, .work = sub, .dst = dst, .src = src);
}

static void copy(const job *j, size_t at, size_t n)
{
    if (j->dst != j->src)
        memcpy(j->dst + at, j->src + at, n * sizeof *j->dst);
}

void tg__parallel_copy(tg__pool *pool, float *dst, const float *src, size_t n)
{
    (void)RUN(pool, n, .work = copy, .dst = dst, .src = src);
}

bool tg__parallel_copy_finite(tg__pool *pool, float *dst, const float *src, size_t n)
{
    return RUN(pool, n, .work = copy, .dst = dst, .src = src, .looks = true);
}

/* Between f32 and words of 2 bytes. */
typedef struct halves {
    float *wide;        /* widen: to */
    const float *from;  /* narrow */
    void *to;           /* narrow */
    const void *narrow; /* widen: from */
    bool brain;
} halves;

static void widen(void *arg, size_t lo, size_t hi)
{
    const halves *h = arg;
    const tg__kernels *k = tg__kernel();
    (h->brain ? k->bf16_decode : k->f16_decode)(h->wide + lo, (const uint16_t *)h->narrow + lo,
                                                hi - lo);
}

void tg__parallel_widen(tg__pool *pool, float *dst, const void *src, size_t n, bool brain)
{
    tg__pool_chunks(pool, n, TG__CHUNK, widen,
                    &(halves){.wide = dst, .narrow = src, .brain = brain});
}

static void narrow(void *arg, size_t lo, size_t hi)
{
    const halves *h = arg;
    const tg__kernels *k = tg__kernel();
    (h->brain ? k->bf16_encode : k->f16_encode)((uint16_t *)h->to + lo, h->from + lo, hi - lo);
}

void tg__parallel_narrow(tg__pool *pool, void *dst, const float *src, size_t n, bool brain)
{
    tg__pool_chunks(pool, n, TG__CHUNK, narrow, &(halves){.to = dst, .from = src, .brain = brain});
}

/* A NaN threshold selects nothing. */
static void dgc(const job *j, size_t at, size_t n)
{
    uint32_t idx[TG__SELECT_SLACK];
    float val[TG__SELECT_SLACK];
    tg__kernel()->dgc_select(j->u + at, j->dst + at, j->src + at, n, j->a, j->nesterov, 0, NAN, idx,
                             val, 0);
}

bool tg__parallel_dgc(tg__pool *pool, float *u, float *v, const float *g, size_t n, float m,
                      bool nesterov)
{
    return RUN(pool, n, .work = dgc, .u = u, .dst = v, .src = g, .a = m, .nesterov = nesterov,
               .looks = true);
}

typedef struct chunks {
    float *dst;
    const float *src;
    size_t base;      /* index of the first element */
    tg__stats *stats; /* one per chunk */
} chunks;

static void chunk_stats(void *arg, size_t lo, size_t hi)
{
    const chunks *j = arg;
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
        chunks j = {.dst = dst, .src = src, .base = base, .stats = chunk};
        tg__pool_chunks(pool, m, TG__CHUNK, chunk_stats, &j);
        for (size_t c = 0; c * TG__CHUNK < m; c++) {
            sum.sum_sq += chunk[c].sum_sq;
            sum.sum_abs += chunk[c].sum_abs;
            sum.finite = sum.finite && chunk[c].finite;
        }
    }
    *stats = sum;
}
