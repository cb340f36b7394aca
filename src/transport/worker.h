/* How ranks reach servers. Transports deliver by tag, and a server cannot know which tag comes
 * next. So a message to a server is sent as two messages with fixed tags: a stamp, which gives the
 * tag and the length, and then the message. The server answers it once, with tag tg__answer_tag,
 * and the receive for the answer is posted first. Until the answer arrives, the message must not
 * change, even after its send is done: over a transport that can reconnect (renew), it is sent
 * again if the connection breaks. Such messages are numbered, so that the server takes each of
 * them once. */
#ifndef TG_TRANSPORT_WORKER_H
#define TG_TRANSPORT_WORKER_H

#include "base/mem.h"
#include "telegrad/transport.h"

/* Nothing else is sent to servers, so their own messages may have these tags. */
#define TG__TAG_STAMP (TG_TAG_LIMIT - 1)
#define TG__TAG_STAMPED (TG_TAG_LIMIT - 2)

/* A stamp, little-endian: tag (4), worker (4), length (8), number (8). */
#define TG__WORKER_STAMP 24

typedef struct tg__stamp {
    uint32_t tag;
    uint32_t worker; /* random, the same in all stamps of a worker; 0: it does not come back */
    uint64_t len;
    uint64_t number; /* of a worker's messages to this server, from 1; 0 with worker 0 */
} tg__stamp;

static inline void tg__stamp_write(uint8_t bytes[TG__WORKER_STAMP], const tg__stamp *s)
{
    tg__put32(bytes, s->tag);
    tg__put32(bytes + 4, s->worker);
    tg__put64(bytes + 8, s->len);
    tg__put64(bytes + 16, s->number);
}

static inline tg__stamp tg__stamp_read(const uint8_t bytes[TG__WORKER_STAMP])
{
    return (tg__stamp){tg__get32(bytes), tg__get32(bytes + 4), tg__get64(bytes + 8),
                       tg__get64(bytes + 16)};
}

static inline uint32_t tg__answer_tag(uint32_t tag)
{
    return tag | 1u << 6; /* of the next round of an exchange */
}

/* Check the number of servers for the public function `call`.
 * Errors  TG_E_ARG */
TG_NODISCARD tg_status tg__servers_check(const char *call, const tg_transport *t, int servers);

#endif
