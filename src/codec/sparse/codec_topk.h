/* The two steps of the top-k codec, for the fused passes with a feedback (method/fused.c): begin,
 * then encode with the caller's source. */
#ifndef TG_CODEC_TOPK_H
#define TG_CODEC_TOPK_H

#include "codec/codec_impl.h"
#include "codec/sparse/topk_select.h"

/* Check the context and allocate scratch, before anything is changed.
 * Errors  TG_E_ARG (density), TG_E_NOMEM */
TG_NODISCARD tg_status tg__topk_begin(tg_codec *c, const tg_encode_context *ctx, size_t n);

/* Call it after tg__topk_begin with the same context: select from s, write the frames, and return
 * what they will be decoded as.
 * Errors  TG_E_SPACE (not if parts have room for the bound), TG_E_NONFINITE */
TG_NODISCARD tg_status tg__topk_encode(tg_codec *c, const tg_encode_context *ctx,
                                       const tg__topk_source *s, size_t n, tg__part *parts,
                                       size_t nparts, tg__view *view_p);

#endif
