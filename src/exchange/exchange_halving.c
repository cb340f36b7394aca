/* Recursive halving and doubling of f32 sums, for any P. C is the largest power of two <= P,
 * L = log2 C, and rank C + i is folded into rank i < P - C:
 *
 *   round 0        rank C + i sends its vector to rank i, which adds it to its own
 *   round 1..L     in round s rank r has partner r ^ (C >> s). Both have the same range; each sends
 *                  the half that it does not keep, and adds what it receives to the half it keeps
 *   round L+1..2L  the same backwards, with partners r ^ 1, r ^ 2, ...: each sends the range it has
 *                  finished, and then has twice as much
 *   round 2L+1     rank i sends the result to rank C + i
 *
 * Ranges are unions of C blocks; rank r finishes block r.
 *
 * Order    the same for all elements: y[i] = (0 + x[i]) + x[C + i]; then for d = C/2, C/4, ..., 1:
 *          y[i] = y[i] + y[i + d] for i < d; the result is y[0] * (1 / P). This is a balanced tree,
 *          so rounding errors grow with log P
 * Cost     2 L rounds and delays; each rank sends 2 n (C-1)/C elements, the minimum of a dense sum.
 *          If P is no power of two: 2 more rounds and delays, each with the whole vector
 * Source   Thakur, Rabenseifner and Gropp, "Optimization of collective communication operations in
 *          MPICH", 2005, sec. 4.5, which also has the folding */
#include "exchange/message.h"
#include "base/mem.h"
#include "kernel/parallel.h"

/* for up to 2^15 ranks; each step is a round, and rounds are below 64 */
enum { STEPS = 2 * 15 + 2 };

/* One exchange with one peer: send a range, receive one. The next step begins when the range
 * received has been used. */
typedef struct step {
    int peer;
    uint16_t round;
    bool sends, receives, sums;      /* sums: add what is received; otherwise it is the result */
    size_t send_lo, send_hi, lo, hi; /* lo, hi: the range to receive */
    tg__messages out, in;            /* (1) each */
    size_t out_len, in_len;          /* of the frames; in_len 0: not arrived */
} step;

typedef struct halving {
    tg__messages own; /* (1) */
    float *acc;       /* (n) sums, then results */
    step step[STEPS];
    uint32_t steps, summed; /* the first `summed` steps add */
    size_t own_lo, own_hi;  /* the block finished by this rank; empty on folded ranks */
    uint32_t at;            /* the first step that is not complete, apart from its send */
    uint32_t recvs, sends;  /* steps whose receive and send have been examined */
    uint32_t wanted, over;  /* messages returned as wishes, and completed */
} halving;

static step *add_step(halving *h, int peer, unsigned round)
{
    step *s = &h->step[h->steps++];
    s->peer = peer;
    s->round = (uint16_t)round;
    return s;
}

static void receive(step *s, bool sums, size_t lo, size_t hi)
{
    s->receives = true;
    s->sums = sums;
    s->lo = lo;
    s->hi = hi;
}

static void send(step *s, size_t lo, size_t hi)
{
    s->sends = true;
    s->send_lo = lo;
    s->send_hi = hi;
}

/* Plan rank r of the core: halve from blocks [0, core) down to [r, r + 1), then double. */
static void plan_core(const tg__exchange *x, halving *h, int core, unsigned log2_core)
{
    unsigned round = 1;
    int first = 0;
    for (int half = core / 2; half > 0; half /= 2) {
        const bool upper = (x->rank & half) != 0;
        const int keep = upper ? first + half : first, give = upper ? first : first + half;
        step *s = add_step(h, x->rank ^ half, round++);
        send(s, tg__block_begin(x->n, core, give), tg__block_begin(x->n, core, give + half));
        receive(s, true, tg__block_begin(x->n, core, keep),
                tg__block_begin(x->n, core, keep + half));
        first = keep;
    }
    h->summed = h->steps;
    h->own_lo = tg__block_begin(x->n, core, first);
    h->own_hi = tg__block_begin(x->n, core, first + 1);
    for (unsigned i = 0; i < log2_core; i++) { /* the halving steps in reverse */
        const step *back = &h->step[h->summed - 1 - i];
        step *s = add_step(h, back->peer, round++);
        send(s, back->lo, back->hi);
        receive(s, false, back->send_lo, back->send_hi);
    }
}

static void plan(const tg__exchange *x, halving *h)
{
    unsigned log2_core = 0;
    while (2 << log2_core <= x->size)
        log2_core++;
    const int core = 1 << log2_core, folded = x->size - core;
    const unsigned last = 2 * log2_core + 1;
    if (x->rank >= core) {
        send(add_step(h, x->rank - core, 0), 0, x->n);
        receive(add_step(h, x->rank - core, last), false, 0, x->n);
        return;
    }
    if (x->rank < folded)
        receive(add_step(h, x->rank + core, 0), true, 0, x->n);
    plan_core(x, h, core, log2_core);
    if (x->rank < folded)
        send(add_step(h, x->rank + core, last), 0, x->n);
}

