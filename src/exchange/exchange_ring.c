/* Ring reduce-scatter, then ring all-gather (P ranks, S = P - 1; indices mod P):
 *
 *   step s < S        rank r sends block r-1-s to rank r+1 and receives block r-2-s from rank r-1.
 *                     To the values received it adds its own, in f32; it sends this partial sum in
 *                     the next step
 *   step s = S..2S-1  rank r sends the finished block r-(s-S) and receives block r-1-(s-S), which
 *                     it forwards unchanged
 *
 * Order    with x[p] the values of rank p, block b of the result is
 *              ((((0 + x[b+1]) + x[b+2]) + ... + x[b+P-1]) + x[b]) * (1 / P)
 *          from the rank after the owner to the owner, the same bits on all ranks
 * Codecs   With f32, partial sums overwrite the parts, so after the exchange the parts no longer
 *          hold what was encoded. With another codec (fp16, bf16, int8, ...) every partial sum and
 *          every finished block is encoded again: P - 1 roundings in a row per element. The rank
 *          that rounds a sum keeps the error as its leftover. Finished blocks are divided by P
 *          after decoding
 * Cost     2 (P-1) rounds and delays; each rank sends 2 (P-1) blocks, the minimum of a dense sum
 * Source   Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of
 *          workstations", 2009 */
#include "exchange/message.h"
#include "base/mem.h"
#include "kernel/kernel.h"
#include "exchange/sliced.h"
#include <string.h>

/* Step s is round s % 64 of slice s / 64. */
enum { ROUNDS = 64, SLICES = 64, MAX_RANKS = ROUNDS * SLICES / 2 + 1 };

typedef struct ring {
    tg__messages parts;  /* (P) own values; f32: then partial sums */
    tg__messages sums;   /* (P) partial sums; f32: the parts */
    tg__messages in;     /* (2) received partial sums, alternating */
    tg__messages blocks; /* (P) finished blocks */
    size_t *part_len;    /* (P) bytes of the frame */
    size_t *block_len;   /* (P) likewise */
    size_t arrived[2];   /* bytes received for steps `taken` and taken + 1, by parity; 0: not yet */
    float *acc;          /* (longest block) f32: partial sums are formed here */
    float *left; /* (n) coded: sums are formed here, then hold what encoding them lost; else NULL */
    uint32_t steps;        /* 2 S */
    uint32_t recvs, sends; /* steps whose receive and send were returned as wishes */
    uint32_t taken, sent;  /* steps whose message was used; steps whose send completed */
} ring;

static tg_status ring_init(tg__exchange *x)
{
    ring *g = x->impl;
    size_t P = (size_t)x->size, longest = 0;
    if (x->codec->ops->properties & TG__SPARSE)
        return tg_fail(TG_E_UNSUPPORTED,
                       "exchange ring with codec %s: allowed: codecs that send every element (it "
                       "sums on the way)",
                       x->codec->ops->entry.name);
    TG_TRY(tg__mean_only(x, MAX_RANKS));
    for (int q = 0; q < x->size; q++)
        longest = TG__MAX(longest, tg__block_len(x->n, x->size, q));
    g->steps = 2 * ((uint32_t)x->size - 1);
    TG_TRY(tg__parts_alloc(x, &g->parts, x->size));
    TG_TRY(tg__messages_alloc(x, &g->in, 2, g->parts.cap));
    TG_TRY(tg__messages_alloc(x, &g->blocks, P, g->parts.cap));
    TG_TRY(tg__owned_alloc(&x->owned, P, sizeof *g->part_len, &g->part_len));
    TG_TRY(tg__owned_alloc(&x->owned, P, sizeof *g->block_len, &g->block_len));
    if (x->codec->ops->wire_id == TG__ID_f32)
        return tg__owned_alloc(&x->owned, longest, sizeof *g->acc, &g->acc);
    TG_TRY(tg__messages_alloc(x, &g->sums, P, g->parts.cap));
    return tg__owned_alloc(&x->owned, x->n, sizeof *g->left, &g->left);
}

