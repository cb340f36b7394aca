/* The coded form of a sparse vector: aux = value coding (bits 0..3: 0 f32, 1 fp16), index coding
 * (4..7), Rice's parameter (8..12); payload = k as u32, k values, the index code to the end. 1 <= k
 * <= n. */
#ifndef TG_CODEC_TOPK_FRAME_H
#define TG_CODEC_TOPK_FRAME_H

#include "codec/codec_impl.h"

enum { TG__VALUES_F32 = 0, TG__VALUES_FP16 = 1 };

/* What is written: k elements, ascending, absolute indices. val: decoded values; half: their fp16
 * words (FP16 only).
 */
typedef struct tg__sparse {
    const uint32_t *idx;
    const float *val;
    const uint16_t *half;
    size_t k;
    int values, index; /* TG__VALUES_*, TG__INDEX_* (or AUTO) */
} tg__sparse;

/* Write one part's frame: zero if it has no elements, dense if the coded form is not smaller.
 * `rebased` has room for the elements of one part (may be NULL if every part begins at 0). Errors
 * TG_E_SPACE */
TG_NODISCARD tg_status tg__sparse_write(tg__part *part, uint8_t wire_id, const tg__sparse *s,
                                        uint32_t *rebased);

TG_NODISCARD tg_status tg__sparse_check(const tg__frame *f);
void tg__sparse_decode(const tg__frame *f, size_t lo, size_t hi, float *dst, bool add);

#endif
