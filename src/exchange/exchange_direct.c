/* Direct reduce-scatter, then all-gather (P ranks, block q is owned by rank q):
 *
 *   round 0   rank p sends part q of its vector, coded, to rank q
 *   owner q   block = combine(decode(part of rank 0), ..., decode(part of rank P-1)); parts are
 *             added in rank order as soon as they and those before them have arrived; the owner's
 *             own part is decoded like the others
 *   round 1   rank q sends the block to all as a dense f32 frame; its own copy comes from the same
 *             frame. For two-way methods (x->recode) this frame is coded, too
 *
 * Cost     2 rounds, 2 delays; each rank sends (P-1) coded parts and (P-1) dense blocks. With dense
 *          parts these are the bytes of a ring. Empty blocks (n < 16 P) send frames, too, because
 *          their envelopes carry flags
 * Source   the reduce-scatter + all-gather of Thakur, Rabenseifner and Gropp, "Optimization of
 *          collective communication operations in MPICH", 2005, sec. 4, with direct messages in
 *          place of halving and doubling */
#include "exchange/direct.h"
#include "base/mem.h"
#include "exchange/sliced.h"
#include <limits.h>

/* Message ids: P-1 of each kind, in this order. The k-th send goes to rank + 1 + k, and the k-th
 * receive comes from rank - 1 - k, so that no rank comes first for all others. */
enum { RECV_PART, RECV_BLOCK, SEND_PART, SEND_BLOCK, KINDS };

/* The most bytes that block q's frame may take. */
static size_t block_cap(const tg__exchange *x, int q)
{
    const tg__direct *d = x->impl;
    size_t n = tg__block_len(x->n, x->size, q);
    return d->coded ? tg__codec_bound(x->codec, n) : TG__F32_BYTES(n);
}

tg_status tg__direct_init(tg__exchange *x)
{
    tg__direct *d = x->impl;
    size_t P = (size_t)x->size, cap = 0;
    d->coded = x->ops->leftover != NULL;
    d->block_n = tg__block_len(x->n, x->size, x->rank);
    if (d->coded)
        TG_TRY(tg__mean_only(x, INT_MAX));
    TG_TRY(tg__parts_alloc(x, &d->parts, x->size));
    TG_TRY(tg__messages_alloc(x, &d->in, P, tg__codec_bound(x->codec, d->block_n)));
    for (int q = 0; q < x->size; q++)
        cap = TG__MAX(cap, block_cap(x, q));
    TG_TRY(tg__messages_alloc(x, &d->blocks, P, cap));
    TG_TRY(tg__owned_alloc(&x->owned, P, sizeof *d->in_len, &d->in_len));
    TG_TRY(tg__owned_alloc(&x->owned, P, sizeof *d->block_len, &d->block_len));
    d->sum = tg__f32_values(tg__message_frame(&d->blocks, (size_t)x->rank));
    return d->coded ? tg__owned_alloc(&x->owned, d->block_n, sizeof *d->sum, &d->sum) : TG_OK;
}

/* The sum of the own block is complete: form its frame. */
static tg_status close_block(tg__exchange *x)
{
    tg__direct *d = x->impl;
    const size_t own = (size_t)x->rank;
    uint8_t *frame = tg__message_frame(&d->blocks, own);
    if (d->coded)
        return tg__reencode(x, d->sum, x->parts[own].lo, d->block_n, frame, &d->block_len[own]);
    tg__combine_finish(x, d->sum, d->block_n);
    if (x->recode)
        return x->recode(x, d->sum, frame, d->blocks.cap, &d->block_len[own]);
    d->block_len[own] = tg__f32_frame(frame, d->block_n);
    return TG_OK;
}

/* Add the parts that have arrived, in rank order. */
static tg_status advance(tg__exchange *x)
{
    tg__direct *d = x->impl;
    return tg__add_in_order(x, &d->next, d->sum, d->block_n, &x->parts[x->rank], &d->in, d->in_len)
               ? close_block(x)
               : TG_OK;
}

tg_status tg__direct_start(tg__exchange *x)
{
    tg__direct *d = x->impl;
    for (int q = 0; q < x->size; q++)
        d->in_len[q] = d->block_len[q] = 0;
    d->next = 0;
    d->told = d->over = 0;
    d->spoilt = false;
    tg__combine_begin(x, d->sum, d->block_n);
    return advance(x);
}

