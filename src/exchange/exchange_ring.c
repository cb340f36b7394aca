/* Ring reduce-scatter, then ring all-gather, of f32 sums (P ranks, S = P - 1; indices mod P):
 *
 *   step s < S        rank r sends block r-1-s to rank r+1 and receives block r-2-s from rank r-1;
 * to what it received it adds its own values: the partial sum that it sends in the next step step s
 * = S..2S-1  rank r sends the finished block r-(s-S) and receives block r-1-(s-S), passed on as
 * received
 *
 * Its own order: block b of the result is ((((0 + x[b+1]) + x[b+2]) + ... + x[b+P-1]) + x[b]) * (1
 * / P), x[p] being rank p's values: it begins at the rank after its owner and ends at its owner,
 * the same bits on all ranks. Partial sums overwrite the parts: after the exchange they are no
 * longer what was encoded.
 *
 * Cost: 2 (P-1) rounds and delays; 2 (P-1) blocks sent, the least that a dense sum can do.
 * Source: Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of
 * workstations", 2009. */
#include "exchange/message.h"
#include "base/mem.h"
#include "exchange/sliced.h"
#include <stdlib.h>
#include <string.h>

/* Step s is round s % 64 of slice s / 64. */
enum { ROUNDS = 64, SLICES = 64, MAX_RANKS = ROUNDS * SLICES / 2 + 1 };

typedef struct ring {
    tg__messages parts;  /* (P) own values, then partial sums */
    tg__messages in;     /* (2) received partial sums, by turns */
    tg__messages blocks; /* (P) finished blocks */
    size_t *part_len;    /* (P) bytes of the frame */
    size_t *block_len;   /* (P) likewise */
    size_t arrived[2];   /* bytes received for steps `taken` and taken + 1, by parity; 0: not yet */
    float *acc;          /* (longest block) */
    uint32_t steps;      /* 2 S */
    uint32_t recvs, sends; /* steps whose receive and send were told */
    uint32_t taken, sent;  /* steps whose message was used, whose send completed */
} ring;

static tg_status ring_init(tg__exchange *x)
{
    size_t P = (size_t)x->size, longest = 0;
    if (x->codec->ops->wire_id != TG__ID_f32)
        return tg_fail(TG_E_UNSUPPORTED,
                       "exchange ring with codec %s: allowed: f32 (it sums on the way)",
                       x->codec->ops->entry.name);
    if (x->combine != &tg__combine_mean)
        return tg_fail(TG_E_UNSUPPORTED, "exchange ring with %s: allowed: mean", x->combine->name);
    if (x->size > MAX_RANKS)
        return tg_fail(TG_E_UNSUPPORTED, "exchange ring of %d ranks: allowed: at most %d", x->size,
                       MAX_RANKS);
    for (int q = 0; q < x->size; q++)
        longest = TG__MAX(longest, tg__block_len(x->n, x->size, q));
    ring *g;
    TG_TRY(tg__alloc(1, sizeof *g, &g));
    x->impl = g;
    g->steps = 2 * ((uint32_t)x->size - 1);
    TG_TRY(tg__parts_of_blocks(x, &g->parts));
    TG_TRY(tg__messages_alloc(&g->in, 2, g->parts.cap));
    TG_TRY(tg__messages_alloc(&g->blocks, P, TG__F32_BYTES(longest)));
    TG_TRY(tg__alloc(P, sizeof *g->part_len, &g->part_len));
    TG_TRY(tg__alloc(P, sizeof *g->block_len, &g->block_len));
    return tg__alloc(longest, sizeof *g->acc, &g->acc);
}

static void ring_fini(tg__exchange *x)
{
    ring *g = x->impl;
    tg__messages_free(&g->parts);
    tg__messages_free(&g->in);
    tg__messages_free(&g->blocks);
    free(g->part_len);
    free(g->block_len);
    free(g->acc);
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
        x->combine->add(acc, n, frame, len, tg__around(x, -1), x->pool);
    x->combine->add(acc, n, x->parts[b].dst, g->part_len[b], x->rank, x->pool);
}

/* The sum of own block b is complete. */
static void finish_block(tg__exchange *x, const uint8_t *frame, size_t len)
{
    ring *g = x->impl;
    const size_t b = (size_t)x->rank, n = tg__block_len(x->n, x->size, x->rank);
    uint8_t *block = tg__message_frame(&g->blocks, b);
    add_own(x, tg__f32_values(block), b, frame, len);
    tg__combine_finish(x, tg__f32_values(block), n);
    g->block_len[b] = tg__f32_frame(block, n);
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
    if (x->size == 1)
        finish_block(x, NULL, 0);
    return TG_OK;
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
        wish->msg = tg__message(s < S ? &g->parts : &g->blocks, b);
        wish->len = s < S ? g->part_len[b] : g->block_len[b];
    } else {
        size_t b = block_of(x, s);
        wish->msg = s < S ? tg__message(&g->in, s % 2) : tg__message(&g->blocks, b);
        wish->len = s < S ? g->in.cap : TG__F32_BYTES(tg__block_len(x->n, x->size, (int)b));
    }
}

/* Two receives ahead, so that a message finds its place ready. */
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
    TG_TRY(tg__check_received(wish.peer, frame, len, n, TG__ID_f32));
    if (s + 1 < S) {
        add_own(x, g->acc, b, frame, len);
        if (n > 0)
            memcpy(x->parts[b].dst + TG__FRAME_HEAD, g->acc, n * sizeof *g->acc);
        g->part_len[b] = tg__f32_frame(x->parts[b].dst, n);
    } else if (s + 1 == S) {
        finish_block(x, frame, len);
    } else {
        g->block_len[b] = len;
    }
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
        return tg_fail(TG_E_CORRUPT, "frame from rank %d: 0 bytes", tg__around(x, -1));
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
        tg__frame_decode(tg__message_frame(&g->blocks, (size_t)q), g->block_len[q],
                         dst + tg__block_begin(x->n, x->size, q), x->pool);
}

static void ring_cost(int size, size_t n, double frame, tg__cost *cost_p)
{
    const unsigned rounds = 2 * (unsigned)(size - 1);
    double P = size, heads = tg__slice_count(size, n, 4.0 * (double)n, rounds);
    double head = heads * (TG__ENVELOPE_BYTES + TG__FRAME_HEAD);
    (void)frame; /* f32 only */
    cost_p->rounds = rounds;
    cost_p->delays = 2 * (P - 1);
    cost_p->bytes = 2 * (P - 1) * (4.0 * (double)n / P + head);
}

const tg__exchange_ops tg__ring_exchange = {
    .entry =
        {
            .name = "ring",
            .summary = "dense ring, fewest bytes in 2 (P-1) delays; f32 only, sums in ring order",
            .source = "Patarasuk, Yuan 2009",
        },
    .init = ring_init,
    .fini = ring_fini,
    .start = ring_start,
    .wants = ring_wants,
    .done = ring_done,
    .finished = ring_finished,
    .result = ring_result,
    .cost = ring_cost,
    .sliceable = true,
    .decodes_own = true,
};
