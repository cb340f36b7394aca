/* Before anything else ranks compare what they were set up with, and the engine becomes a channel
 * of the transport. */
#ifndef TG_HANDSHAKE_H
#define TG_HANDSHAKE_H

#include "engine/engine.h"

/* text: lines "key=value", in an order that all ranks share; the library's and the wire's version
 * are put before them. All ranks call it at the same point: where they make several engines on a
 * transport, in the same order. On success the engine's envelopes carry the hash of the text.
 * at_once: see tg__engine_join. Errors TG_E_MISMATCH (TG_E_VERSION for the versions): the first
 * line that differs, both values, and the rank; TG_E_PEER; TG_E_STATE: no tags are left */
TG_NODISCARD tg_status tg__handshake(tg__engine *e, const char *text, uint32_t at_once);

/* Every rank's `len` bytes (len <= 32768) to all: all (size * len) in rank order. Blocking. */
TG_NODISCARD tg_status tg__gather_all(tg__engine *e, const void *own, size_t len, void *all);

/* Rank 0's `len` bytes to all, in place. Blocking. */
TG_NODISCARD tg_status tg__share(tg__engine *e, void *data, size_t len);

/* own: how it went on this rank. All go on, or all fail with what the first rank that failed says.
 * Blocking. */
TG_NODISCARD tg_status tg__agree(tg__engine *e, tg_status own);

#endif
