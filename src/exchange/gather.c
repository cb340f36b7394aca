#include "exchange/gather.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

typedef struct gather {
    size_t cap, *len; /* len (size) */
    size_t *expected; /* (size) SIZE_MAX: any length up to cap */
    uint8_t **msg;    /* (size) envelope room + cap bytes */
    int told, sent, received;
} gather;

static void gather_fini(tg__exchange *x)
{
    gather *g = x->impl;
    if (g == NULL)
        return;
    for (int r = 0; g->msg != NULL && r < x->size; r++)
        free(g->msg[r]);
    free(g->msg);
    free(g->len);
    free(g->expected);
    free(g);
    x->impl = NULL;
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
        const int peer = (x->rank + (send ? k : x->size - k)) % x->size;
        wish[count++] = (tg__wish){.send = send,
                                   .peer = peer,
                                   .msg = g->msg[send ? x->rank : peer],
                                   .len = send ? g->len[x->rank] : g->cap,
                                   .id = (uint32_t)(send ? x->size + peer : peer)};
    }
    return count;
}

static tg_status gather_done(tg__exchange *x, uint32_t id, size_t len)
{
    gather *g = x->impl;
    if (id >= (uint32_t)x->size) {
        g->sent++;
    } else {
        if (g->expected[id] != SIZE_MAX && g->expected[id] != len)
            return tg_fail(TG_E_CORRUPT, "rank %u sent %zu bytes where %zu were expected", id, len,
                           g->expected[id]);
        g->len[id] = len;
        g->received++;
    }
    return TG_OK;
}

static bool gather_finished(const tg__exchange *x)
{
    const gather *g = x->impl;
    return g->sent == x->size - 1 && g->received == x->size - 1;
}

static const tg__exchange_ops gather_ops = {
    .entry = {.name = "gather", .summary = "every rank's bytes to all", .source = ""},
    .fini = gather_fini,
    .start = gather_start,
    .wants = gather_wants,
    .done = gather_done,
    .finished = gather_finished,
};

static tg_status fill(tg__exchange *x, size_t cap)
{
    gather *g;
    TG_TRY(tg_alloc(1, sizeof *g, &g));
    x->impl = g;
    g->cap = cap;
    TG_TRY(tg_alloc((size_t)x->size, sizeof *g->len, &g->len));
    TG_TRY(tg_alloc((size_t)x->size, sizeof *g->msg, &g->msg));
    TG_TRY(tg_alloc((size_t)x->size, sizeof *g->expected, &g->expected));
    for (int r = 0; r < x->size; r++) {
        g->expected[r] = SIZE_MAX;
        TG_TRY(tg_alloc(TG__ENVELOPE_BYTES + cap, 1, &g->msg[r]));
    }
    return TG_OK;
}

tg_status tg__gather_create(int rank, int size, size_t cap, tg__exchange **x_p)
{
    tg__exchange *x;
    TG_TRY(tg_alloc(1, sizeof *x, &x));
    x->ops = &gather_ops;
    x->rank = rank;
    x->size = size;
    tg_status status = fill(x, cap);
    if (status != TG_OK) {
        gather_fini(x);
        free(x);
        return status;
    }
    *x_p = x;
    return TG_OK;
}

void tg__gather_set(tg__exchange *x, const void *bytes, size_t len)
{
    gather *g = x->impl;
    memcpy(g->msg[x->rank] + TG__ENVELOPE_BYTES, bytes, len);
    g->len[x->rank] = len;
}

void tg__gather_say_all(tg__exchange *x)
{
    gather *g = x->impl;
    g->len[x->rank] = g->cap;
}

void tg__gather_expect(tg__exchange *x, int rank, size_t len)
{
    gather *g = x->impl;
    g->expected[rank] = len;
}

const uint8_t *tg__gather_get(const tg__exchange *x, int rank, size_t *len_p)
{
    const gather *g = x->impl;
    *len_p = g->len[rank];
    return g->msg[rank] + TG__ENVELOPE_BYTES;
}
