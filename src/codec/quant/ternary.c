/* Bit planes, computed by several cores. */
#include "codec/quant/ternary.h"
#include "base/mem.h"
#include "kernel/kernel.h"

/* Planes of p, which is x or r. */
static void code(const tg__ternary *t, const float *p, size_t lo, size_t hi, float threshold,
                 uint8_t *planes)
{
    const float *g = t->g != NULL ? t->g + lo : NULL;
    tg__thresholds_encode(p + lo, g, hi - lo, t->ahead, threshold, planes);
}

/* Planes of x. */
static void of(const tg__ternary *t, size_t lo, size_t hi, float threshold, uint8_t *planes)
{
    code(t, t->x, lo, hi, threshold, planes);
}

/* The same; r = the decoded planes. */
static void shown(const tg__ternary *t, size_t lo, size_t hi, float threshold, uint8_t *planes)
{
    code(t, t->x, lo, hi, threshold, planes);
    tg__kernel()->twobit_decode(t->r + lo, planes, hi - lo, threshold);
}

/* Planes of r, which keeps the remainder. */
static void left(const tg__ternary *t, size_t lo, size_t hi, float threshold, uint8_t *planes)
{
    code(t, t->r, lo, hi, threshold, planes);
    tg__kernel()->twobit_decode_add(t->r + lo, planes, hi - lo, -threshold);
}

/* r += x, then the same, in one pass. */
static void add(const tg__ternary *t, size_t lo, size_t hi, float threshold, uint8_t *planes)
{
    tg__kernel()->twobit_add_encode(t->r + lo, t->x + lo, hi - lo, t->ahead, threshold, planes);
}

tg__ternary tg__ternary_of(tg_codec *c, const tg_encode_context *ctx, const float *x,
                           float *decoded)
{
    const float ahead = ((const tg__thresholds *)c->impl)->ahead;
    const float *g = ctx->gradient;
    /* A vector that is the gradient itself is compared as it is. */
    return (tg__ternary){.code = decoded ? shown : of,
                         .x = x,
                         .g = ahead != 0 && g != x ? g : NULL,
                         .ahead = ahead,
                         .r = decoded};
}

tg__ternary tg__ternary_settle(tg_codec *c, const tg_encode_context *ctx, float *r, const float *g,
                               size_t n, atomic_bool *spoilt)
{
    const float ahead = ((const tg__thresholds *)c->impl)->ahead;
    tg__ternary t = {.code = add,
                     .x = g,
                     .g = ahead != 0 ? g : NULL,
                     .ahead = ahead,
                     .r = r,
                     .leaves = true,
                     .spoilt = spoilt};
    if (tg__thresholds_estimates(c->impl, ctx)) {
        tg__kernel()->add(r, g, n);
        t.code = left;
    }
    return t;
}

typedef struct job {
    const tg__ternary *t;
    size_t begin;
    float threshold;
    uint8_t *planes;
} job;

static void chunk(void *arg, size_t lo, size_t hi)
{
    enum { PIECE = 4096 };
    const job *j = arg;
    /* so that the check finds it in the cache */
    const size_t step = j->t->spoilt ? PIECE : TG__CHUNK;
    for (size_t n; lo < hi; lo += n) {
        n = TG__MIN(hi - lo, step);
        const size_t at = j->begin + lo;
        j->t->code(j->t, at, at + n, j->threshold, j->planes + tg__twobit_bytes(lo));
        if (j->t->spoilt && !tg__kernel()->all_finite(j->t->r + at, n))
            atomic_store(j->t->spoilt, true);
    }
}

size_t tg__ternary_run(const tg__ternary *t, tg__pool *pool, size_t lo, size_t hi, float threshold,
                       uint8_t *planes)
{
    job j = {.t = t, .begin = lo, .threshold = threshold, .planes = planes};
    tg__pool_chunks(pool, hi - lo, TG__CHUNK, chunk, &j);
    return tg__kernel()->count_bits(planes, tg__twobit_bytes(hi - lo));
}
