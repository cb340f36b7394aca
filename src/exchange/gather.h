/* Gather: every rank sends some bytes to all others. For handshakes, sums of a few numbers, and
 * barriers. The payload is opaque, not a frame. One round, one one-way delay. */
#ifndef TG_GATHER_H
#define TG_GATHER_H

#include "exchange/exchange.h"

/* Create a gather.
 * cap     bytes per rank, at most
 * Errors  TG_E_NOMEM */
TG_NODISCARD tg_status tg__gather_create(int rank, int size, size_t cap, tg__exchange **x_p);
/* Set what this rank sends (len <= cap). Call it before each start. */
void tg__gather_set(tg__exchange *x, const void *bytes, size_t len);
/* Send cap bytes instead: zeros, or the bytes that an earlier start left there. */
void tg__gather_say_all(tg__exchange *x);
/* Require `rank` to send exactly len bytes; otherwise the exchange fails with TG_E_CORRUPT. Without
 * this call any number up to cap is accepted. */
void tg__gather_expect(tg__exchange *x, int rank, size_t len);
/* What `rank` sent, after the gather has finished. Valid until the next start. */
const uint8_t *tg__gather_get(const tg__exchange *x, int rank, size_t *len_p);

#endif
