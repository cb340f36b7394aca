/* RedSync's selection: all elements above a threshold that is searched between the mean and the
 * largest magnitude, so that at least k and at most 2 k elements are taken.
 *
 *   trim     ratio = 0.8, 0.6, ... 0: threshold = mean + ratio (max - mean), until k elements
 *            reach it
 *   search   if more than 2 k do, halve the interval between that ratio and the last one, until
 *            k to 2 k elements reach the threshold, or the interval is at most 0.001
 *   select   those elements. If the search has found no such threshold, the k largest, ties to the
 *            lower index (the paper's trimmed top-k)
 *
 * Zeros are never taken: a vector with fewer than k other elements gives these. mean is that of all
 * n magnitudes.
 *
 * Source: Fang et al. 2019 (RedSync), arXiv:1802.04799, alg. 2 and 3 */
#ifndef TG_CODEC_TRIMMED_SELECT_H
#define TG_CODEC_TRIMMED_SELECT_H

#include "codec/sparse/topk_select.h"

/* The most that is taken of n elements. */
static inline size_t tg__trimmed_most(size_t n, size_t k)
{
    return k > n / 2 ? n : 2 * k;
}

/* Append the elements taken of [lo, lo + n), as tg__topk_select does, with the same room, and the
 * same errors; s is passed over once, then its x is looked at. */
TG_NODISCARD tg_status tg__trimmed_select(tg__topk *t, tg__topk_hint *hint, const tg__source *s,
                                          size_t lo, size_t n, size_t k);

#endif
