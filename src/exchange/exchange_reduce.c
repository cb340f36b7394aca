/* Reduce: result = the sum of all ranks' vectors in rank order, on rank 0 only. Frames are f32, and
 * there is no mean (combine is not used). It sums the gradients of a node, and cannot be selected
 * for gradients. Cost: 1 round, 1 delay; every other rank sends 4 n bytes, which reach rank 0 one
 * after another.
 *
 * The vector is cut into slices. When a slice has arrived from all ranks, rank 0 adds it to the
 * values of its own frame. It has room for OPEN slices of each rank, whatever the length of the
 * vector, so that what it adds is still cached. Later messages of the other ranks wait until their
 * receive is posted. */
#include "exchange/message.h"
#include "base/mem.h"
#include "kernel/parallel.h"

#include <string.h>

#define SLICE_BYTES ((size_t)512 << 10)

enum { SLICES = 64, OPEN = 2 };

typedef struct reduce {
    tg__messages own;      /* (slices) this rank's; on rank 0 the sums are formed in them */
    tg__messages received; /* (OPEN * (size - 1)) rank 0: slice i is in row i % OPEN */
    size_t *len;           /* likewise: the frame's length */
    int slices;
    /* wishes returned. Rank 0: of all slices, size - 1 each; others: slices sent */
    int told;
    int added;         /* rank 0: slices below it are summed */
    int missing[OPEN]; /* rank 0: messages that slice `added` and those after it wait for */
    int over;          /* other ranks: completed sends */
} reduce;

static tg_status reduce_init(tg__exchange *x)
{
    reduce *r = x->impl;
    const size_t slices = (x->n * sizeof(float) + SLICE_BYTES - 1) / SLICE_BYTES;
    r->slices = (int)TG__MAX(TG__MIN(slices, (size_t)SLICES), (size_t)1);
    TG_TRY(tg__parts_alloc(x, &r->own, r->slices));
    if (x->rank != 0 || x->size == 1)
        return TG_OK;
    const size_t room = OPEN * ((size_t)x->size - 1);
    TG_TRY(tg__owned_alloc(&x->owned, room, sizeof *r->len, &r->len));
    return tg__messages_alloc(x, &r->received, room, r->own.cap);
}

static float *sum_of(const tg__exchange *x, int slice)
{
    return tg__f32_values(x->parts[slice].dst);
}

static size_t slice_len(const tg__exchange *x, int slice)
{
    return x->parts[slice].hi - x->parts[slice].lo;
}

static tg_status reduce_start(tg__exchange *x)
{
    reduce *r = x->impl;
    r->told = r->over = r->added = 0;
    for (int i = 0; i < OPEN; i++)
        r->missing[i] = x->size - 1;
    for (int i = 0; x->rank == 0 && i < r->slices; i++)
        if (x->parts[i].dst[1] != TG__FORM_DENSE && slice_len(x, i) > 0) /* the own frame is zero */
            memset(sum_of(x, i), 0, slice_len(x, i) * sizeof(float));
    if (x->size == 1)
        r->added = r->slices;
    return TG_OK;
}

static size_t receives(const tg__exchange *x, tg__wish *wish, size_t max)
{
    reduce *r = x->impl;
    const int others = x->size - 1;
    size_t count = 0;
    for (; others > 0 && count < max && r->told < r->slices * others; r->told++) {
        const int slice = r->told / others, peer = 1 + r->told % others;
        if (slice >= r->added + OPEN)
            break;
        const size_t at = (size_t)(slice % OPEN * others + peer - 1);
        wish[count++] = (tg__wish){.peer = peer,
                                   .slice = (uint32_t)slice,
                                   .msg = tg__message(&r->received, at),
                                   .len = TG__F32_BYTES(slice_len(x, slice)),
                                   .id = (uint32_t)r->told};
    }
    return count;
}

static size_t reduce_wants(tg__exchange *x, tg__wish *wish, size_t max)
{
    reduce *r = x->impl;
    size_t count = 0;
    if (x->rank == 0)
        return receives(x, wish, max);
    for (; count < max && r->told < r->slices; r->told++)
        wish[count++] = (tg__wish){.send = true,
                                   .slice = (uint32_t)r->told,
                                   .msg = tg__message(&r->own, (size_t)r->told),
                                   .len = x->parts[r->told].len,
                                   .id = (uint32_t)r->told};
    return count;
}

/* Sum the complete slices in order, and make room for the following ones. */
static void add_complete(tg__exchange *x)
{
    reduce *r = x->impl;
    const int others = x->size - 1;
    for (; r->added < r->slices && r->missing[r->added % OPEN] == 0; r->added++) {
        const size_t row = (size_t)(r->added % OPEN * others);
        for (int q = 0; q < others; q++)
            tg__frame_decode_add(tg__message_frame(&r->received, row + (size_t)q),
                                 r->len[row + (size_t)q], sum_of(x, r->added), x->pool);
        r->missing[r->added % OPEN] = others;
    }
}

static tg_status reduce_done(tg__exchange *x, uint32_t id, size_t len)
{
    reduce *r = x->impl;
    if (x->rank != 0) {
        r->over++;
        return TG_OK;
    }
    const int others = x->size - 1, slice = (int)id / others, q = (int)id % others;
    const size_t at = (size_t)(slice % OPEN * others + q);
    TG_TRY(tg__check_received(1 + q, tg__message_frame(&r->received, at), len, slice_len(x, slice),
                              TG__ID_f32));
    r->len[at] = len;
    r->missing[slice % OPEN]--;
    add_complete(x);
    return TG_OK;
}

static bool reduce_finished(const tg__exchange *x)
{
    const reduce *r = x->impl;
    return x->rank == 0 ? r->added == r->slices : r->over == r->slices;
}

/* Rank 0's result: the others have none. */
static void reduce_result(tg__exchange *x, float *dst)
{
    const reduce *r = x->impl;
    for (int i = 0; i < r->slices; i++)
        if (slice_len(x, i) > 0)
            x->overflow |= !tg__parallel_copy_finite(x->pool, dst + x->parts[i].lo, sum_of(x, i),
                                                     slice_len(x, i));
}

static void reduce_cost(int size, size_t n, double frame, tg__cost *cost_p)
{
    (void)frame;
    *cost_p = tg__cost_of(size, 1, 4.0 * (double)n + TG__FRAME_HEAD + TG__ENVELOPE_BYTES);
    cost_p->serial = (size - 1) * cost_p->bytes;
}

const tg__exchange_ops tg__reduce_exchange = {
    .entry = {"reduce", "the sum of all ranks' f32 vectors at rank 0: 1 delay", "", NULL},
    .impl_bytes = sizeof(reduce),
    .init = reduce_init,
    .start = reduce_start,
    .wants = reduce_wants,
    .done = reduce_done,
    .finished = reduce_finished,
    .result = reduce_result,
    .cost = reduce_cost,
    .decodes_own = true,
};
