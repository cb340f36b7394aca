#include "codec/sparse/trimmed_select.h"
#include "kernel/parallel.h"

#include <float.h>
#include <math.h>
#include <stdatomic.h>

#define STEP 0.2        /* of trimming */
#define NARROWEST 0.001 /* interval of the search */

typedef struct pass {
    const tg__source *s;
    size_t lo;
    float threshold;
    atomic_size_t count;
} pass;

/* Form the elements [begin, end) of the vector. */
static void form(void *arg, size_t begin, size_t end)
{
    const pass *a = arg;
    uint32_t idx[TG__SELECT_SLACK];
    float val[TG__SELECT_SLACK];
    (void)a->s->pass(a->s, a->lo + begin, end - begin, FLT_MAX, idx, val, 0);
}

static void add_count(void *arg, size_t begin, size_t end)
{
    pass *a = arg;
    uint32_t idx[TG__SELECT_SLACK];
    float val[TG__SELECT_SLACK];
    atomic_fetch_add(&a->count, tg__kernel()->select(a->s->x + a->lo + begin, end - begin,
                                                     a->threshold, idx, val, 0));
}

/* The number of elements that reach the threshold. */
static size_t reached(const tg__topk *t, const float *x, size_t n, float threshold)
{
    const tg__source source = {.x = x};
    pass a = {.s = &source, .threshold = threshold};
    tg__pool_chunks(t->pool, n, TG__CHUNK, add_count, &a);
    return a.count;
}

/* A threshold that k to 2 k elements reach; 0 if none was found. */
static float search(const tg__topk *t, const float *x, size_t n, size_t k, const tg__stats *stats)
{
    const double mean = stats->sum_abs / (double)n,
                 span = (double)tg__kernel()->abs_max(x, n) - mean;
    const size_t most = tg__trimmed_most(n, k);
    double low = 1, high = 1;
    size_t count = 0;
    float threshold = 0;
    for (int i = 4; i >= 0 && count < k; i--) {
        high = low;
        low = STEP * i;
        threshold = (float)(mean + low * span);
        count = reached(t, x, n, threshold);
    }
    if (count < k)
        return 0;
    while (count > most && high - low > NARROWEST) {
        const double middle = low + (high - low) / 2;
        threshold = (float)(mean + middle * span);
        count = reached(t, x, n, threshold);
        if (count < k)
            high = middle;
        else
            low = middle;
        count = count < k ? SIZE_MAX : count;
    }
    return count <= most ? threshold : 0;
}

tg_status tg__trimmed_select(tg__topk *t, tg__topk_hint *hint, const tg__source *s, size_t lo,
                             size_t n, size_t k)
{
    tg__stats stats;
    tg__pool_chunks(t->pool, n, TG__CHUNK, form, &(pass){.s = s, .lo = lo});
    tg__parallel_copy_stats(t->pool, NULL, s->x + lo, n, &stats);
    if (!stats.finite)
        return tg_fail(TG_E_NONFINITE, "top-k: the vector holds NaN or infinity");
    const float threshold = search(t, s->x + lo, n, k, &stats);
    if (threshold == 0)
        return tg__topk_select_from(t, hint, s->x, lo, n, k);
    uint32_t *idx = t->idx + t->count;
    const size_t count = tg__kernel()->select(s->x + lo, n, threshold, idx, t->val + t->count,
                                              tg__trimmed_most(n, k));
    for (size_t i = 0; i < count; i++)
        idx[i] += (uint32_t)lo;
    t->count += count;
    return TG_OK;
}
