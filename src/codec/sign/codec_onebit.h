/* The two passes of the 1-bit codec, for the codec itself and with a residual (method/fused.c). */
#ifndef TG_CODEC_ONEBIT_H
#define TG_CODEC_ONEBIT_H

#include "codec/codec_impl.h"

/* Encode the elements of the part. With g: x += g first, and x -= decoded afterwards; otherwise x
 * is only read. The part has room for the codec's bound.
 * Errors  TG_E_NOMEM: x is unchanged */
TG_NODISCARD tg_status tg__onebit_write(tg_codec *c, const tg_encode_context *ctx, float *x,
                                        const float *g, tg__part *part);

#endif
