/* A matrix cut into blocks. The same number of elements is kept of each block.
 *
 * A dimension d is cut into pieces whose length is the largest divisor of d that is at most 64. If
 * d > 64 has no divisor from 16 to 64 (a prime, for example), pieces have length 64, and the last
 * one is shorter. Vectors, which are matrices of one column, are cut the same way. Blocks are
 * numbered row by row, and so are the places within a block. Of a block of m elements, min(keep, m)
 * are kept. */
#ifndef TG_CODEC_BLOCK_GRID_H
#define TG_CODEC_BLOCK_GRID_H

#include "telegrad/base.h"

enum { TG__BLOCK_SIDE = 64, TG__BLOCK_MAX = TG__BLOCK_SIDE * TG__BLOCK_SIDE };

typedef struct tg__grid {
    size_t rows, cols;    /* of the matrix, > 0 */
    size_t height, width; /* of all blocks but the last ones */
    size_t keep;
} tg__grid;

typedef struct tg__block {
    size_t row, col;      /* of the block's first element */
    size_t height, width; /* of this block */
    size_t keep;          /* min(keep, its elements) */
    unsigned bits;        /* bits per index within the block: 0 if the whole block is kept */
} tg__block;

/* The length of the pieces of a dimension. */
size_t tg__block_side(size_t d);
tg__grid tg__grid_make(size_t rows, size_t cols, size_t keep);

size_t tg__grid_blocks(const tg__grid *g);
/* The number of blocks in a row of blocks. */
size_t tg__grid_across(const tg__grid *g);
/* Block number i. */
tg__block tg__grid_block(const tg__grid *g, size_t i);
/* The number of elements kept by the blocks before number i, and the bits of their indices. i is at
 * most the number of blocks. */
size_t tg__grid_kept_before(const tg__grid *g, size_t i, size_t *index_bits_p);
/* The same for all blocks. */
size_t tg__grid_kept(const tg__grid *g, size_t *index_bits_p);

#endif
