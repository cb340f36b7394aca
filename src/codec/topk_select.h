/* Exact top-k: the k elements of largest magnitude, ties to the lower index, zeros never.
 *
 * The vector may come into being during the pass that looks at it (r += g), so the caller supplies
 * that pass. */
#ifndef TG_CODEC_TOPK_SELECT_H
#define TG_CODEC_TOPK_SELECT_H

#include "telegrad/base.h"

/* Where the vector comes from. */
typedef struct tg__topk_source tg__topk_source;
struct tg__topk_source {
    const float *x; /* (n) as it is after `pass` */
    /* Element i as it will be after `pass`, called before it; for samples */
    float (*peek)(const tg__topk_source *s, size_t i);
    /* Bring x[begin, begin + m) into being, and select on it as tg__kernels.select does (indices
     * from begin). Called once for every range, in order. */
    size_t (*pass)(const tg__topk_source *s, size_t begin, size_t m, float threshold, uint32_t *idx,
                   float *val, size_t cap);
};

/* Scratch, and the hint of the previous call. The hint changes speed, never the result. */
typedef struct tg__topk {
    uint32_t *idx; /* candidates, then the selected ones, ascending */
    float *val;
    size_t cap;
    uint32_t *hist; /* (2048) */
    float hint;     /* threshold of the previous call, 0: none */
    float slack;    /* the next threshold is (1 - slack) times the smallest value kept */
    size_t hint_n, hint_k;
} tg__topk;

/* min(n, max(1, floor(density * n + 0.5))); 0 for n = 0. density in (0, 1] */
size_t tg__topk_count(double density, size_t n);

/* Scratch for k of n. Errors TG_E_NOMEM */
TG_NODISCARD tg_status tg__topk_reserve(tg__topk *t, size_t n, size_t k);
void tg__topk_free(tg__topk *t);

/* Select into t->idx, t->val (*count_p <= k: fewer if there are fewer that are not 0). Reserved
 * before. Errors TG_E_NONFINITE (an infinity, or a NaN if it was seen) */
TG_NODISCARD tg_status tg__topk_select(tg__topk *t, const tg__topk_source *s, size_t n, size_t k,
                                       size_t *count_p);

#endif
