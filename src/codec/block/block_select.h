/* The k largest of a block, whose number is fixed: zeros too, if there is nothing else. */
#ifndef TG_CODEC_BLOCK_SELECT_H
#define TG_CODEC_BLOCK_SELECT_H

#include "codec/block/block_grid.h"
#include "kernel/kernel.h"

/* Scratch, of which only the hint is set before the first call: about the smallest magnitude that
 * the last block kept, where the next block's is likely near, or 0. It changes speed, never the
 * result. */
typedef struct tg__block_select {
    float hint;
    uint32_t idx[TG__BLOCK_MAX + TG__SELECT_SLACK];
    float val[TG__BLOCK_MAX + TG__SELECT_SLACK];
    uint32_t bits[TG__BLOCK_MAX];
} tg__block_select;

/* The k of x (n <= TG__BLOCK_MAX) of largest magnitude, ties to the lower place; where fewer are
 * not 0 (NaN counts as 0), the first of the others as well. place, val (k), places ascending.
 * 1 <= k <= n; x, place, val apart */
void tg__block_pick(tg__block_select *s, const float *x, size_t n, size_t k, uint16_t *place,
                    float *val);

#endif
