#include "exchange/gather.h"
#include "exchange/message.h"

#include <string.h>

typedef struct gather {
    tg__messages msg; /* (size) */
    size_t *len;      /* (size) */
    int full;         /* ranks below it send exactly msg.cap bytes */
    int told, sent, received;
} gather;

/* x->n is the number of bytes. */
static tg_status gather_init(tg__exchange *x)
{
    gather *g = x->impl;
    TG_TRY(tg__messages_alloc(x, &g->msg, (size_t)x->size, x->n));
    return tg__owned_alloc(&x->owned, (size_t)x->size, sizeof *g->len, &g->len);
}

static tg_status gather_start(tg__exchange *x)
{
    gather *g = x->impl;
    g->told = g->sent = g->received = 0;
    return TG_OK;
}

/* Receives, then sends, each in a different order on every rank, so that no rank comes first for
 * all others. Message number `rank` is the receive from that rank, number size + rank the send to
 * it. */
static size_t gather_wants(tg__exchange *x, tg__wish *wish, size_t max)
{
    gather *g = x->impl;
    const int others = x->size - 1;
    size_t count = 0;
    for (; count < max && g->told < 2 * others; g->told++) {
        const bool send = g->told >= others;
        const int k = 1 + g->told % others;
        const int peer = tg__around(x, send ? k : -k);
        wish[count++] = (tg__wish){.send = send,
                                   .peer = peer,
                                   .msg = tg__message(&g->msg, (size_t)(send ? x->rank : peer)),
                                   .len = send ? g->len[x->rank] : g->msg.cap,
                                   .id = (uint32_t)(send ? x->size + peer : peer)};
    }
    return count;
}

static tg_status gather_done(tg__exchange *x, uint32_t id, size_t len)
{
    gather *g = x->impl;
    if (id >= (uint32_t)x->size) {
        g->sent++;
        return TG_OK;
    }
    if ((int)id < g->full && len != g->msg.cap)
        return tg_fail(TG_E_CORRUPT, "rank %u sent %zu bytes where %zu were expected", id, len,
                       g->msg.cap);
    g->len[id] = len;
    g->received++;
    return TG_OK;
}

static bool gather_finished(const tg__exchange *x)
{
    const gather *g = x->impl;
    return g->sent == x->size - 1 && g->received == x->size - 1;
}

static const tg__exchange_ops gather_ops = {
    .entry = {"gather", "every rank's bytes to all", "", NULL},
    .impl_bytes = sizeof(gather),
    .init = gather_init,
    .start = gather_start,
    .wants = gather_wants,
    .done = gather_done,
    .finished = gather_finished,
};

tg_status tg__gather_create(int rank, int size, size_t cap, int full, tg__exchange **x_p)
{
    TG_TRY(tg__exchange_create(&gather_ops, rank, size, cap, NULL, NULL, x_p));
    ((gather *)(*x_p)->impl)->full = full;
    return TG_OK;
}

void tg__gather_set(tg__exchange *x, const void *bytes, size_t len)
{
    gather *g = x->impl;
    uint8_t *own = tg__message_frame(&g->msg, (size_t)x->rank);
    if (bytes == NULL)
        memset(own, 0, len);
    else
        memcpy(own, bytes, len);
    g->len[x->rank] = len;
}

const uint8_t *tg__gather_get(const tg__exchange *x, int rank, size_t *len_p)
{
    const gather *g = x->impl;
    *len_p = g->len[rank];
    return tg__message_frame(&g->msg, (size_t)rank);
}
