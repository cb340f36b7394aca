/* telegrad/compat.h - codes of other systems, bit for bit: for programs that talk to them. They
 * carry no head: the receiver knows n and the threshold. Between telegrad's own ranks use the
 * methods `2bit` and `strom`, whose frames are checked and smaller. docs/wire-format.md has both
 * layouts.
 *
 * Both follow the same rule: r += g; where r >= threshold +threshold is sent, where r <= -threshold
 * -threshold; r -= sent. All functions are pure: any thread. Arrays of no elements may be NULL. */
#ifndef TELEGRAD_COMPAT_H
#define TELEGRAD_COMPAT_H

#include "telegrad/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- MXNet's 2-bit words: 16 elements each --------------------------------------------------- */

/* Bytes for n elements: 4 * ceil(n / 16). */
TG_API size_t tg_mxnet_2bit_bytes(size_t n);

/* residual  (n) f32, updated: residual + g - sent
 * g         (n) f32, finite (not checked); must not overlap residual
 * threshold finite and > 0 (MXNet: 0.5; its gradients are sums over the batch)
 * dst       (tg_mxnet_2bit_bytes(n)) element i is in byte i / 4, the first in the two upper bits:
 *           11 threshold, 10 -threshold, 00 nothing; codes from n on are 00
 * Errors    TG_E_ARG (nothing is touched), TG_E_SPACE
 * Source    MXNet, src/kvstore/gradient_compression-inl.h */
TG_API TG_NODISCARD tg_status tg_mxnet_2bit_encode(float *residual, const float *g, size_t n,
                                                   float threshold, void *dst, size_t dst_cap);

/* dst (n) += decoded. Nothing is written unless all is valid.
 * Errors  TG_E_ARG, TG_E_CORRUPT (len is not that of n; a code 01; a code beyond n is not 00) */
TG_API TG_NODISCARD tg_status tg_mxnet_2bit_decode_add(const void *src, size_t len, size_t n,
                                                       float threshold, float *dst);

/* ---- Strom's words: one for each element that is sent ---------------------------------------- */

/* residual, g, threshold as above
 * dst       words of 32 bits in this machine's byte order: bits 0..30 are the index, bit 31 is 1
 *           for -threshold. Indices ascend
 * dst_cap   words that fit; n always do
 * count_p   [out] words written; set on success only
 * Errors    TG_E_ARG; TG_E_SPACE (more than dst_cap are to be sent; nothing is touched)
 * Source    Strom 2015, Interspeech, sec. 4.1 */
TG_API TG_NODISCARD tg_status tg_strom_encode(float *residual, const float *g, size_t n,
                                              float threshold, uint32_t *dst, size_t dst_cap,
                                              size_t *count_p);

/* dst (n) += decoded. Words may come in any order, and an index more than once, as other writers
 * may send it. Nothing is written unless all is valid.
 * Errors  TG_E_ARG, TG_E_CORRUPT (an index is not below n) */
TG_API TG_NODISCARD tg_status tg_strom_decode_add(const uint32_t *words, size_t count, size_t n,
                                                  float threshold, float *dst);

#ifdef __cplusplus
}
#endif
#endif
