/* The single pass of the sign codec, for the codec itself and with a residual (method/fused.c). */
#ifndef TG_CODEC_SIGN_H
#define TG_CODEC_SIGN_H

#include "codec/codec_impl.h"

/* Encode the elements of the part. With g: x += g first, and x -= decoded afterwards; otherwise x
 * is only read. The part has room for the codec's bound.
 * Errors  TG_E_NOMEM: x is unchanged */
TG_NODISCARD tg_status tg__sign_write(tg_codec *c, const tg_encode_context *ctx, float *x,
                                      const float *g, tg__part *part);

/* The bits of a checked, coded frame that decodes to 1 and -1 (scale=none); NULL for any other
 * frame. */
const uint8_t *tg__sign_bits(const uint8_t *frame);

#endif
