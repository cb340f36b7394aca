/* Coded all-gather: every rank sends its one frame to all others at once; all decode and combine
 * all P frames in rank order, each as soon as it and those before it are here.
 *
 *   result = combine(decode(frame of rank 0), ..., decode(frame of rank P-1))
 *
 * Cost: 1 round, 1 delay; (P-1) frames sent: the fewest rounds, for small frames and few ranks.
 * Source: the all-gather of Lin et al. 2018 (arXiv:1712.01887), sec. 3; direct messages instead of
 * a ring. */
#include "exchange/message.h"
#include "base/mem.h"
#include "kernel/parallel.h"
#include <stdlib.h>

typedef struct allgather {
    tg__messages own;       /* (1) */
    tg__messages in;        /* (P); own unused */
    size_t *in_len;         /* (P) bytes of the frame, 0: not here yet */
    const uint8_t **frames; /* (P) when all are here, for combine->all */
    float *acc;             /* (n) not finished yet, but by combine->all */
    int next;               /* ranks below it are in acc */
    uint32_t told, over;    /* of P-1 receives, then P-1 sends */
} allgather;

static tg_status allgather_init(tg__exchange *x)
{
    allgather *a;
    size_t P = (size_t)x->size;
    TG_TRY(tg__alloc(1, sizeof *a, &a));
    x->impl = a;
    TG_TRY(tg__parts_of_vector(x, &a->own));
    TG_TRY(tg__messages_alloc(&a->in, P, a->own.cap));
    TG_TRY(tg__alloc(P, sizeof *a->in_len, &a->in_len));
    TG_TRY(tg__alloc(P, sizeof *a->frames, &a->frames));
    return tg__alloc(x->n, sizeof *a->acc, &a->acc);
}

static void allgather_fini(tg__exchange *x)
{
    allgather *a = x->impl;
    tg__messages_free(&a->own);
    tg__messages_free(&a->in);
    free(a->in_len);
    free(a->frames);
    free(a->acc);
}

/* Wait for all, then combine them at once. */
static void advance_all(tg__exchange *x)
{
    allgather *a = x->impl;
    a->in_len[x->rank] = x->parts[0].len;
    for (int q = 0; q < x->size; q++) {
        if (a->in_len[q] == 0)
            return;
        a->frames[q] = q == x->rank ? x->parts[0].dst : tg__message_frame(&a->in, (size_t)q);
    }
    x->combine->all(a->acc, x->n, a->frames, a->in_len, x->size, x->pool);
    a->next = x->size;
}

static void advance(tg__exchange *x)
{
    allgather *a = x->impl;
    if (x->combine->all) {
        advance_all(x);
        return;
    }
    for (; a->next < x->size; a->next++) {
        size_t from = (size_t)a->next;
        if (a->next == x->rank)
            x->combine->add(a->acc, x->n, x->parts[0].dst, x->parts[0].len, a->next, x->pool);
        else if (a->in_len[from] > 0)
            x->combine->add(a->acc, x->n, tg__message_frame(&a->in, from), a->in_len[from], a->next,
                            x->pool);
        else
            return;
    }
}

static tg_status allgather_start(tg__exchange *x)
{
    allgather *a = x->impl;
    for (int q = 0; q < x->size; q++)
        a->in_len[q] = 0;
    a->next = 0;
    a->told = a->over = 0;
    tg__combine_begin(x, a->acc, x->n);
    advance(x);
    return TG_OK;
}

static size_t allgather_wants(tg__exchange *x, tg__wish *wish, size_t max)
{
    allgather *a = x->impl;
    uint32_t others = (uint32_t)x->size - 1, count = 0;
    for (; a->told < 2 * others && count < max; a->told++) {
        bool send = a->told >= others;
        int k = (int)(a->told % others), peer = tg__around(x, send ? 1 + k : -1 - k);
        wish[count++] = (tg__wish){
            .send = send,
            .peer = peer,
            .msg = send ? tg__message(&a->own, 0) : tg__message(&a->in, (size_t)peer),
            .len = send ? x->parts[0].len : a->in.cap,
            .id = a->told,
        };
    }
    return count;
}

static tg_status allgather_done(tg__exchange *x, uint32_t id, size_t len)
{
    allgather *a = x->impl;
    if (id + 1 < (uint32_t)x->size) {
        int peer = tg__around(x, -1 - (int)id);
        TG_TRY(tg__check_received(peer, tg__message_frame(&a->in, (size_t)peer), len, x->n,
                                  x->codec->ops->wire_id));
        a->in_len[peer] = len;
        advance(x);
    }
    a->over++;
    return TG_OK;
}

static bool allgather_finished(const tg__exchange *x)
{
    const allgather *a = x->impl;
    return a->next == x->size && a->over == 2 * ((uint32_t)x->size - 1);
}

static void allgather_result(tg__exchange *x, float *dst)
{
    const allgather *a = x->impl;
    if (x->combine->all) /* finished */
        tg__parallel_copy(x->pool, dst, a->acc, x->n);
    else
        tg__combine_take(x, dst, a->acc, x->n);
}

static void allgather_cost(int size, size_t n, double frame, tg__cost *cost_p)
{
    (void)n;
    cost_p->rounds = size > 1 ? 1 : 0;
    cost_p->delays = size > 1 ? 1 : 0;
    cost_p->bytes = (double)(size - 1) * (frame + TG__ENVELOPE_BYTES);
    cost_p->serial = cost_p->bytes;
}

const tg__exchange_ops tg__allgather_exchange = {
    .entry =
        {
            .name = "allgather",
            .summary = "every rank sends its frame to all, all sum in rank order: 1 delay",
            .source = "Lin et al. 2018, arXiv:1712.01887, sec. 3",
        },
    .init = allgather_init,
    .fini = allgather_fini,
    .start = allgather_start,
    .wants = allgather_wants,
    .done = allgather_done,
    .finished = allgather_finished,
    .result = allgather_result,
    .cost = allgather_cost,
    .automatic = true,
    .decodes_own = true,
};
