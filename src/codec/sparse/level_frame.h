/* Sparse vectors whose values have few magnitudes (strom, adacomp): a growing list, and its frames.
 * These are sparse frames (topk_frame.h) whose values are runs of one magnitude, and signs. */
#ifndef TG_CODEC_LEVEL_FRAME_H
#define TG_CODEC_LEVEL_FRAME_H

#include "codec/sparse/topk_frame.h"
#include "base/keys.h"
#include "wire/index.h"

typedef struct tg__levels {
    int index; /* coding */
    size_t k, room;
    uint32_t *idx; /* (k) ascending */
    float *val;    /* (k) not 0 */
    uint32_t *rebased;
} tg__levels;

/* Read the key index. */
void tg__levels_init(tg__levels *l, const tg_codec *c);
/* Reserve room for k elements, and TG__SELECT_SLACK more; the list's contents are lost.
 * Errors  TG_E_NOMEM */
TG_NODISCARD tg_status tg__levels_reserve(tg_codec *c, tg__levels *l, size_t k);
/* Write frames of codec wire_id, each with the elements of its part. view_p may be NULL.
 * Errors  TG_E_SPACE */
TG_NODISCARD tg_status tg__levels_write(const tg__levels *l, uint8_t wire_id, tg__part *parts,
                                        size_t nparts, tg__view *view_p);

/* For tg__codec_ops; decode is tg__sparse_decode. */
TG_NODISCARD tg_status tg__levels_check(const tg__frame *f);

#define TG__KEY_BIN                      \
    TG__KEY(INT, "bin", "0", 0, 1 << 20, \
            "elements per bin; 0: 50 in tensors of 3 or more dimensions, else 500")
#endif