/* The block received in step s; it is sent in step s + 1. */
static size_t block_of(const tg__exchange *x, uint32_t s)
{
    uint32_t P = (uint32_t)x->size, S = P - 1;
    uint32_t back = s < S ? 2 + s : 1 + s - S;
    return ((uint32_t)x->rank + 2 * P - back) % P;
}

/* acc = 0 + received + own values of block b. */
static void add_own(tg__exchange *x, float *acc, size_t b, const uint8_t *frame, size_t len)
{
    ring *g = x->impl;
    size_t n = tg__block_len(x->n, x->size, (int)b);
    tg__combine_begin(x, acc, n);
    if (frame)
        x->combine->add(acc, n, frame, len, x->pool);
    x->combine->add(acc, n, x->parts[b].dst, g->part_len[b], x->pool);
}

/* Encode the sum of block b, held in g->left, into frame. */
static tg_status encode_sum(tg__exchange *x, size_t b, uint8_t *frame, size_t *len_p)
{
    ring *g = x->impl;
    const tg__part *part = &x->parts[b];
    return tg__reencode(x, g->left + part->lo, part->lo, part->hi - part->lo, frame, len_p);
}

/* Add the own values to the partial sum of block b, received as `frame`, and form the next
 * message. */
static tg_status pass_on(tg__exchange *x, size_t b, const uint8_t *frame, size_t len)
{
    ring *g = x->impl;
    const size_t n = tg__block_len(x->n, x->size, (int)b);
    if (g->left) {
        add_own(x, g->left + x->parts[b].lo, b, frame, len);
        return encode_sum(x, b, tg__message_frame(&g->sums, b), &g->part_len[b]);
    }
    add_own(x, g->acc, b, frame, len);
    if (n > 0)
        memcpy(x->parts[b].dst + TG__FRAME_HEAD, g->acc, n * sizeof *g->acc);
    g->part_len[b] = tg__f32_frame(x->parts[b].dst, n);
    return TG_OK;
}

/* The same for the own block: the sum is complete. */
static tg_status finish_block(tg__exchange *x, const uint8_t *frame, size_t len)
{
    ring *g = x->impl;
    const size_t b = (size_t)x->rank, n = tg__block_len(x->n, x->size, x->rank);
    uint8_t *block = tg__message_frame(&g->blocks, b);
    if (g->left) {
        add_own(x, g->left + x->parts[b].lo, b, frame, len);
        return encode_sum(x, b, block, &g->block_len[b]);
    }
    add_own(x, tg__f32_values(block), b, frame, len);
    tg__combine_finish(x, tg__f32_values(block), n);
    g->block_len[b] = tg__f32_frame(block, n);
    return TG_OK;
}

static tg_status ring_start(tg__exchange *x)
{
    ring *g = x->impl;
    for (int q = 0; q < x->size; q++) {
        g->part_len[q] = x->parts[q].len;
        g->block_len[q] = 0;
    }
    g->recvs = g->sends = g->taken = g->sent = 0;
    g->arrived[0] = g->arrived[1] = 0;
    if (g->left && x->n > 0) /* a block sent unchanged loses nothing */
        memset(g->left, 0, x->n * sizeof *g->left);
    return x->size == 1 ? finish_block(x, NULL, 0) : TG_OK;
}

static void describe(const tg__exchange *x, uint32_t s, bool send, tg__wish *wish)
{
    const ring *g = x->impl;
    const uint32_t S = (uint32_t)x->size - 1;
    wish->send = send;
    wish->id = 2 * s + send;
    wish->round = (uint16_t)(s % ROUNDS);
    wish->slice = s / ROUNDS;
    wish->peer = tg__around(x, send ? 1 : -1);
    if (send) {
        size_t b = s == 0 ? (size_t)tg__around(x, -1) : block_of(x, s - 1);
        const tg__messages *sums = g->left && s > 0 ? &g->sums : &g->parts;
        wish->msg = tg__message(s < S ? sums : &g->blocks, b);
        wish->len = s < S ? g->part_len[b] : g->block_len[b];
    } else {
        size_t b = block_of(x, s);
        wish->msg = s < S ? tg__message(&g->in, s % 2) : tg__message(&g->blocks, b);
        wish->len =
            s < S ? g->in.cap : tg__codec_bound(x->codec, tg__block_len(x->n, x->size, (int)b));
    }
}

