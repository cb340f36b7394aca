/* Shared by writers and readers of sparse values: lengths and signs. */
#ifndef TG_CODEC_SPARSE_SHAPE_H
#define TG_CODEC_SPARSE_SHAPE_H

#include "codec/sparse/sparse_values.h"
#include "kernel/element.h"

enum { TG__RUN_BYTES = 8 };

/* The layout of a block in each coding: its scales, then `bits` per value. */
static const struct {
    uint8_t scales, bits;
} tg__shapes[TG__VALUES_LEVEL] = {{0, 32}, {0, 16}, {1, 8}, {1, 4}, {2, 2}, {1, 1}};

static inline size_t tg__values_block_len(int coding, size_t m)
{
    return 4 * (size_t)tg__shapes[coding].scales + (m * tg__shapes[coding].bits + 7) / 8;
}

static inline size_t tg__level_len(size_t runs, size_t k)
{
    return 4 + TG__RUN_BYTES * runs + (k + 7) / 8;
}

static inline size_t tg__blocks_len(int coding, size_t k)
{
    size_t rest = k % TG__VALUES_BLOCK;
    return k / TG__VALUES_BLOCK * tg__values_block_len(coding, TG__VALUES_BLOCK) +
           (rest > 0 ? tg__values_block_len(coding, rest) : 0);
}

static inline float tg__with_sign(float magnitude, uint32_t sign)
{
    return tg__f32_from(tg__f32_bits(magnitude) | sign << 31);
}

#endif
