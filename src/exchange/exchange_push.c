/* Push: rank r sends its vector to rank r + hop (modulo P) and receives that of rank r - hop:
 * result = decode(that frame). Cost: 1 round, 1 delay, 1 frame, for any number of ranks. The ranks
 * get different results. It serves gossip strategies and cannot be selected for gradients. hop is
 * set before start, the same on all ranks, 0 <= hop < size; 0: nothing is sent. */
#include "exchange/message.h"
#include "base/mem.h"

enum { RECEIVE, SEND, MESSAGES };

static uint32_t messages(const tg__exchange *x)
{
    return x->hop == 0 ? 0 : MESSAGES;
}

typedef struct push {
    tg__messages own, came; /* (1) each */
    size_t came_len;
    uint32_t told, over;
} push;

static tg_status push_init(tg__exchange *x)
{
    push *p;
    TG_TRY(tg_alloc(1, sizeof *p, &p));
    x->impl = p;
    TG_TRY(tg__parts_of_vector(x, &p->own));
    return tg__messages_alloc(&p->came, 1, tg__codec_bound(x->codec, x->n));
}

static void push_fini(tg__exchange *x)
{
    push *p = x->impl;
    tg__messages_free(&p->own);
    tg__messages_free(&p->came);
}

static tg_status push_start(tg__exchange *x)
{
    push *p = x->impl;
    p->told = p->over = 0;
    if (x->hop < 0 || x->hop >= x->size)
        return tg_fail(TG_E_ARG, "exchange push: hop=%d among %d ranks: allowed: 0 to %d", x->hop,
                       x->size, x->size - 1);
    return TG_OK;
}

static size_t push_wants(tg__exchange *x, tg__wish *wish, size_t max)
{
    push *p = x->impl;
    size_t count = 0;
    for (; p->told < messages(x) && count < max; p->told++) {
        const bool send = p->told == SEND;
        wish[count++] = (tg__wish){
            .send = send,
            .peer = tg__around(x, send ? x->hop : -x->hop),
            .msg = tg__message(send ? &p->own : &p->came, 0),
            .len = send ? x->parts[0].len : p->came.cap,
            .id = p->told,
        };
    }
    return count;
}

static tg_status push_done(tg__exchange *x, uint32_t id, size_t len)
{
    push *p = x->impl;
    if (id == RECEIVE) {
        TG_TRY(tg__check_received(tg__around(x, -x->hop), tg__message_frame(&p->came, 0), len, x->n,
                                  x->codec->ops->wire_id));
        p->came_len = len;
    }
    p->over++;
    return TG_OK;
}

static bool push_finished(const tg__exchange *x)
{
    const push *p = x->impl;
    return p->over == messages(x);
}

static void push_result(tg__exchange *x, float *dst)
{
    const push *p = x->impl;
    if (x->hop == 0)
        x->overflow |= !tg__frame_decode_finite(x->parts[0].dst, x->parts[0].len, dst, x->pool);
    else
        x->overflow |=
            !tg__frame_decode_finite(tg__message_frame(&p->came, 0), p->came_len, dst, x->pool);
}

static void push_cost(int size, size_t n, double frame, tg__cost *cost_p)
{
    (void)n;
    cost_p->rounds = size > 1 ? 1 : 0;
    cost_p->delays = size > 1 ? 1 : 0;
    cost_p->bytes = size > 1 ? frame + TG__ENVELOPE_BYTES : 0;
    cost_p->serial = cost_p->bytes;
}

const tg__exchange_ops tg__push_exchange = {
    .entry =
        {
            .name = "push",
            .summary = "each rank's vector goes to one other: 1 delay",
            .source = "Assran et al. 2019, arXiv:1811.10792",
        },
    .init = push_init,
    .fini = push_fini,
    .start = push_start,
    .wants = push_wants,
    .done = push_done,
    .finished = push_finished,
    .result = push_result,
    .cost = push_cost,
    .decodes_own = false,
};
