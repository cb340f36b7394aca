/* Exact top-k of |x| in about one pass.
 *
 *   1. Threshold   Choose one that slightly more than k elements reach: from the previous call, or
 *                  from a sample.
 *   2. Collect     One pass collects the candidates, the elements that reach the threshold; with
 *                  several cores, in pieces. If a piece has too many, only its k largest stay, and
 *                  its threshold rises to the smallest of them: smaller elements can no longer be
 *                  among the k largest.
 *   3. Select      Exactly, among the candidates: T is the k-th largest magnitude, by a radix
 *                  histogram of its bits (11, 10, 10). Keep all above T, and of those equal to T as
 *                  many as are missing, lowest indices first.
 *   4. Fall back   With fewer than k candidates, a histogram of the whole vector gives a threshold
 *                  that k elements reach.
 *
 * Source: Aji and Heafield 2017, arXiv:1704.05021, sec. 3 (sampled threshold); exactness is our
 * addition. */
#include "codec/sparse/topk_select.h"
#include "kernel/element.h"
#include <math.h>
#include <stdlib.h>

enum {
    BINS = 2048,     /* of the upper 11 magnitude bits */
    LOW_BINS = 1024, /* of 10 lower ones */
    SMALL = 8192,    /* there is always room for this many candidates */
    CHUNK = 16384,   /* elements between two checks of the number of candidates */
    SAMPLE_MIN = 4096,
    SAMPLE_MAX = SMALL + CHUNK,
    PIECES_PER_THREAD = 4, /* so that a slow core does not hold up the others */
    PIECES_MAX = PIECES_PER_THREAD * TG__POOL_MAX
};

#define SLACK_START 0.03f
#define SLACK_MIN 0.002f
#define SLACK_MAX 0.3f

size_t tg__topk_count(double density, size_t n)
{
    double k = floor(density * (double)n + 0.5);
    return k < 1 ? TG__MIN(n, (size_t)1) : k < (double)n ? (size_t)k : n;
}

/* The number of candidates, of n elements, that there is room for: all, or 2 k plus some, plus one
 * chunk. */
static size_t room(size_t n, size_t k)
{
    return TG__MIN(n, 2 * k + SMALL + CHUNK);
}

/* Elements per task of a pass; all without a pool. */
static size_t piece_size(const tg__topk *t, size_t n)
{
    size_t most = n / TG__CHUNK, want = PIECES_PER_THREAD * (size_t)tg__pool_threads(t->pool);
    if (!t->pool || most < 2)
        return TG__MAX(n, (size_t)1);
    size_t size = n / TG__MIN(want, most);
    return (size + CHUNK - 1) / CHUNK * CHUNK;
}

size_t tg__topk_room(const tg__topk *t, size_t n, size_t k)
{
    size_t size = piece_size(t, n);
    return (n + size - 1) / size * (room(size, k) + TG__SELECT_SLACK);
}

tg_status tg__topk_reserve(tg__topk *t, size_t cap)
{
    t->count = 0;
    if (cap <= t->cap && t->idx)
        return TG_OK;
    tg__topk_free(t);
    TG_TRY(tg_alloc(cap, sizeof(*t->idx), &t->idx));
    TG_TRY(tg_alloc(cap, sizeof(*t->val), &t->val));
    t->cap = cap;
    return TG_OK;
}

void tg__topk_free(tg__topk *t)
{
    free(t->idx);
    free(t->val);
    t->idx = NULL;
    t->val = NULL;
    t->cap = 0;
}

/* ---- the k-th largest magnitude -------------------------------------------------------------- */

typedef struct bound {
    uint32_t bits; /* magnitude bits of the k-th largest */
    size_t above;  /* elements above it */
} bound;

/* Find the bin of the k-th largest, counted from the top; *above_p: elements in the bins above. */
static uint32_t find_bin(const uint32_t *hist, uint32_t bins, size_t k, size_t *above_p)
{
    size_t above = 0;
    uint32_t bin = bins - 1;
    while (bin > 0 && above + hist[bin] < k)
        above += hist[bin--];
    *above_p = above;
    return bin;
}

/* Among the elements whose magnitude bits above `shift + 10` equal those of b->bits, find the next
 * 10 bits. */
static void refine(bound *b, const float *x, size_t n, size_t k, unsigned shift, uint32_t *hist)
{
    memset(hist, 0, LOW_BINS * sizeof(*hist));
    uint32_t prefix = b->bits >> (shift + 10);
    for (size_t i = 0; i < n; i++) {
        uint32_t m = tg__f32_magnitude(x[i]);
        if (m >> (shift + 10) == prefix)
            hist[m >> shift & (LOW_BINS - 1)]++;
    }
    size_t above;
    uint32_t bin = find_bin(hist, LOW_BINS, k - b->above, &above);
    b->bits |= bin << shift;
    b->above += above;
}

