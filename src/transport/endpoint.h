/* Shared by the transports of this room: argument checks, a pool of small records, times as
 * text. */
#ifndef TG_ENDPOINT_H
#define TG_ENDPOINT_H

#include "telegrad/transport.h"

/* Users' tags are below TG_TAG_LIMIT; the tags that a transport must carry for decorators are below
 * this. */
#define TG__TAG_CARRIED ((uint32_t)1 << 26)

/* Check the arguments of post_send and post_recv (`verb` is for the message). Inline, so that
 * libtelegrad-mpi needs only the core's public functions.
 * Errors  TG_E_ARG */
static inline tg_status tg__post_check(const tg_transport *t, const char *verb, int peer,
                                       uint32_t tag, uint32_t tag_limit, const void *buf,
                                       size_t len, const tg_request *req)
{
    if (peer < 0 || peer >= t->size || peer == t->rank)
        return tg_fail(TG_E_ARG, "%s: peer=%d: allowed: 0..%d, not this rank itself (%d)", verb,
                       peer, t->size - 1, t->rank);
    if (tag >= tag_limit)
        return tg_fail(TG_E_ARG, "%s: tag=%lu: allowed: tag < %lu", verb, (unsigned long)tag,
                       (unsigned long)tag_limit);
    if (!req || (!buf && len))
        return tg_fail(TG_E_ARG, "%s: %s is NULL", verb, req ? "buf" : "req");
    return TG_OK;
}

/* The servers that a rank reaches, and all its peers: ranks and servers. */
static inline int tg__servers_of(const tg_transport *t)
{
    return TG_HAS(tg_transport, t, servers) ? (int)t->servers : 0;
}
/* Of a worker that is alone among servers: its number among workers. */
static inline int tg__seat_of(const tg_transport *t)
{
    return TG_HAS(tg_transport, t, seats) ? t->seat : 0;
}
static inline bool tg__has_seat(const tg_transport *t)
{
    return TG_HAS(tg_transport, t, seats) && t->seats > 0;
}
static inline size_t tg__peers_of(const tg_transport *t)
{
    return (size_t)t->size + (size_t)tg__servers_of(t);
}

/* How many times the timeout one message may take while its bytes move. */
#define TG__MESSAGE_TIMEOUTS 10

/* tg_transport_ops.moved_ns; 0 without it. */
static inline int64_t tg__moved_ns(tg_transport *t, int peer, bool send)
{
    return TG_HAS(tg_transport_ops, t->ops, moved_ns) && t->ops->moved_ns != NULL
               ? t->ops->moved_ns(t, peer, send)
               : 0;
}
/* When a peer that is to send was last active: it may be taking what it needs before. */
static inline int64_t tg__active_ns(tg_transport *t, int peer)
{
    const int64_t came = tg__moved_ns(t, peer, false), went = tg__moved_ns(t, peer, true);
    return came > went ? came : went;
}

/* Check that the public function `call` can use the transport t, which is its argument `name`.
 * Errors  TG_E_ARG: NULL, or a table of another size or with missing members */
TG_NODISCARD tg_status tg__transport_check(const char *call, const char *name,
                                           const tg_transport *t);

/* From now on, tg_transport_destroy calls this function first. If it returns true, it takes over,
 * and destroys t itself when t is no longer used. */
void tg__transport_keep(bool (*keeps)(tg_transport *t));

/* Check that `what` can use `link`.
 * Errors  TG_E_ARG: struct_size, a rate or a time outside what tg_transport_shaped allows */
TG_NODISCARD tg_status tg__link_check(const char *what, const tg_link *link);

/* Records of one size that are frequently taken and returned; in steady state nothing is allocated.
 * Zero-initialise and set item_bytes (at least a pointer's size). One thread at a time. */
typedef struct tg__records {
    size_t item_bytes;
    void *spare;  /* list of returned records */
    void *chunks; /* list of allocations */
} tg__records;

/* Take a zeroed record.
 * Errors  TG_E_NOMEM */
TG_NODISCARD tg_status tg__records_take(tg__records *pool, void *item_p);
void tg__records_give(tg__records *pool, void *item);
void tg__records_fini(tg__records *pool); /* frees all records, returned or not */

/* Parse the first len characters of text as a time (telegrad/tools.h) of at most an hour. Returns
 * false, and leaves *ns_p unchanged, if they are not one. Threads: any */
bool tg__delay_parse(const char *text, size_t len, int64_t *ns_p);

#define TG__TIME_MAX_NS INT64_C(3600000000000) /* longest delay and jitter */

#endif
