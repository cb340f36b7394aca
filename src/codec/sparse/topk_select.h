/* Exact top-k: the k elements of largest magnitude, ties to the lower index, never zeros.
 *
 * The vector may be formed during the pass that examines it (r += g), so the caller supplies that
 * pass: a tg__source. */
#ifndef TG_CODEC_TOPK_SELECT_H
#define TG_CODEC_TOPK_SELECT_H

#include "codec/codec_impl.h"

/* What a selection passes to the next one on the same vector. It affects speed, never the
 * result. */
typedef struct tg__topk_hint {
    float threshold; /* 0: none */
    float slack;     /* the next threshold is (1 - slack) times the smallest value kept */
    size_t n, k;
} tg__topk_hint;

/* Scratch. */
typedef struct tg__topk {
    uint32_t *idx; /* (count) selected, ascending; then candidates */
    float *val;
    size_t count, cap;
    /* cores for the pass; the result is the same. NULL: the calling one. Borrowed */
    tg__pool *pool;
} tg__topk;

/* min(n, max(1, floor(density * n + 0.5))); 0 for n = 0. density in (0, 1] */
size_t tg__topk_count(double density, size_t n);

/* Entries needed while selecting k of n; k of them remain afterwards. */
size_t tg__topk_room(const tg__topk *t, size_t n, size_t k);
/* Allocate `room` entries and set count = 0.
 * Errors  TG_E_NOMEM */
TG_NODISCARD tg_status tg__topk_reserve(tg__topk *t, size_t room);
void tg__topk_free(tg__topk *t);

/* Append the k largest of elements [lo, lo + n) to t->idx, t->val (fewer if fewer are not 0). There
 * must be room after the existing entries. If s->ahead is not 0, "largest" and "not 0" are meant of
 * their scores, and a value may be 0. 1 <= k <= n.
 * Errors  TG_E_NONFINITE (an infinity, or a NaN if it was seen) */
TG_NODISCARD tg_status tg__topk_select(tg__topk *t, tg__topk_hint *hint, const tg__source *s,
                                       size_t lo, size_t n, size_t k);
/* The same for a vector that exists already. */
TG_NODISCARD tg_status tg__topk_select_from(tg__topk *t, tg__topk_hint *hint, const float *x,
                                            size_t lo, size_t n, size_t k);

#endif
