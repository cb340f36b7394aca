/* The steps of the 2-bit codec, for the fused pass with a residual (method/fused.c). */
#ifndef TG_CODEC_TWOBIT_H
#define TG_CODEC_TWOBIT_H

#include "codec/quant/ternary.h"

/* Check room in the frames and allocate memory, so that tg__twobit_write cannot fail.
 * Errors  TG_E_SPACE, TG_E_NOMEM */
TG_NODISCARD tg_status tg__twobit_reserve(tg_codec *c, const tg_encode_context *ctx,
                                          const tg__part *parts, size_t nparts);
/* True if the thresholds must be estimated, so that tg__twobit_write needs the vector first. */
bool tg__twobit_estimates(const tg_codec *c, const tg_encode_context *ctx);
/* Write the frames of source. x (n) is the vector for estimates; afterwards it holds the vector
 * itself or what the frames leave of it. Call it after tg__twobit_reserve with the same
 * arguments. */
void tg__twobit_write(tg_codec *c, const tg_encode_context *ctx, const tg__ternary *source,
                      const float *x, size_t n, tg__part *parts, size_t nparts);

#endif
