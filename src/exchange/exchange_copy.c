/* Exchanges without sums: result = decode(frame of one rank).
 *
 *   none       its own. There are no messages, so ranks diverge. For a single rank, and for
 *              strategies and tests that need only the codec's effect
 *   push       that of rank r - hop (modulo P), so the ranks get different results. hop is set
 *              before start, the same on all ranks, 0 <= hop < size; 0: nothing is sent. It serves
 *              gossip strategies and cannot be selected for gradients. Cost: 1 round, 1 delay, 1
 *              frame, for any number of ranks
 *   broadcast  that of rank 0. The other ranks have no part (nparts 0). It distributes parameters,
 *              and cannot be chosen for gradients. Cost: 1 round, 1 delay; rank 0 sends P-1
 *              frames */
#include "exchange/message.h"
#include "base/mem.h"

typedef struct copy {
    tg__messages own, came; /* (1) each, on ranks that send, or receive */
    size_t came_len;
    int source;               /* the rank whose frame is the result */
    int first;                /* the first rank that is sent to, counted from this one */
    uint32_t receives, sends; /* messages: the receive comes first */
    uint32_t told, over;      /* messages returned as wishes, and completed */
} copy;

static tg_status alloc_came(tg__exchange *x)
{
    copy *c = x->impl;
    return tg__messages_alloc(x, &c->came, 1, tg__codec_bound(x->codec, x->n));
}

static tg_status none_init(tg__exchange *x)
{
    copy *c = x->impl;
    c->source = x->rank;
    return tg__parts_alloc(x, &c->own, 1);
}

static tg_status push_init(tg__exchange *x)
{
    copy *c = x->impl;
    TG_TRY(tg__parts_alloc(x, &c->own, 1));
    return alloc_came(x);
}

static tg_status broadcast_init(tg__exchange *x)
{
    copy *c = x->impl;
    c->first = 1;
    c->receives = x->rank != 0;
    c->sends = x->rank == 0 ? (uint32_t)x->size - 1 : 0;
    return x->rank == 0 ? tg__parts_alloc(x, &c->own, 1) : alloc_came(x);
}

static tg_status copy_start(tg__exchange *x)
{
    copy *c = x->impl;
    c->told = c->over = 0;
    return TG_OK;
}

static tg_status push_start(tg__exchange *x)
{
    copy *c = x->impl;
    if (x->hop < 0 || x->hop >= x->size)
        return tg_fail(TG_E_ARG, "exchange push: hop=%d among %d ranks: allowed: 0 to %d", x->hop,
                       x->size, x->size - 1);
    c->source = tg__around(x, -x->hop);
    c->first = x->hop;
    c->receives = c->sends = x->hop != 0;
    return copy_start(x);
}

static size_t copy_wants(tg__exchange *x, tg__wish *wish, size_t max)
{
    copy *c = x->impl;
    size_t count = 0;
    for (; c->told < c->receives + c->sends && count < max; c->told++) {
        const bool send = c->told >= c->receives;
        wish[count++] = (tg__wish){
            .send = send,
            .peer = send ? tg__around(x, c->first + (int)(c->told - c->receives)) : c->source,
            .msg = tg__message(send ? &c->own : &c->came, 0),
            .len = send ? x->parts[0].len : c->came.cap,
            .id = c->told,
        };
    }
    return count;
}

static tg_status copy_done(tg__exchange *x, uint32_t id, size_t len)
{
    copy *c = x->impl;
    if (id < c->receives) {
        TG_TRY(tg__check_received(c->source, tg__message_frame(&c->came, 0), len, x->n,
                                  x->codec->ops->wire_id));
        c->came_len = len;
    }
    c->over++;
    return TG_OK;
}

static bool copy_finished(const tg__exchange *x)
{
    const copy *c = x->impl;
    return c->over == c->receives + c->sends;
}

static void copy_result(tg__exchange *x, float *dst)
{
    const copy *c = x->impl;
    const bool came = c->receives != 0;
    const uint8_t *frame = came ? tg__message_frame(&c->came, 0) : x->parts[0].dst;
    x->overflow |=
        !tg__frame_decode_finite(frame, came ? c->came_len : x->parts[0].len, dst, x->pool);
}

static void none_cost(int size, size_t n, double frame, tg__cost *cost_p)
{
    (void)size;
    (void)n;
    (void)frame;
    *cost_p = (tg__cost){0};
}

static void push_cost(int size, size_t n, double frame, tg__cost *cost_p)
{
    (void)n;
    *cost_p = tg__cost_of(size, 1, frame + TG__ENVELOPE_BYTES);
}

/* The cost on rank 0: the others send nothing. */
static void broadcast_cost(int size, size_t n, double frame, tg__cost *cost_p)
{
    (void)n;
    *cost_p = tg__cost_of(size, 1, (double)(size - 1) * (frame + TG__ENVELOPE_BYTES));
}

#define COPY                                                                                       \
    .impl_bytes = sizeof(copy), .wants = copy_wants, .done = copy_done, .finished = copy_finished, \
    .result = copy_result

const tg__exchange_ops tg__none_exchange = {
    .entry = {"none",
              "nothing is sent; the result is the rank's own decoded vector, so ranks diverge", "",
              NULL},
    .brief = "no exchange, so ranks drift apart",
    .sums = TG__SUMS_ALL,
    COPY,
    .init = none_init,
    .start = copy_start,
    .cost = none_cost,
    .apart = true,
    .decodes_own = true,
};

const tg__exchange_ops tg__push_exchange = {
    .entry = {"push", "each rank's vector goes to one other: 1 delay",
              "Assran et al. 2019, arXiv:1811.10792", NULL},
    COPY,
    .init = push_init,
    .start = push_start,
    .cost = push_cost,
};

const tg__exchange_ops tg__broadcast_exchange = {
    .entry = {"broadcast", "rank 0's vector goes to all: 1 delay", "", NULL},
    COPY,
    .init = broadcast_init,
    .start = copy_start,
    .cost = broadcast_cost,
    .sliceable = true,
};
