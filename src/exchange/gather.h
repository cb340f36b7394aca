/* Every rank's bytes to all others: for handshakes, sums of a few numbers, barriers. Not a tensor
 * exchange: the payload is opaque (no frame). One round, one one-way delay. */
#ifndef TG_GATHER_H
#define TG_GATHER_H

#include "exchange/exchange.h"

/* cap: most bytes a rank may say. Errors TG_E_NOMEM */
TG_NODISCARD tg_status tg__gather_create(int rank, int size, size_t cap, tg__exchange **x_p);
/* What this rank says (len <= cap), before each start. */
void tg__gather_set(tg__exchange *x, const void *bytes, size_t len);
/* Likewise, as many zeros as there is room for (or what a start before left there). */
void tg__gather_say_all(tg__exchange *x);
/* `rank` says len bytes, no more and no fewer: else the exchange fails with TG_E_CORRUPT. Without
 * this any number up to cap is fine. */
void tg__gather_expect(tg__exchange *x, int rank, size_t len);
/* After it finished: what `rank` said. Valid until the next start. */
const uint8_t *tg__gather_get(const tg__exchange *x, int rank, size_t *len_p);

#endif
