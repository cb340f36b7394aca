/* The steps of the strom codec, for the fused pass with a residual (method/fused.c). */
#ifndef TG_CODEC_STROM_H
#define TG_CODEC_STROM_H

#include "codec/quant/ternary.h"

/* Check room in the frames, and allocate memory for the codes.
 * Errors  TG_E_SPACE, TG_E_NOMEM */
TG_NODISCARD tg_status tg__strom_reserve(tg_codec *c, const tg_encode_context *ctx, size_t n,
                                         const tg__part *parts, size_t nparts);
/* True if the thresholds must be estimated, so that tg__strom_write needs the vector first. */
bool tg__strom_estimates(const tg_codec *c, const tg_encode_context *ctx);
/* Write the frames of source. x (n) is the vector for estimates; afterwards it holds the vector
 * itself or what the frames leave of it. Call it after tg__strom_reserve with the same arguments.
 * Errors  TG_E_NOMEM (more elements are sent than ever before, and the list cannot grow) */
TG_NODISCARD tg_status tg__strom_write(tg_codec *c, const tg_encode_context *ctx,
                                       const tg__ternary *source, const float *x, size_t n,
                                       tg__part *parts, size_t nparts, tg__view *view_p);
#endif