/* Keep two receives posted ahead, so that a message finds its buffer ready. */
static size_t ring_wants(tg__exchange *x, tg__wish *wish, size_t max)
{
    ring *g = x->impl;
    size_t count = 0;
    while (g->recvs < g->steps && g->recvs < g->taken + 2 && count < max)
        describe(x, g->recvs++, false, &wish[count++]);
    while (g->sends < g->steps && g->sends <= g->taken && count < max)
        describe(x, g->sends++, true, &wish[count++]);
    return count;
}

/* Use the message of step s. */
static tg_status take(tg__exchange *x, uint32_t s, size_t len)
{
    ring *g = x->impl;
    const uint32_t S = (uint32_t)x->size - 1;
    const size_t b = block_of(x, s), n = tg__block_len(x->n, x->size, (int)b);
    tg__wish wish;
    describe(x, s, false, &wish);
    const uint8_t *frame = wish.msg + TG__ENVELOPE_BYTES;
    TG_TRY(tg__check_received(wish.peer, frame, len, n, x->codec->ops->wire_id));
    if (s + 1 < S)
        return pass_on(x, b, frame, len);
    if (s + 1 == S)
        return finish_block(x, frame, len);
    g->block_len[b] = len;
    return TG_OK;
}

static tg_status ring_done(tg__exchange *x, uint32_t id, size_t len)
{
    ring *g = x->impl;
    if (id % 2 == 1) {
        g->sent++;
        return TG_OK;
    }
    if (len == 0)
        return tg_fail(TG_E_CORRUPT, "frame from rank %d: it is empty", tg__around(x, -1));
    g->arrived[id / 2 % 2] = len;
    while (g->taken < g->steps && g->arrived[g->taken % 2] > 0) {
        size_t bytes = g->arrived[g->taken % 2];
        g->arrived[g->taken % 2] = 0;
        TG_TRY(take(x, g->taken, bytes));
        g->taken++;
    }
    return TG_OK;
}

static bool ring_finished(const tg__exchange *x)
{
    const ring *g = x->impl;
    return g->taken == g->steps && g->sent == g->steps;
}

static void ring_result(tg__exchange *x, float *dst)
{
    const ring *g = x->impl;
    for (int q = 0; q < x->size; q++)
        x->overflow |=
            !tg__frame_decode_finite(tg__message_frame(&g->blocks, (size_t)q), g->block_len[q],
                                     dst + tg__block_begin(x->n, x->size, q), x->pool);
    if (g->left)
        tg__combine_finish(x, dst, x->n);
}

static void ring_leftover(tg__exchange *x, float scale, float *r)
{
    const ring *g = x->impl;
    if (g->left && x->n > 0)
        tg__kernel()->axpy(r, scale, g->left, x->n);
}

static void ring_cost(int size, size_t n, double frame, tg__cost *cost_p)
{
    const unsigned rounds = 2 * (unsigned)(size - 1);
    double P = size, heads = tg__slice_count(size, n, frame, rounds);
    double head = heads * (TG__ENVELOPE_BYTES + TG__FRAME_HEAD);
    *cost_p = tg__cost_of(size, rounds, rounds * ((frame - TG__FRAME_HEAD) / P + head));
}

const tg__exchange_ops tg__ring_exchange = {
    .entry = {"ring",
              "dense ring, fewest bytes in 2 (P-1) delays; sums in ring order, rounded again at "
              "every step unless f32",
              "Patarasuk, Yuan 2009", NULL},
    .brief = "2 (P-1) delays, coded sums are rounded at every step",
    .sums = TG__SUMS_DENSE | TG__SUMS_REROUNDED,
    .impl_bytes = sizeof(ring),
    .init = ring_init,
    .start = ring_start,
    .wants = ring_wants,
    .done = ring_done,
    .finished = ring_finished,
    .result = ring_result,
    .cost = ring_cost,
    .leftover = ring_leftover,
    .sliceable = true,
    .automatic = true,
    .decodes_own = true,
};
