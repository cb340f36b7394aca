/* A matrix cut into blocks, of each of which the same number of elements is kept.
 *
 * A dimension d is cut into pieces of the largest divisor of d that is at most 64. Where d > 64 has
 * no divisor from 16 to 64 (a prime), pieces are of 64 and the last one is what is left. So is a
 * vector, a matrix of one column. Blocks are numbered row by row; an element's place in its block
 * as well. Of a block of m elements min(keep, m) are kept. */
#ifndef TG_CODEC_BLOCK_GRID_H
#define TG_CODEC_BLOCK_GRID_H

#include "telegrad/base.h"

enum { TG__BLOCK_SIDE = 64, TG__BLOCK_MAX = TG__BLOCK_SIDE * TG__BLOCK_SIDE };

typedef struct tg__grid {
    size_t rows, cols;    /* of the matrix, > 0 */
    size_t height, width; /* of a block that is not the last */
    size_t keep;
} tg__grid;

typedef struct tg__block {
    size_t row, col;      /* of its first element */
    size_t height, width; /* its own */
    size_t keep;          /* min(keep, its elements) */
    unsigned bits;        /* of an index into it: 0 if all of it is kept */
} tg__block;

/* The length of the pieces of a dimension. */
size_t tg__block_side(size_t d);
tg__grid tg__grid_make(size_t rows, size_t cols, size_t keep);

size_t tg__grid_blocks(const tg__grid *g);
/* Blocks side by side. */
size_t tg__grid_across(const tg__grid *g);
/* Block number i. */
tg__block tg__grid_block(const tg__grid *g, size_t i);
/* Elements that the blocks before number i keep together, and the bits of their indices. i is at
 * most the number of blocks. */
size_t tg__grid_kept_before(const tg__grid *g, size_t i, size_t *index_bits_p);
/* ... that all blocks keep. */
size_t tg__grid_kept(const tg__grid *g, size_t *index_bits_p);

#endif