static tg_status halving_init(tg__exchange *x)
{
    halving *h = x->impl;
    if (x->codec->ops->wire_id != TG__ID_f32)
        return tg_fail(TG_E_UNSUPPORTED,
                       "exchange halving with codec %s: allowed: f32 (it sums on the way)",
                       x->codec->ops->entry.name);
    TG_TRY(tg__mean_only(x, 1 << (STEPS - 2) / 2));
    TG_TRY(tg__parts_alloc(x, &h->own, 1));
    TG_TRY(tg__owned_alloc(&x->owned, x->n, sizeof *h->acc, &h->acc));
    plan(x, h);
    for (uint32_t i = 0; i < h->steps; i++) {
        step *s = &h->step[i];
        if (s->sends)
            TG_TRY(tg__messages_alloc(x, &s->out, 1, TG__F32_BYTES(s->send_hi - s->send_lo)));
        if (s->receives)
            TG_TRY(tg__messages_alloc(x, &s->in, 1, TG__F32_BYTES(s->hi - s->lo)));
        h->wanted += s->sends + s->receives;
    }
    return TG_OK;
}

/* Enter step `at`: all receives before it have been used. Finish the own block if that was the last
 * sum, and prepare what the step sends. */
static void enter(tg__exchange *x)
{
    halving *h = x->impl;
    if (h->at == h->summed && h->own_hi > h->own_lo)
        tg__combine_finish(x, h->acc + h->own_lo, h->own_hi - h->own_lo);
    if (h->at == h->steps || !h->step[h->at].sends)
        return;
    step *s = &h->step[h->at];
    uint8_t *frame = tg__message_frame(&s->out, 0);
    const size_t n = s->send_hi - s->send_lo;
    if (n > 0)
        tg__parallel_copy(x->pool, tg__f32_values(frame), h->acc + s->send_lo, n);
    s->out_len = tg__f32_frame(frame, n);
}

static void advance(tg__exchange *x)
{
    halving *h = x->impl;
    while (h->at < h->steps) {
        step *s = &h->step[h->at];
        if (s->receives && s->in_len == 0)
            return;
        if (s->receives && s->sums)
            x->combine->add(h->acc + s->lo, s->hi - s->lo, tg__message_frame(&s->in, 0), s->in_len,
                            x->pool);
        else if (s->receives)
            tg__frame_decode(tg__message_frame(&s->in, 0), s->in_len, h->acc + s->lo, x->pool);
        h->at++;
        enter(x);
    }
}

static tg_status halving_start(tg__exchange *x)
{
    halving *h = x->impl;
    for (uint32_t i = 0; i < h->steps; i++)
        h->step[i].in_len = 0;
    h->at = h->recvs = h->sends = h->over = 0;
    tg__combine_begin(x, h->acc, x->n);
    x->combine->add(h->acc, x->n, x->parts[0].dst, x->parts[0].len, x->pool);
    enter(x);
    advance(x);
    return TG_OK;
}

static tg__wish describe(const step *s, uint32_t i, bool send)
{
    return (tg__wish){.send = send,
                      .peer = s->peer,
                      .round = s->round,
                      .msg = tg__message(send ? &s->out : &s->in, 0),
                      .len = send ? s->out_len : s->in.cap,
                      .id = 2 * i + send};
}

static size_t halving_wants(tg__exchange *x, tg__wish *wish, size_t max)
{
    halving *h = x->impl;
    size_t count = 0;
    for (; h->recvs < h->steps && count < max; h->recvs++)
        if (h->step[h->recvs].receives)
            wish[count++] = describe(&h->step[h->recvs], h->recvs, false);
    for (; h->sends < h->steps && h->sends <= h->at && count < max; h->sends++)
        if (h->step[h->sends].sends)
            wish[count++] = describe(&h->step[h->sends], h->sends, true);
    return count;
}

static tg_status halving_done(tg__exchange *x, uint32_t id, size_t len)
{
    halving *h = x->impl;
    step *s = &h->step[id / 2];
    if (id % 2 == 0) {
        TG_TRY(tg__check_received(s->peer, tg__message_frame(&s->in, 0), len, s->hi - s->lo,
                                  TG__ID_f32));
        s->in_len = len;
        advance(x);
    }
    h->over++;
    return TG_OK;
}

static bool halving_finished(const tg__exchange *x)
{
    const halving *h = x->impl;
    return h->at == h->steps && h->over == h->wanted;
}

static void halving_result(tg__exchange *x, float *dst)
{
    const halving *h = x->impl;
    x->overflow |= !tg__parallel_copy_finite(x->pool, dst, h->acc, x->n);
}

static void halving_cost(int size, size_t n, double frame, tg__cost *cost_p)
{
    const double head = TG__ENVELOPE_BYTES + TG__FRAME_HEAD, all = 4.0 * (double)n + head;
    unsigned log2_core = 0;
    (void)frame; /* f32 only */
    while (2 << log2_core <= size)
        log2_core++;
    const double core = (double)(1 << log2_core);
    const unsigned fold = size > 1 << log2_core;
    *cost_p =
        tg__cost_of(size, 2 * (log2_core + fold),
                    2 * (4.0 * (double)n * (core - 1) / core + log2_core * head) + fold * all);
    cost_p->serial += fold * all;
}

const tg__exchange_ops tg__halving_exchange = {
    .entry = {"halving",
              "dense recursive halving and doubling, 2 log2 P delays; f32 only, sums in a "
              "tree",
              "Thakur, Rabenseifner, Gropp 2005, sec. 4.5", NULL},
    .brief = "2 log2 P delays, sums in a tree",
    .sums = TG__SUMS_DENSE,
    .impl_bytes = sizeof(halving),
    .init = halving_init,
    .start = halving_start,
    .wants = halving_wants,
    .done = halving_done,
    .finished = halving_finished,
    .result = halving_result,
    .cost = halving_cost,
    .automatic = true,
    .decodes_own = true,
};