/* The first 11 bits, from a histogram. */
static bound coarse(const uint32_t *hist, size_t k)
{
    bound b;
    uint32_t bin = find_bin(hist, BINS, k, &b.above);
    b.bits = bin << 20;
    return b;
}

/* 1 <= k <= n */
static bound kth_largest(const float *x, size_t n, size_t k)
{
    uint32_t hist[BINS] = {0};
    tg__kernel()->histogram(x, n, hist);
    bound b = coarse(hist, k);
    refine(&b, x, n, k, 10, hist);
    refine(&b, x, n, k, 0, hist);
    return b;
}

/* Keep in place the elements above b, and the first that equal it, k in all. */
static size_t keep(uint32_t *idx, float *val, size_t n, const bound *b, size_t k)
{
    size_t kept = 0, ties = k - b->above;
    for (size_t i = 0; i < n; i++) {
        uint32_t m = tg__f32_magnitude(val[i]);
        bool tie = m == b->bits && ties > 0;
        idx[kept] = idx[i];
        val[kept] = val[i];
        kept += m > b->bits || tie;
        ties -= tie;
    }
    return kept;
}

/* ---- the pass -------------------------------------------------------------------------------- */

/* A pass over scores: tg__source.pass, .again, or look. */
typedef size_t (*look_fn)(const tg__source *s, size_t begin, size_t m, float threshold,
                          uint32_t *idx, float *val, size_t cap);

typedef struct pass {
    const tg__topk *t;
    const tg__source *s;
    look_fn look;
    size_t lo, n, k, size;
    float threshold;
    /* [out] per piece: the candidates left, and the number that reached the threshold at that
     * time */
    size_t count[PIECES_MAX], seen[PIECES_MAX];
} pass;

/* The position of a piece's candidates. */
static size_t place(const pass *p, size_t piece)
{
    return p->t->count + piece * (room(p->size, p->k) + TG__SELECT_SLACK);
}

/* Collect the candidates of one piece: all of its elements that are among the vector's k largest,
 * if they reach the threshold. */
static void collect_piece(void *arg, size_t piece)
{
    pass *p = arg;
    size_t n = TG__MIN(p->size, p->n - piece * p->size), lo = p->lo + piece * p->size;
    size_t cap = room(p->size, p->k), limit = cap < n ? cap - CHUNK : n, count = 0, seen = 0;
    uint32_t *idx = p->t->idx + place(p, piece);
    float *val = p->t->val + place(p, piece), threshold = p->threshold;
    for (size_t begin = 0; begin < n; begin += CHUNK) {
        size_t m = TG__MIN(n - begin, (size_t)CHUNK);
        size_t found =
            p->look(p->s, lo + begin, m, threshold, idx + count, val + count, cap - count);
        for (size_t i = count; i < count + found; i++)
            idx[i] += (uint32_t)(lo + begin);
        count += found;
        seen += found;
        if (count > limit) {
            bound b = kth_largest(val, count, p->k);
            count = keep(idx, val, count, &b, p->k);
            threshold = tg__f32_from(b.bits + 1); /* later elements that equal it lose the tie */
        }
    }
    p->count[piece] = count;
    p->seen[piece] = seen;
}

/* Collect the candidates of a whole pass, after those already selected: at least k, or all that
 * reach threshold. *seen_p: the number that reached the threshold at that time. */
static size_t collect(tg__topk *t, const tg__source *s, look_fn look, size_t lo, size_t n, size_t k,
                      float threshold, size_t *seen_p)
{
    pass p; /* its arrays are left uninitialised */
    p.t = t;
    p.s = s;
    p.look = look;
    p.lo = lo;
    p.n = n;
    p.k = k;
    p.size = piece_size(t, n);
    p.threshold = threshold;
    size_t pieces = (n + p.size - 1) / p.size, count;
    tg__pool_run(t->pool, pieces, collect_piece, &p);
    count = p.count[0];
    *seen_p = p.seen[0];
    for (size_t i = 1; i < pieces; i++) {
        size_t at = place(&p, i);
        memmove(t->idx + t->count + count, t->idx + at, p.count[i] * sizeof(*t->idx));
        memmove(t->val + t->count + count, t->val + at, p.count[i] * sizeof(*t->val));
        count += p.count[i];
        *seen_p += p.seen[i];
    }
    return count;
}

static tg_status nonfinite(void)
{
    return tg_fail(TG_E_NONFINITE, "top-k: the vector holds NaN or infinity");
}

static size_t look(const tg__source *s, size_t begin, size_t m, float threshold, uint32_t *idx,
                   float *val, size_t cap)
{
    return tg__kernel()->select(s->x + begin, m, threshold, idx, val, cap);
}

/* Collect candidates from the vector as it is now; *count_p of them, at least k if that many are
 * not 0. */
