/* Frames whose length is known before they are encoded. Kernels write the payload into device
 * memory and set two flags; then the payload goes to the host, and the host writes the head. */
#ifndef TG_CUDA_KNOWN_FRAME_H
#define TG_CUDA_KNOWN_FRAME_H

#include "cuda_impl.h"

typedef struct tg__known_frame {
    tg__gpu_buffer device; /* flags, padding, payload */
    tg__gpu_buffer answer; /* pinned: the flags */
    /* Device memory. [0] becomes 1 if some code is not 0, [1] if the vector is not finite. */
    uint32_t *flags;
    uint8_t *payload;
    size_t len; /* bytes of the payload */
} tg__known_frame;

/* f is zeroed.
 * aligned  the byte of the payload that is aligned to 16 bytes */
TG_NODISCARD tg_status tg__known_frame_init(tg_queue *q, tg__known_frame *f, size_t len,
                                            size_t aligned);
void tg__known_frame_fini(tg__known_frame *f); /* waits for nothing */
/* Clear the flags. */
TG_NODISCARD tg_status tg__known_frame_begin(tg_queue *q, const tg__known_frame *f);
/* Write the frame, of zeros if no code is set. Waits. As tg__coder_ops.encode. */
TG_NODISCARD tg_status tg__known_frame_end(const tg_coder *c, const tg__known_frame *f, void *dst,
                                           uint8_t wire_id, uint16_t aux, tg_coded *coded);

#endif
