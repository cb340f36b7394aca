/* The top-k codec's steps, for the fused passes with a feedback (method/fused.c): begin, then
 * select with a source of one's own, then finish. */
#ifndef TG_CODEC_TOPK_H
#define TG_CODEC_TOPK_H

#include "codec/codec_impl.h"
#include "codec/topk_select.h"

/* Check the context and make scratch ready, before anything is touched. *t_p is the codec's
 * selector, *k_p what to ask it for. Errors TG_E_ARG (density), TG_E_NOMEM */
TG_NODISCARD tg_status tg__topk_begin(tg_codec *c, const tg_encode_context *ctx, size_t n,
                                      tg__topk **t_p, size_t *k_p);

/* The selector holds k elements: round their values as they will be decoded. */
void tg__topk_quantise(tg_codec *c, size_t k, tg__view *view_p);

/* Write the frames of what tg__topk_quantise was given. Errors TG_E_SPACE (not if parts have room
 * for the bound) */
TG_NODISCARD tg_status tg__topk_write(tg_codec *c, const tg__view *view, tg__part *parts,
                                      size_t nparts);

#endif
