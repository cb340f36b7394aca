/* Handshake: first of all, the ranks compare their settings, and the engine becomes a channel of
 * the transport. */
#ifndef TG_HANDSHAKE_H
#define TG_HANDSHAKE_H

#include "engine/engine.h"

/* Compare a text on all ranks. All ranks call it at the same point; for several engines on a
 * transport, in the same order. On success the engine's envelopes carry the hash of the text.
 * text     lines "key=value", in the same order on all ranks. The versions of the library and the
 *          wire format are compared first
 * at_once  see tg__engine_join
 * Errors   TG_E_MISMATCH (TG_E_VERSION for the versions): names the first line that differs, both
 *          values and the rank; TG_E_PEER; TG_E_STATE (no tags are left) */
TG_NODISCARD tg_status tg__handshake(tg__engine *e, const char *text, uint32_t at_once);

#endif
