/* Forwarding between ranks that cannot reach each other, at the meeting point. Bytes pass as they
 * are: the ranks encrypt them for each other.
 *
 * A thread of its own does this, because the ranks behind it must go on while this one computes.
 * It knows sockets only. A connection that is not read holds up its own bytes and no others': each
 * direction has one buffer, and nothing is read while it is full. All take turns. */
#ifndef TG_NET_RELAY_H
#define TG_NET_RELAY_H

#include "telegrad/base.h"

typedef struct tg__relay tg__relay;

/* Start the thread.
 * Errors  TG_E_NOMEM, TG_E_IO (no descriptors left) */
TG_NODISCARD tg_status tg__relay_create(tg__relay **r_p);
/* Connect two sockets with each other, until both have ended. They belong to the relay, also if
 * this fails. An end of one is told to the other once all bytes before it have passed.
 * pair    a number of the two ranks: what was connected for them before is closed, so that they
 *         cannot pile up connections
 * Errors  TG_E_NOMEM */
TG_NODISCARD tg_status tg__relay_add(tg__relay *r, int a, int b, uint64_t pair);
/* Nothing is connected. */
bool tg__relay_is_idle(tg__relay *r);
/* Stop the thread, and close what is left. NULL is fine. */
void tg__relay_destroy(tg__relay *r);

#endif
