/* Coded all-gather: every rank sends its one frame to all others at once. Each rank decodes and
 * combines all P frames in rank order; it processes each frame as soon as that frame and all before
 * it have arrived.
 *
 *   result = combine(decode(frame of rank 0), ..., decode(frame of rank P-1))
 *
 * A window limits how much of a long frame is in flight (send_window.h, stream.h). It needs no
 * acknowledgements: the frames that arrive from the peers serve as such.
 *
 * Cost     1 round, 1 delay; each rank sends (P-1) frames. It has the fewest rounds, and suits
 *          small frames and few ranks
 * Source   the all-gather of Lin et al. 2018 (arXiv:1712.01887), sec. 3, with direct messages in
 *          place of a ring */
#include "exchange/message.h"
#include "base/mem.h"
#include "exchange/stream.h"
#include "kernel/parallel.h"
#include <string.h>

/* Messages of the own frame in flight. Each takes a share of the window, so that some arrive while
 * others leave. */
#define SHARES 4u

typedef struct allgather {
    tg__messages own; /* (1) */
    /* (1) a copy of the own frame with room before each unit, unless it is sent whole: a transport
     * sends one piece of memory, so a message's envelope stands right before its payload, where the
     * frame itself holds the end of the unit before, which may still be on its way */
    tg__messages cut;
    tg__messages in;        /* (P); this rank's entry is unused */
    tg__incoming *incoming; /* (P) likewise */
    size_t *in_len;         /* (P) bytes of the frame; 0: not arrived */
    const uint8_t **frames; /* (P) once all have arrived, for combine->all */
    float *acc;             /* (n) not finished yet, except by combine->all; x->into or `room` */
    float *room;            /* (n) used if x->into is not known; NULL: it always has been */
    int next;               /* ranks below it are in acc */
    tg__window window;      /* of units: those below `from` have arrived from all peers */
    size_t unit;            /* bytes */
    uint32_t begin, end;    /* units of the own frame's latest message */
    uint32_t told;          /* peers, of P-1, that this message was returned for */
    uint32_t leaving;       /* sends returned as wishes that are not complete */
} allgather;

static tg_status allgather_init(tg__exchange *x)
{
    allgather *a = x->impl;
    const size_t P = (size_t)x->size;
    TG_TRY(tg__parts_alloc(x, &a->own, 1));
    const size_t cap = a->own.cap;
    a->unit = tg__stream_unit(x->size, cap);
    const uint32_t units = tg__units(cap, a->unit);
    const bool whole = x->size == 1 || cap <= TG__WHOLE_BYTES;
    x->open_slices = whole ? 1 : 2 * SHARES;
    TG_TRY(tg__messages_alloc(x, &a->cut, 1, whole ? 0 : tg__outgoing_at(units, a->unit)));
    TG_TRY(tg__messages_alloc(x, &a->in, P, cap));
    TG_TRY(tg__owned_alloc(&x->owned, P, sizeof *a->incoming, &a->incoming));
    TG_TRY(tg__owned_alloc(&x->owned, P, sizeof *a->in_len, &a->in_len));
    TG_TRY(tg__owned_alloc(&x->owned, P, sizeof *a->frames, &a->frames));
    return tg__window_init(&a->window, &x->owned, units);
}

/* Wait for all frames, then combine them at once. */
static void advance_all(tg__exchange *x)
{
    allgather *a = x->impl;
    a->in_len[x->rank] = x->parts[0].len;
    for (int q = 0; q < x->size; q++) {
        if (a->in_len[q] == 0)
            return;
        a->frames[q] = q == x->rank ? x->parts[0].dst : tg__message_frame(&a->in, (size_t)q);
    }
    x->combine->all(x, a->acc, a->frames, a->in_len);
    a->next = x->size;
}

static void advance(tg__exchange *x)
{
    allgather *a = x->impl;
    if (x->combine->all) {
        advance_all(x);
        return;
    }
    (void)tg__add_in_order(x, &a->next, a->acc, x->n, &x->parts[0], &a->in, a->in_len);
}

static uint32_t own_units(const tg__exchange *x)
{
    const allgather *a = x->impl;
    return tg__units(x->parts[0].len, a->unit);
}

static tg_status allgather_start(tg__exchange *x)
{
    allgather *a = x->impl;
    const bool here = !x->combine->elsewhere;
    if (here && x->into == NULL)
        TG_TRY(tg__owned_room(&x->owned, &a->room, x->n, sizeof *a->room));
    a->acc = x->into != NULL ? x->into : a->room;
    for (int q = 0; q < x->size; q++) {
        a->in_len[q] = 0;
        a->incoming[q] = (tg__incoming){0};
    }
    a->next = 0;
    a->begin = a->end = a->leaving = 0;
    a->told = (uint32_t)x->size - 1;
    tg__window_start(&a->window, own_units(x), x->now_ns);
    if (here)
        tg__combine_begin(x, a->acc, x->n);
    advance(x);
    return TG_OK;
}

