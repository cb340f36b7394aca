/* Frames of tensors that are cut into blocks (block_grid.h). A fixed number of elements of each
 * block is kept: of the tensor itself, or of a transform of the block.
 *
 * aux: the values' coding (block_values.h). Payload: u32 number of tensors, u32 keep; u32 rows, u32
 * cols of each tensor; then for each tensor the values of all blocks, block by block, and the
 * places of the same elements. A place takes as many bits as its block needs (none if the whole
 * block is kept), starting from the lowest bit of a byte; the last byte is padded with zeros.
 * Places ascend within a block.
 *
 * If this is no smaller than the vector itself, the frame carries the vector. */
#ifndef TG_CODEC_BLOCK_FRAME_H
#define TG_CODEC_BLOCK_FRAME_H

#include "codec/block/block_select.h"
#include "codec/block/block_values.h"
#include "codec/codec_impl.h"

/* Encodes frames of blocks; the impl of the codecs. */
typedef struct tg__block_coder {
    int values; /* TG__BLOCK_F32 ... */
    size_t keep;
    /* y (height, width) = the values to select from for the block x (rows `stride` apart). NULL:
     * the block itself. */
    void (*forward)(const float *x, size_t stride, size_t height, size_t width, float *y);
    /* Unless `forward` is set, encoding leaves the picked elements of the vector here (count
     * entries), ascending, with their decoded values. */
    uint32_t *idx;
    float *val;
    size_t count;
    /* scratch */
    uint16_t *place;
    float *kept, hint;
} tg__block_coder;

/* Read the keys `keep` and `values`. See tg__codec_ops. */
tg_status tg__block_init(tg_codec *c);
/* Write the parts. A segment that a part boundary cuts becomes vectors.
 * Errors  TG_E_SPACE (not if parts have room for the bound), TG_E_NOMEM */
TG_NODISCARD tg_status tg__block_encode(tg_codec *c, const tg_encode_context *ctx, const float *x,
                                        tg__part *parts, size_t nparts);

/* The check of codecs that use these frames. */
TG_NODISCARD tg_status tg__block_check(const tg__frame *f);
/* A block of a checked frame: its tensor's number, its columns and first element in the vector, and
 * the places and values (b->keep) of the kept elements. */
typedef struct tg__block_place {
    size_t tensor, cols, base;
    const tg__block *b;
    const uint16_t *place;
    const float *val;
} tg__block_place;
typedef void tg__block_fn(void *arg, const tg__block_place *p);
/* For decode: where to write, or add, the blocks' elements. */
typedef struct tg__block_target {
    float *dst;
    bool add;
} tg__block_target;
/* Call fn for each block: in order, or with a pool for a tensor's blocks on several cores at
 * once. */
void tg__block_each(const tg__frame *f, tg__pool *pool, tg__block_fn *fn, void *arg);
/* The index of the block's first element in the vector; and that of the j-th kept element, relative
 * to it. */
static inline size_t tg__block_first(const tg__block_place *p)
{
    return p->base + p->b->row * p->cols + p->b->col;
}
static inline size_t tg__block_offset(const tg__block_place *p, size_t j)
{
    const uint32_t width = (uint32_t)p->b->width;
    return p->place[j] / width * p->cols + p->place[j] % width;
}
/* True if the tensors of a checked frame are these segments. */
bool tg__block_tensors_are(const tg__frame *f, const tg_segment *segments, size_t count);

/* The codecs' keys. */
#define TG__BLOCK_KEY_KEEP(text)                 \
    TG__KEY(INT, "keep", text, 1, TG__BLOCK_MAX, \
            "elements sent per block; all of a block that has no more")

#endif
