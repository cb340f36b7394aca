/* Gather: every rank sends some bytes to all others. For handshakes, sums of a few numbers, and
 * barriers. The payload is opaque, not a frame. One round, one one-way delay. */
#ifndef TG_GATHER_H
#define TG_GATHER_H

#include "exchange/exchange.h"

/* Create a gather.
 * cap     bytes per rank, at most
 * full    ranks below it must send exactly cap bytes, else the exchange fails with TG_E_CORRUPT
 * Errors  TG_E_NOMEM */
TG_NODISCARD tg_status tg__gather_create(int rank, int size, size_t cap, int full,
                                         tg__exchange **x_p);
/* Set what this rank sends (len <= cap), before the first start and whenever it changes.
 * bytes  NULL: zeros */
void tg__gather_set(tg__exchange *x, const void *bytes, size_t len);
/* What `rank` sent, after the gather has finished. Valid until the next start. */
const uint8_t *tg__gather_get(const tg__exchange *x, int rank, size_t *len_p);

#endif
