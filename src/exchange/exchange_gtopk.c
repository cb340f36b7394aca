/* gTop-k: a tournament along a binomial tree whose root is rank 0. L = ceil(log2 P):
 *
 *   round j < L  rank r with lowest set bit j sends its frame to rank r - 2^j, which decodes and
 *                adds both, and encodes the sum with the same codec: of 2 k elements it keeps k
 *   round L      rank 0's frame goes down the tree, to the largest subtrees first
 *
 *   result = decode(frame of rank 0) * (1 / P)
 *
 * Leftover  Nothing is lost. If an element is not in the result, every rank that sent it takes back
 *           its own value (the paper's rule). If it is in the result, every rank that dropped some
 *           of it in a merge, by not selecting or by rounding, keeps what it dropped. (The paper
 *           omits the second case: it loses contributions that the merge of one subtree dropped
 *           although the element won elsewhere.)
 * Order     (0 + own) + child's, lower bits first
 * Cost      2 floor(log2 P) delays; no rank sends more than L frames, one after the other on the
 *           way up and down
 * Source    Shi et al. 2019, "A distributed synchronous SGD algorithm with global top-k
 *           sparsification for low bandwidth networks", arXiv:1901.04359 */
#include "exchange/message.h"
#include "base/mem.h"
#include "kernel/parallel.h"

enum { LEVELS = 16 }; /* for up to 2^16 ranks */

typedef struct gtopk {
    tg__messages own;                             /* (1) */
    tg__messages in;                              /* (level) children's frames */
    tg__messages merged;                          /* (1) allocated if there are children */
    tg__messages final;                           /* (1) received; on the root: the merged frame */
    size_t in_len[LEVELS], merged_len, final_len; /* bytes of the frames; 0: not arrived */
    float *acc;                                   /* (n) a merge's sum; later the decoded result */
    float *dropped;                               /* (n) dropped in merges; NULL: no children */
    float *mine;                                  /* (n) own values, for leftover */
    unsigned level;                               /* the lowest set bit of the rank; L for rank 0 */
    unsigned levels;                              /* L */
    unsigned next;                                /* children below it have been merged */
    uint32_t told, over;                          /* messages returned as wishes, and completed */
} gtopk;

/* Message ids: receives from child j, the receive of the result, then sends up and to child j. */
enum { RECV_FINAL = LEVELS, SEND_UP, SEND_DOWN, IDS = SEND_DOWN + LEVELS };

/* The rank of child j; -1: there is none. */
static int child(const tg__exchange *x, unsigned j)
{
    const gtopk *g = x->impl;
    const int rank = x->rank + (1 << j);
    return j < g->level && rank < x->size ? rank : -1;
}

static tg_status gtopk_init(tg__exchange *x)
{
    gtopk *g = x->impl;
    TG_TRY(tg__mean_only(x, 1 << LEVELS));
    while (1 << g->levels < x->size)
        g->levels++;
    g->level = x->rank == 0 ? g->levels : (unsigned)__builtin_ctz((unsigned)x->rank);
    TG_TRY(tg__parts_alloc(x, &g->own, 1));
    TG_TRY(tg__messages_alloc(x, &g->final, 1, g->own.cap));
    TG_TRY(tg__owned_alloc(&x->owned, x->n, sizeof *g->acc, &g->acc));
    TG_TRY(tg__owned_alloc(&x->owned, x->n, sizeof *g->mine, &g->mine));
    if (child(x, 0) < 0)
        return TG_OK;
    TG_TRY(tg__messages_alloc(x, &g->in, g->level, g->own.cap));
    TG_TRY(tg__messages_alloc(x, &g->merged, 1, g->own.cap));
    return tg__owned_alloc(&x->owned, x->n, sizeof *g->dropped, &g->dropped);
}

/* The message that this rank sends up, or that holds the result on the root; *len_p: its frame's
 * length. */
static const tg__messages *current(const tg__exchange *x, size_t *len_p)
{
    const gtopk *g = x->impl;
    const bool merged = g->merged_len > 0;
    *len_p = merged ? g->merged_len : x->parts[0].len;
    return merged ? &g->merged : &g->own;
}

static const tg__messages * final(const tg__exchange *x, size_t *len_p)
{
    const gtopk *g = x->impl;
    if (x->rank == 0)
        return current(x, len_p);
    *len_p = g->final_len;
    return &g->final;
}

static tg_status merge(tg__exchange *x, unsigned j)
{
    gtopk *g = x->impl;
    size_t len;
    const tg__messages *own = current(x, &len);
    tg__combine_begin(x, g->acc, x->n);
    tg__frame_decode_add(tg__message_frame(own, 0), len, g->acc, x->pool);
    tg__frame_decode_add(tg__message_frame(&g->in, j), g->in_len[j], g->acc, x->pool);
    TG_TRY(tg__reencode(x, g->acc, 0, x->n, tg__message_frame(&g->merged, 0), &g->merged_len));
    if (x->n > 0)
        tg__parallel_add(x->pool, g->dropped, g->acc, x->n);
    return TG_OK;
}

static tg_status advance(tg__exchange *x)
{
    gtopk *g = x->impl;
    for (; g->next < g->level; g->next++) {
        if (child(x, g->next) < 0)
            continue;
        if (g->in_len[g->next] == 0)
            return TG_OK;
        TG_TRY(merge(x, g->next));
    }
    return TG_OK;
}