static void describe(const tg__exchange *x, uint32_t id, tg__wish *wish)
{
    const tg__direct *d = x->impl;
    uint32_t others = (uint32_t)x->size - 1, kind = id / others;
    int k = (int)(id % others);
    wish->id = id;
    wish->slice = 0;
    wish->send = kind == SEND_PART || kind == SEND_BLOCK;
    wish->round = kind == RECV_BLOCK || kind == SEND_BLOCK ? 1 : 0;
    wish->peer = tg__around(x, wish->send ? 1 + k : -1 - k);
    const size_t peer = (size_t)wish->peer, own = (size_t)x->rank;
    switch (kind) {
    case RECV_PART:
        wish->msg = tg__message(&d->in, peer);
        wish->len = d->in.cap;
        break;
    case RECV_BLOCK:
        wish->msg = tg__message(&d->blocks, peer);
        wish->len = block_cap(x, wish->peer);
        break;
    case SEND_PART:
        wish->msg = tg__message(&d->parts, peer);
        wish->len = x->parts[peer].len;
        break;
    default:
        wish->msg = tg__message(&d->blocks, own);
        wish->len = d->block_len[own];
    }
}

size_t tg__direct_wants(tg__exchange *x, tg__wish *wish, size_t max)
{
    tg__direct *d = x->impl;
    uint32_t others = (uint32_t)x->size - 1, count = 0;
    uint32_t open = d->next == x->size ? KINDS * others : SEND_BLOCK * others;
    while (d->told < open && count < max)
        describe(x, d->told++, &wish[count++]);
    return count;
}

/* Decode block q into the aggregate. */
static void decode_block(tg__exchange *x, int q, float *dst)
{
    tg__direct *d = x->impl;
    d->spoilt |= !tg__frame_decode_finite(tg__message_frame(&d->blocks, (size_t)q), d->block_len[q],
                                          dst + tg__block_begin(x->n, x->size, q), x->pool);
}

tg_status tg__direct_done(tg__exchange *x, uint32_t id, size_t len)
{
    tg__direct *d = x->impl;
    tg__wish wish;
    describe(x, id, &wish);
    if (!wish.send) {
        const uint8_t *frame = wish.msg + TG__ENVELOPE_BYTES;
        if (wish.round == 0) {
            TG_TRY(tg__check_received(wish.peer, frame, len, d->block_n, x->codec->ops->wire_id));
            d->in_len[wish.peer] = len;
            TG_TRY(advance(x));
        } else {
            size_t n = tg__block_len(x->n, x->size, wish.peer);
            int want = d->coded || x->recode ? x->codec->ops->wire_id : TG__ID_f32;
            TG_TRY(tg__check_received(wish.peer, frame, len, n, want));
            d->block_len[wish.peer] = len;
            if (x->into != NULL) /* while it is cached, and other blocks are in flight */
                decode_block(x, wish.peer, x->into);
        }
    }
    d->over++;
    return TG_OK;
}

bool tg__direct_finished(const tg__exchange *x)
{
    const tg__direct *d = x->impl;
    return d->next == x->size && d->over == KINDS * ((uint32_t)x->size - 1);
}

void tg__direct_result(tg__exchange *x, float *dst)
{
    const tg__direct *d = x->impl;
    for (int q = 0; q < x->size; q++)
        if (x->into != dst || q == x->rank)
            decode_block(x, q, dst);
    x->overflow |= d->spoilt;
}

static void direct_cost(int size, size_t n, double frame, tg__cost *cost_p)
{
    double P = size, heads = tg__slice_count(size, n, frame, 2);
    double head = heads * (TG__ENVELOPE_BYTES + TG__FRAME_HEAD);
    double part = (frame - TG__FRAME_HEAD) / P + head, block = 4.0 * (double)n / P + head;
    *cost_p = tg__cost_of(size, 2, (P - 1) * (part + block));
}

const tg__exchange_ops tg__direct_exchange = {
    .entry = {"direct", "owners sum their blocks in rank order and send them to all: 2 delays",
              "Thakur, Rabenseifner, Gropp 2005, sec. 4", NULL},
    .brief = "2 delays, sums in rank order, sent as f32",
    .sums = TG__SUMS_DENSE | TG__SUMS_CODED,
    TG__DIRECT_OPS,
    .result = tg__direct_result,
    .cost = direct_cost,
    .sliceable = true,
    .automatic = true,
    .decodes_own = true,
    .recodes = true,
};
