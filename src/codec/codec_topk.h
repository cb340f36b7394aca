/* The top-k codec's steps, for the fused passes with a feedback (method/fused.c): begin, then
 * select with a source of one's own, then write. */
#ifndef TG_CODEC_TOPK_H
#define TG_CODEC_TOPK_H

#include "codec/codec_impl.h"
#include "codec/topk_select.h"

/* Check the context and make scratch ready, before anything is touched. *t_p is the codec's
 * selector, *k_p what to ask it for. Errors TG_E_ARG (density), TG_E_NOMEM */
TG_NODISCARD tg_status tg__topk_begin(tg_codec *c, const tg_encode_context *ctx, size_t n,
                                      tg__topk **t_p, size_t *k_p);

/* The selector holds k elements: write their frames and say what they will be decoded as. Errors
 * TG_E_SPACE (not if parts have room for the bound) */
TG_NODISCARD tg_status tg__topk_write(tg_codec *c, size_t k, tg__part *parts, size_t nparts,
                                      tg__view *view_p);

#endif
