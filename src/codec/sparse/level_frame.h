/* Sparse vectors whose values have few magnitudes (strom, adacomp): a growing list, and its frames.
 * These are sparse frames (topk_frame.h) whose values are runs of one magnitude, and signs. */
#ifndef TG_CODEC_LEVEL_FRAME_H
#define TG_CODEC_LEVEL_FRAME_H

#include "codec/sparse/topk_frame.h"
#include "telegrad/spec.h"

typedef struct tg__levels {
    int index; /* coding */
    size_t k, room;
    uint32_t *idx; /* (k) ascending */
    float *val;    /* (k) not 0 */
    uint32_t *rebased;
    size_t idx_cap, val_cap, rebased_cap;
} tg__levels;

/* Read the key index. */
void tg__levels_init(tg__levels *l, const tg_codec *c);
void tg__levels_free(tg__levels *l);
/* Reserve room for k elements, and TG__SELECT_SLACK more; the list's contents are lost.
 * Errors  TG_E_NOMEM */
TG_NODISCARD tg_status tg__levels_reserve(tg__levels *l, size_t k);
/* Write frames of codec wire_id, each with the elements of its part. view_p may be NULL.
 * Errors  TG_E_SPACE */
TG_NODISCARD tg_status tg__levels_write(const tg__levels *l, uint8_t wire_id, tg__part *parts,
                                        size_t nparts, tg__view *view_p);

/* For tg__codec_ops; decode is tg__sparse_decode. */
size_t tg__levels_bound(const tg_codec *c, size_t n);
TG_NODISCARD tg_status tg__levels_check(const tg__frame *f);

#define TG__KEY_BIN                                                                    \
    {                                                                                  \
        .name = "bin", .type = TG_KEY_INT, .def = "0", .max = 1 << 20,                 \
        .help = "elements per bin; 0: 50 in tensors of 3 or more dimensions, else 500" \
    }
#define TG__KEY_LEVEL_INDEX                                                              \
    {                                                                                    \
        .name = "index", .type = TG_KEY_CHOICE, .def = "auto",                           \
        .choices = "auto|rice|raw|bitmap|ef", .help = "index coding; auto: the smallest" \
    }
#endif
