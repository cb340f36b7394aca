/* The 1-bit codec's two passes, for itself and with a residual (method/fused.c). */
#ifndef TG_CODEC_ONEBIT_H
#define TG_CODEC_ONEBIT_H

#include "codec/codec_impl.h"

/* Encode the elements of the part. With g: x += g before, and x -= decoded after; else x is only
 * read. The part has room for the codec's bound. Errors TG_E_NOMEM: x is as it was */
TG_NODISCARD tg_status tg__onebit_write(tg_codec *c, const tg_encode_context *ctx, float *x,
                                        const float *g, tg__part *part);

#endif
