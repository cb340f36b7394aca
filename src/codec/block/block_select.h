/* The k largest elements of a block. k is fixed: zeros are selected if there is nothing else. */
#ifndef TG_CODEC_BLOCK_SELECT_H
#define TG_CODEC_BLOCK_SELECT_H

#include "codec/block/block_grid.h"
#include "kernel/kernel.h"

/* Scratch. Only the hint must be set before the first call: about the smallest magnitude that the
 * last block kept, which the next block's is probably near, or 0. It affects speed, never the
 * result. */
typedef struct tg__block_select {
    float hint;
    uint32_t idx[TG__BLOCK_MAX + TG__SELECT_SLACK];
    float val[TG__BLOCK_MAX + TG__SELECT_SLACK];
    uint32_t bits[TG__BLOCK_MAX];
} tg__block_select;

/* Select the k elements of x (n <= TG__BLOCK_MAX) of largest magnitude, ties to the lower place. If
 * fewer are not 0 (NaN counts as 0), the first of the others are added. place, val (k), places
 * ascending. 1 <= k <= n; x, place and val must not overlap. */
void tg__block_pick(tg__block_select *s, const float *x, size_t n, size_t k, uint16_t *place,
                    float *val);

#endif