static tg_status rerun(tg__topk *t, const tg__source *s, size_t lo, size_t n, size_t k,
                       size_t *count_p)
{
    uint32_t hist[BINS] = {0};
    size_t seen;
    if (s->ahead != 0) { /* no vector holds the scores */
        if (!tg__kernel()->all_finite(s->x + lo, n))
            return nonfinite();
        *count_p = collect(t, s, s->again, lo, n, k, 0, &seen);
        return TG_OK;
    }
    tg__kernel()->histogram(s->x + lo, n, hist);
    for (uint32_t bin = TG__F32_INF >> 20; bin < BINS; bin++)
        if (hist[bin] > 0)
            return nonfinite();
    bound b = coarse(hist, k);
    *count_p = collect(t, s, look, lo, n, k, tg__f32_from(b.bits), &seen);
    return TG_OK;
}

/* ---- thresholds ------------------------------------------------------------------------------ */

/* The magnitude that about k (1 + 6 sqrt(stride / k)) elements reach, at most 2.5 k, estimated from
 * a jittered sample. */
static float sampled(tg__topk *t, const tg__source *s, size_t lo, size_t n, size_t k)
{
    float *sample = t->val + t->count; /* uses the candidates' memory */
    size_t count = TG__MIN(TG__MAX(n / 1024, (size_t)SAMPLE_MIN), (size_t)SAMPLE_MAX);
    size_t stride = n / count;
    uint32_t state = UINT32_C(2463534242);
    for (size_t j = 0; j < count; j++) {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        sample[j] = s->peek(s, lo + j * stride + state % stride);
    }
    double more = TG__MIN(1 + 6 * sqrt((double)stride / (double)k), 2.5);
    size_t rank = (size_t)((double)k * more / (double)stride);
    if (rank >= count)
        return 0;
    return tg__f32_from(kth_largest(sample, count, TG__MAX(rank, (size_t)1)).bits);
}

static float first_threshold(tg__topk *t, tg__topk_hint *h, const tg__source *s, size_t lo,
                             size_t n, size_t k)
{
    if (k >= n - n / 8)
        return 0;
    if (h->threshold > 0 && h->n == n && h->k == k)
        return h->threshold;
    h->slack = SLACK_START;
    return n <= SMALL ? 0 : sampled(t, s, lo, n, k);
}

/* The threshold for the next call: slightly below the smallest magnitude kept, so that 1.25 k to 2
 * k elements reach it. The margin adapts to the number that did in this call. */
static void remember(tg__topk_hint *h, size_t n, size_t k, uint32_t kth_bits, size_t seen)
{
    size_t few = k + k / 4, many = k + k / 2 + TG__MIN(k / 2, (size_t)SMALL / 2);
    if (seen < k)
        h->slack = TG__MIN(SLACK_MAX, 2 * h->slack + 0.01f);
    else if (seen < few)
        h->slack = TG__MIN(SLACK_MAX, 1.25f * h->slack);
    else if (seen > many)
        h->slack = TG__MAX(SLACK_MIN, 0.8f * h->slack);
    h->threshold = tg__f32_from(kth_bits) * (1 - h->slack);
    h->n = n;
    h->k = k;
}

static uint32_t least_magnitude(const float *x, size_t n)
{
    uint32_t least = TG__F32_MAGNITUDE;
    for (size_t i = 0; i < n; i++)
        least = TG__MIN(least, tg__f32_magnitude(x[i]));
    return least;
}

tg_status tg__topk_select(tg__topk *t, tg__topk_hint *hint, const tg__source *s, size_t lo,
                          size_t n, size_t k)
{
    uint32_t *idx = t->idx + t->count, kth = 0;
    float *val = t->val + t->count, threshold = first_threshold(t, hint, s, lo, n, k);
    hint->threshold = 0;
    size_t seen, count = collect(t, s, s->pass, lo, n, k, threshold, &seen);
    if (count < k && threshold > 0)
        TG_TRY(rerun(t, s, lo, n, k, &count));
    if (count > k) {
        bound b = kth_largest(val, count, k);
        count = keep(idx, val, count, &b, k);
        kth = b.bits;
    } else if (count == k) {
        kth = least_magnitude(val, k);
    }
    /* Scores of finite elements may be infinite, and then keep out an infinite element. */
    if (s->ahead != 0 && kth >= TG__F32_INF && !tg__kernel()->all_finite(s->x + lo, n))
        return nonfinite();
    for (size_t i = 0; s->ahead != 0 && i < count; i++)
        val[i] = s->x[idx[i]];
    for (size_t i = 0; i < count; i++)
        if (tg__f32_magnitude(val[i]) >= TG__F32_INF)
            return nonfinite();
    if (kth > 0)
        remember(hint, n, k, kth, seen);
    t->count += count;
    return TG_OK;
}

static float peek(const tg__source *s, size_t i)
{
    return s->x[i];
}

tg_status tg__topk_select_from(tg__topk *t, tg__topk_hint *hint, const float *x, size_t lo,
                               size_t n, size_t k)
{
    const tg__source source = {.x = x, .peek = peek, .pass = look};
    return tg__topk_select(t, hint, &source, lo, n, k);
}
