/* Broadcast: result = decode(frame of rank 0), on all ranks. Rank 0 has one part, the others none
 * (nparts 0). It distributes parameters, and cannot be chosen for gradients.
 *
 * Cost     1 round, 1 delay; rank 0 sends P-1 frames */
#include "exchange/message.h"
#include "base/mem.h"

typedef struct broadcast {
    tg__messages frame; /* (1) rank 0: its own, else received */
    size_t len;         /* of the frame; 0: not arrived */
    uint32_t told, over;
} broadcast;

/* Rank 0 sends to all others; each of them receives one message. */
static uint32_t messages(const tg__exchange *x)
{
    return x->rank == 0 ? (uint32_t)x->size - 1 : 1;
}

static tg_status broadcast_init(tg__exchange *x)
{
    broadcast *b;
    TG_TRY(tg_alloc(1, sizeof *b, &b));
    x->impl = b;
    if (x->rank == 0)
        return tg__parts_of_vector(x, &b->frame);
    return tg__messages_alloc(&b->frame, 1, tg__codec_bound(x->codec, x->n));
}

static void broadcast_fini(tg__exchange *x)
{
    broadcast *b = x->impl;
    tg__messages_free(&b->frame);
}

static tg_status broadcast_start(tg__exchange *x)
{
    broadcast *b = x->impl;
    b->told = b->over = 0;
    b->len = x->rank == 0 ? x->parts[0].len : 0;
    return TG_OK;
}

static size_t broadcast_wants(tg__exchange *x, tg__wish *wish, size_t max)
{
    broadcast *b = x->impl;
    size_t count = 0;
    for (; b->told < messages(x) && count < max; b->told++)
        wish[count++] = (tg__wish){
            .send = x->rank == 0,
            .peer = x->rank == 0 ? 1 + (int)b->told : 0,
            .msg = tg__message(&b->frame, 0),
            .len = x->rank == 0 ? b->len : b->frame.cap,
            .id = b->told,
        };
    return count;
}

static tg_status broadcast_done(tg__exchange *x, uint32_t id, size_t len)
{
    broadcast *b = x->impl;
    (void)id;
    if (x->rank != 0) {
        TG_TRY(tg__check_received(0, tg__message_frame(&b->frame, 0), len, x->n,
                                  x->codec->ops->wire_id));
        b->len = len;
    }
    b->over++;
    return TG_OK;
}

static bool broadcast_finished(const tg__exchange *x)
{
    const broadcast *b = x->impl;
    return b->over == messages(x);
}

static void broadcast_result(tg__exchange *x, float *dst)
{
    const broadcast *b = x->impl;
    x->overflow |= !tg__frame_decode_finite(tg__message_frame(&b->frame, 0), b->len, dst, x->pool);
}

/* The cost on rank 0: the others send nothing. */
static void broadcast_cost(int size, size_t n, double frame, tg__cost *cost_p)
{
    (void)n;
    cost_p->rounds = size > 1 ? 1 : 0;
    cost_p->delays = size > 1 ? 1 : 0;
    cost_p->bytes = (double)(size - 1) * (frame + TG__ENVELOPE_BYTES);
    cost_p->serial = cost_p->bytes;
}

const tg__exchange_ops tg__broadcast_exchange = {
    .entry =
        {
            .name = "broadcast",
            .summary = "rank 0's vector goes to all: 1 delay",
            .source = "",
        },
    .init = broadcast_init,
    .fini = broadcast_fini,
    .start = broadcast_start,
    .wants = broadcast_wants,
    .done = broadcast_done,
    .finished = broadcast_finished,
    .result = broadcast_result,
    .cost = broadcast_cost,
    .sliceable = true,
    .decodes_own = false,
};
