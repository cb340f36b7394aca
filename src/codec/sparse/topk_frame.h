/* The coded form of a sparse vector: aux = value coding (bits 0..3, sparse_values.h), index coding
 * (4..7), its parameter (8..12); payload = k as u32, the values of k elements, the index code to
 * the end. 1 <= k <= n. Codecs of any wire id may use it; their decode is TG__WHOLE. */
#ifndef TG_CODEC_TOPK_FRAME_H
#define TG_CODEC_TOPK_FRAME_H

#include "codec/codec_impl.h"
#include "codec/sparse/sparse_values.h"

/* The vector to write: k elements, ascending, absolute indices. */
typedef struct tg__sparse {
    const uint32_t *idx;
    /* (k) not 0; each frame rounds its own values in place to what readers decode (f32 and level
     * leave them unchanged) */
    float *val;
    size_t k;
    int values, index; /* TG__VALUES_*, TG__INDEX_* (or AUTO) */
} tg__sparse;

/* Write one part's frame: zero if it has no elements, dense if the coded form is not smaller.
 * `rebased` has room for the elements of one part (may be NULL if every part begins at 0).
 * Errors  TG_E_SPACE: not if the part has room for a head and its elements as f32 */
TG_NODISCARD tg_status tg__sparse_write(tg__part *part, uint8_t wire_id, const tg__sparse *s,
                                        uint32_t *rebased);

/* The check and decode functions of codecs with this form. */
TG_NODISCARD tg_status tg__sparse_check(const tg__frame *f);
void tg__sparse_decode(const tg__frame *f, size_t lo, size_t hi, float *dst, bool add);

#endif