/* Begin the next message of the own frame, if there is one and the window has room for it. */
static bool next_message(tg__exchange *x)
{
    allgather *a = x->impl;
    const size_t len = x->parts[0].len;
    const uint32_t units = own_units(x), open = (uint32_t)a->window.open;
    uint32_t most = TG__MAX(open / SHARES, 1u), room = TG__MIN(a->window.to, units);
    if (a->end == 0) { /* short frames are not cut, nor is the beginning of a long one */
        const uint32_t whole = (uint32_t)(TG__WHOLE_BYTES / a->unit);
        most = len <= TG__WHOLE_BYTES ? units : TG__MAX(most, whole);
        room = TG__MIN(TG__MAX(room, most), units);
    }
    if (a->end >= room)
        return false;
    a->begin = a->end;
    a->end = TG__MIN(room, a->begin + most);
    a->told = 0;
    if (len > TG__WHOLE_BYTES) {
        const size_t at = a->begin * a->unit;
        memcpy(tg__message_frame(&a->cut, 0) + tg__outgoing_at(a->begin, a->unit),
               x->parts[0].dst + at, TG__MIN(len, a->end * a->unit) - at);
    }
    return true;
}

/* The send to the k-th peer. */
static tg__wish send_of(const tg__exchange *x, uint32_t k)
{
    const allgather *a = x->impl;
    const size_t len = x->parts[0].len;
    tg__wish wish = {.send = true,
                     .peer = tg__around(x, 1 + (int)k),
                     .msg = tg__message(&a->own, 0),
                     .len = TG__MIN(len, a->end * a->unit) - a->begin * a->unit,
                     .id = (uint32_t)x->rank};
    if (len > TG__WHOLE_BYTES)
        wish.msg = tg__message(&a->cut, 0) + tg__outgoing_at(a->begin, a->unit);
    tg__stream_name(&wish, a->begin, tg__units(a->own.cap, a->unit));
    return wish;
}

/* An id is the rank whose frame the message belongs to. */
static size_t allgather_wants(tg__exchange *x, tg__wish *wish, size_t max)
{
    allgather *a = x->impl;
    const uint32_t others = (uint32_t)x->size - 1;
    size_t count = 0;
    for (int k = 1; k < x->size && count < max; k++) {
        const int peer = tg__around(x, -k);
        if (tg__incoming_wants(&a->incoming[peer], peer, tg__message(&a->in, (size_t)peer),
                               a->own.cap, a->unit, &wish[count]))
            wish[count++].id = (uint32_t)peer;
    }
    while (others > 0 && count < max && (a->told < others || next_message(x))) {
        wish[count++] = send_of(x, a->told++);
        a->leaving++;
    }
    return count;
}

/* Units that have arrived from all peers make room for others. */
static void slide(tg__exchange *x)
{
    allgather *a = x->impl;
    tg__window *w = &a->window;
    for (; w->from < w->count; tg__window_pass(w, x->now_ns))
        for (int q = 0; q < x->size; q++) {
            const tg__incoming *in = &a->incoming[q];
            if (q != x->rank && a->in_len[q] == 0 && in->here / a->unit <= w->from)
                return;
        }
}

static tg_status allgather_done(tg__exchange *x, uint32_t id, size_t len)
{
    allgather *a = x->impl;
    const int peer = (int)id;
    if (peer == x->rank) {
        a->leaving--;
        return TG_OK;
    }
    tg__incoming *in = &a->incoming[peer];
    TG_TRY(
        tg__incoming_take(in, peer, tg__message(&a->in, (size_t)peer), len, a->own.cap, a->unit));
    if (in->here == in->total) {
        TG_TRY(tg__check_received(peer, tg__message_frame(&a->in, (size_t)peer), in->total, x->n,
                                  x->codec->ops->wire_id));
        a->in_len[peer] = in->total;
        advance(x);
    }
    tg__window_grow(&a->window, tg__units(in->total, a->unit), x->now_ns);
    slide(x);
    return TG_OK;
}

static bool allgather_finished(const tg__exchange *x)
{
    const allgather *a = x->impl;
    const bool told = a->end == own_units(x) && a->told == (uint32_t)x->size - 1;
    return a->next == x->size && a->leaving == 0 && (told || x->size == 1);
}

static void allgather_result(tg__exchange *x, float *dst)
{
    const allgather *a = x->impl;
    if (x->combine->elsewhere)
        return;
    if (x->combine->all) /* finished */
        x->overflow |= !tg__parallel_copy_finite(x->pool, dst, a->acc, x->n);
    else
        x->overflow |= !tg__combine_take(x, dst, a->acc, x->n);
}

static void allgather_cost(int size, size_t n, double frame, tg__cost *cost_p)
{
    const size_t len = (size_t)frame; /* messages of one unit each, at most */
    const uint32_t cut = len > TG__WHOLE_BYTES ? tg__units(len, tg__stream_unit(size, len)) : 1;
    (void)n;
    *cost_p = tg__cost_of(size, 1, (double)(size - 1) * (frame + cut * TG__ENVELOPE_BYTES));
}

const tg__exchange_ops tg__allgather_exchange = {
    .entry = {"allgather", "every rank sends its frame to all, all sum in rank order: 1 delay",
              "Lin et al. 2018, arXiv:1712.01887, sec. 3", NULL},
    .brief = "1 one-way delay, bytes grow with P",
    .sums = TG__SUMS_DENSE | TG__SUMS_CODED | TG__SUMS_WHOLE,
    .impl_bytes = sizeof(allgather),
    .init = allgather_init,
    .start = allgather_start,
    .wants = allgather_wants,
    .done = allgather_done,
    .finished = allgather_finished,
    .result = allgather_result,
    .cost = allgather_cost,
    .automatic = true,
    .decodes_own = true,
};
