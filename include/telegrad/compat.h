/* telegrad/compat.h - the codes of other systems, bit for bit, for programs that talk to them.
 *
 * These codes have no header: the receiver must know n and the threshold. Between telegrad's own
 * ranks use the methods `2bit` and `strom`, whose frames are checked and smaller.
 * docs/wire-format.md describes both layouts. With lookahead=0 they follow the same rule.
 *
 * Both encoders follow the same rule, element by element:
 *     r += g
 *     send +threshold if r >= threshold, -threshold if r <= -threshold, else nothing
 *     r -= sent
 *
 * NULL     allowed for arrays of no elements
 * Threads  any; all functions are pure */
#ifndef TELEGRAD_COMPAT_H
#define TELEGRAD_COMPAT_H

#include "telegrad/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- MXNet's 2-bit words: 16 elements each --------------------------------------------------- */

/* Size of the code of n elements in bytes: 4 * ceil(n / 16). */
TG_API size_t tg_mxnet_2bit_bytes(size_t n);

/* Encode n gradients.
 * residual   (n) f32, updated to residual + g - sent
 * g          (n) f32, must be finite (not checked) and must not overlap residual
 * threshold  finite, > 0 (MXNet: 0.5, where gradients are sums over the batch)
 * dst        [out] (tg_mxnet_2bit_bytes(n)) element i is in byte i / 4, the first of four in the
 *            two upper bits: 11 is threshold, 10 is -threshold, 00 is nothing. Codes from n on are
 *            00
 * dst_cap    bytes
 * Errors     TG_E_ARG (nothing is changed), TG_E_SPACE
 * Source     MXNet, src/kvstore/gradient_compression-inl.h */
TG_API TG_NODISCARD tg_status tg_mxnet_2bit_encode(float *residual, const float *g, size_t n,
                                                   float threshold, void *dst, size_t dst_cap);

/* Decode and add: dst (n) += decoded. Nothing is written unless the whole code is valid.
 * Errors  TG_E_ARG, TG_E_CORRUPT (len is not that of n; a code 01; a code beyond n is not 00) */
TG_API TG_NODISCARD tg_status tg_mxnet_2bit_decode_add(const void *src, size_t len, size_t n,
                                                       float threshold, float *dst);

/* ---- Strom's words: one for each element that is sent ---------------------------------------- */

/* Encode n gradients.
 * residual, g, threshold  as above
 * dst      [out] words of 32 bits in this machine's byte order: bits 0 to 30 are the index, bit 31
 *          is 1 for -threshold. Indices ascend
 * dst_cap  words; n are always enough
 * count_p  [out] words written, set on success only
 * Errors   TG_E_ARG, TG_E_SPACE (more than dst_cap words are needed; nothing is changed)
 * Source   Strom 2015, Interspeech, sec. 4.1 */
TG_API TG_NODISCARD tg_status tg_strom_encode(float *residual, const float *g, size_t n,
                                              float threshold, uint32_t *dst, size_t dst_cap,
                                              size_t *count_p);

/* Decode and add: dst (n) += decoded. Words may come in any order, and an index several times,
 * since other programs may send that. Nothing is written unless all words are valid.
 * Errors  TG_E_ARG, TG_E_CORRUPT (an index is not below n) */
TG_API TG_NODISCARD tg_status tg_strom_decode_add(const uint32_t *words, size_t count, size_t n,
                                                  float threshold, float *dst);

#ifdef __cplusplus
}
#endif
#endif
