/* Frames with strips, as the host's src/codec/sign/strips.c makes them of a whole vector. */
#ifndef TG_CUDA_STRIP_FRAME_H
#define TG_CUDA_STRIP_FRAME_H

#include "cuda_impl.h"
#include "lines.h"
#include "strips.h"

typedef struct tg__strip_frame {
    uint8_t id;
    uint16_t aux;
    tg__strip_kind kind;
    tg__strip *strip; /* (count) */
    size_t count, nvalues, bit_bytes;
    size_t at_values, len; /* offset of the values in the payload; its bytes */
    bool dense;            /* codes do not pay */
    float *values;         /* device memory, followed by: */
    uint8_t *bits;
    uint32_t *spoilt;    /* the passes set it to 1 if some element is not finite */
    tg__gpu_buffer host; /* pinned */
} tg__strip_frame;

/* Lay out the strips of the coder's segments; fewer than min_rows rows are a vector. plain: vectors
 * are sent as they are, if they are few. id, aux and kind are set. */
TG_NODISCARD tg_status tg__strip_frame_make(tg_coder *c, tg__strip_frame *f, size_t min_rows,
                                            bool plain);
void tg__strip_frame_free(tg__strip_frame *f);
/* Make lines (line_table.h) of the strips with at least `least` and at most `most` rows: of each
 * row, or of the vector (rows = 0). Waits. */
TG_NODISCARD tg_status tg__strip_frame_lines(tg_coder *c, const tg__strip_frame *f, size_t least,
                                             size_t most, tg__lines *lines);
/* Before the passes. */
TG_NODISCARD tg_status tg__strip_frame_begin(tg_coder *c, tg__strip_frame *f);
/* After them: copy values and bits to the host and make the frame of them. Waits.
 * Errors  TG_E_NONFINITE */
TG_NODISCARD tg_status tg__strip_frame_end(tg_coder *c, tg__strip_frame *f, uint8_t *dst,
                                           tg_coded *coded);

/* tg__coder_ops.decode of a frame with strips. */
TG_NODISCARD tg_status tg__strip_frame_sum(tg_queue *q, const uint8_t *host, const uint8_t *frame,
                                           size_t len, tg__strip_kind kind, float *x, size_t n,
                                           bool first, bool last, float share, uint64_t *spoilt);

#endif