static tg_status gtopk_start(tg__exchange *x)
{
    gtopk *g = x->impl;
    for (unsigned j = 0; j < LEVELS; j++)
        g->in_len[j] = 0;
    g->merged_len = g->final_len = 0;
    g->next = 0;
    g->told = g->over = 0;
    if (g->dropped)
        tg__combine_begin(x, g->dropped, x->n);
    return advance(x);
}

/* True if this rank has message id; sets its wish. */
static bool describe(const tg__exchange *x, uint32_t id, tg__wish *wish)
{
    const gtopk *g = x->impl;
    const int parent = x->rank == 0 ? -1 : x->rank - (1 << g->level);
    const unsigned largest_first = g->level - 1 - (id - SEND_DOWN);
    const tg__messages *m;
    *wish = (tg__wish){.send = id >= SEND_UP, .id = id};
    wish->peer = id < RECV_FINAL             ? child(x, id)
                 : id <= SEND_UP             ? parent
                 : id - SEND_DOWN < g->level ? child(x, largest_first)
                                             : -1;
    if (wish->peer < 0) /* if so, its buffers may not exist either */
        return false;
    if (id < RECV_FINAL) {
        wish->round = (uint16_t)id;
        wish->msg = tg__message(&g->in, id);
        wish->len = g->own.cap;
    } else if (id == RECV_FINAL) {
        wish->round = (uint16_t)g->levels;
        wish->msg = tg__message(&g->final, 0);
        wish->len = g->own.cap;
    } else if (id == SEND_UP) {
        m = current(x, &wish->len);
        wish->round = (uint16_t)g->level;
        wish->msg = tg__message(m, 0);
    } else {
        m = final(x, &wish->len);
        wish->round = (uint16_t)g->levels;
        wish->msg = tg__message(m, 0);
    }
    return true;
}

static size_t gtopk_wants(tg__exchange *x, tg__wish *wish, size_t max)
{
    gtopk *g = x->impl;
    const bool merged = g->next == g->level, over = merged && (x->rank == 0 || g->final_len > 0);
    const uint32_t open = over ? IDS : merged ? SEND_DOWN : SEND_UP;
    size_t count = 0;
    for (; g->told < open && count < max; g->told++)
        count += describe(x, g->told, &wish[count]);
    return count;
}

static tg_status gtopk_done(tg__exchange *x, uint32_t id, size_t len)
{
    gtopk *g = x->impl;
    tg__wish wish;
    (void)describe(x, id, &wish);
    if (!wish.send) {
        TG_TRY(tg__check_received(wish.peer, wish.msg + TG__ENVELOPE_BYTES, len, x->n,
                                  x->codec->ops->wire_id));
        if (id == RECV_FINAL)
            g->final_len = len;
        else
            g->in_len[id] = len;
        TG_TRY(advance(x));
    }
    g->over++;
    return TG_OK;
}

static bool gtopk_finished(const tg__exchange *x)
{
    const gtopk *g = x->impl;
    uint32_t all = x->rank == 0 ? 0 : 2; /* up and down, with the parent and each child */
    for (unsigned j = 0; j < g->level; j++)
        all += child(x, j) >= 0 ? 2 : 0;
    return g->over == all;
}

static bool decode_final(const tg__exchange *x, float *dst)
{
    size_t len;
    const tg__messages *m = final(x, &len);
    return tg__frame_decode_finite(tg__message_frame(m, 0), len, dst, x->pool);
}

static void gtopk_result(tg__exchange *x, float *dst)
{
    x->overflow |= !decode_final(x, dst);
    tg__combine_finish(x, dst, x->n);
}

static void gtopk_leftover(tg__exchange *x, float scale, float *r)
{
    const gtopk *g = x->impl;
    (void)decode_final(x, g->acc);
    tg__frame_decode(x->parts[0].dst, x->parts[0].len, g->mine, x->pool);
    for (size_t i = 0; i < x->n; i++) {
        if (g->acc[i] == 0)
            r[i] += scale * g->mine[i];
        else if (g->dropped)
            r[i] += scale * g->dropped[i];
    }
}

static void gtopk_cost(int size, size_t n, double frame, tg__cost *cost_p)
{
    unsigned up = 0;
    (void)n;
    while (2 << up <= size)
        up++;
    const unsigned levels = up + (size > 1 << up);
    *cost_p = tg__cost_of(size, 2 * up, levels * (frame + TG__ENVELOPE_BYTES));
    cost_p->serial = (up + levels) * (frame + TG__ENVELOPE_BYTES);
}

const tg__exchange_ops tg__gtopk_exchange = {
    .entry = {"gtopk",
              "a tree merges frames in pairs and keeps k of 2 k: 2 log2 P delays and "
              "frames",
              "Shi et al. 2019, arXiv:1901.04359", NULL},
    .brief = "2 log2 P delays, a tree selects from sums",
    .sums = TG__SUMS_SELECTED,
    .impl_bytes = sizeof(gtopk),
    .init = gtopk_init,
    .start = gtopk_start,
    .wants = gtopk_wants,
    .done = gtopk_done,
    .finished = gtopk_finished,
    .result = gtopk_result,
    .cost = gtopk_cost,
    .leftover = gtopk_leftover,
    .decodes_own = true,
};
