/* The 2-bit codec's steps, for the fused pass with a residual (method/fused.c). */
#ifndef TG_CODEC_TWOBIT_H
#define TG_CODEC_TWOBIT_H

#include "codec/quant/ternary.h"

/* Room in the frames and in memory for what follows, so that it cannot fail. Errors TG_E_SPACE,
 * TG_E_NOMEM */
TG_NODISCARD tg_status tg__twobit_reserve(tg_codec *c, const tg_encode_context *ctx,
                                          const tg__part *parts, size_t nparts);
/* Whether the thresholds are to be estimated: tg__twobit_write needs the vector first. */
bool tg__twobit_estimates(const tg_codec *c, const tg_encode_context *ctx);
/* Make the frames of source; x (n) is the vector for estimates, and afterwards what is left of it
 * or itself. After tg__twobit_reserve with the same arguments. */
void tg__twobit_write(tg_codec *c, const tg_encode_context *ctx, const tg__ternary *source,
                      const float *x, size_t n, tg__part *parts, size_t nparts);

#endif
