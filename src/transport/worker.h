/* How ranks reach servers over a transport that delivers by tag: a server cannot know which tag
 * comes next. So a message to a server is two messages with fixed tags: a stamp, which says the tag
 * and the length, and then the message. Answers have the tag of the receive that they are for. */
#ifndef TG_TRANSPORT_WORKER_H
#define TG_TRANSPORT_WORKER_H

#include "base/mem.h"
#include "telegrad/transport.h"

/* Nothing else is sent to servers, so their own messages may have these tags. */
#define TG__TAG_STAMP (TG_TAG_LIMIT - 1)
#define TG__TAG_STAMPED (TG_TAG_LIMIT - 2)
#define TG__WORKER_STAMP 16 /* bytes: tag (4), 0 (4), length (8); little-endian */

static inline void tg__worker_stamp(uint8_t stamp[TG__WORKER_STAMP], uint32_t tag, size_t len)
{
    tg__put32(stamp, tag);
    tg__put32(stamp + 4, 0);
    tg__put64(stamp + 8, len);
}

/* Check the number of servers for the public function `call`.
 * Errors  TG_E_ARG */
TG_NODISCARD tg_status tg__servers_check(const char *call, const tg_transport *t, int servers);

#endif
