/* Vectors in the memory of a device: the backend that telegrad/device.h describes, if one is
 * attached. */
#ifndef TG_CODEC_ON_GPU_H
#define TG_CODEC_ON_GPU_H

#include "telegrad/device.h"

/* The backend; NULL: none is attached. */
const tg_device_ops *tg__device(void);

/* What a codec handle keeps for them (tg_codec.device). */
typedef struct tg__device_side tg__device_side;
void tg__device_side_free(tg__device_side *side); /* NULL is fine */

/* tg_codec_encode for an array on a device. Arguments have been checked.
 * Errors  those of tg_codec_encode */
TG_NODISCARD tg_status tg__device_encode(tg_codec *codec, const tg_encode_context *ctx,
                                         const tg_array *x, void *dst, size_t dst_cap,
                                         size_t *len_p);
/* tg_frame_decode and tg_frame_decode_add for an array on a device. The frame has been checked. */
TG_NODISCARD tg_status tg__device_decode(const void *frame, size_t len, const tg_array *x,
                                         bool add);

#endif
