/* Parameter servers as exchange (S servers, block q is server q's):
 *
 *   push   rank p sends part q of its vector, coded, to server q
 *   server q: block = combine(decode(part of rank 0), ..., decode(part of rank P-1)), in rank order
 *             (src/server)
 *   pull   server q sends the block to all ranks
 *
 * Ranks do not talk to each other. With one server the result has the bits of `allgather`, with P
 * servers those of `direct`; where frames do not depend on how the vector is cut, all are the same.
 * A dense f32 vector goes in slices: each block is cut, and the pull of one slice overlaps the push
 * of the next.
 *
 * `twoway` codes the pull, too: server q adds its residual to the mean, encodes the sum with the
 * ranks' codec, and keeps the error as its new residual (star_coding.h, src/server/recoder.h). If
 * servers keep the parameters, it sends what is to be added to those that ranks have, or, to a rank
 * that lacks an earlier answer, all of them (src/server/sent.h).
 *
 * Cost     2 rounds, 2 delays; each rank sends its frame once, whatever the number of ranks, and
 *          receives one. A server's link carries P frames in and P blocks out, so the exchange
 *          suits ranks with thin up-links and servers with wide ones
 * Source   Li et al. 2014, Scaling Distributed Machine Learning with the Parameter Server, OSDI;
 *          Tang et al. 2019, DoubleSqueeze, arXiv:1905.05957 (twoway) */
#include "exchange/star.h"
#include "base/mem.h"
#include "exchange/sliced.h"
#include "exchange/star_coding.h"
#include "exchange/star_cost.h"
#include "kernel/parallel.h"
#include <limits.h>
#include <string.h>

typedef struct star {
    tg__messages push; /* (parts) own parts, each behind its head */
    tg__messages pull; /* (parts) what comes back */
    size_t *len;       /* (parts) bytes of each answer's frame; 0: not arrived */
    uint32_t *behind;  /* (parts) bytes of what follows each part that is sent */
    uint64_t *number;  /* (parts) of the parameters that this rank has; 0: unknown */
    uint32_t slices;   /* of each block; part q * slices + c is slice c of block q */
    uint32_t told;     /* messages returned as wishes: a pull and a push for each part, in turns */
    uint32_t from;     /* slices below it have arrived from all servers */
    uint32_t over;
    bool spoilt; /* a decoded part is not finite */
} star;

/* Message ids: the answer for part i is received as i, part i is sent as parts + i. */

static uint32_t slices_of(const tg__exchange *x)
{
    return x->ops->codes_means || !x->combine->additive || !tg__star_cuts(x->codec)
               ? 1
               : tg__star_slices(x->n, x->servers);
}

/* Where part i begins. */
static size_t begin_of(const tg__exchange *x, size_t i)
{
    const star *s = x->impl;
    const int q = (int)(i / s->slices), c = (int)(i % s->slices);
    return tg__block_begin(x->n, x->servers, q) +
           tg__block_begin(tg__block_len(x->n, x->servers, q), (int)s->slices, c);
}

/* Bytes behind the frame of an answer: always to parameters, else if the part came too late. */
static size_t step_bytes(const tg__exchange *x, size_t i, size_t len)
{
    const tg__part *part = &x->parts[i];
    const bool late =
        !x->ops->codes_means && len == TG__F32_BYTES(part->hi - part->lo) + TG__STAR_STEP;
    return late || x->combine == &tg__combine_parameters ? TG__STAR_STEP : 0;
}

static bool is_of_parameters(const tg__exchange *x)
{
    return x->combine == &tg__combine_parameters;
}

static tg_status star_init(tg__exchange *x)
{
    star *s = x->impl;
    size_t cap = 0;
    if (x->servers == 0)
        return tg_fail(TG_E_UNSUPPORTED, "exchange=%s: this job has no server", x->ops->entry.name);
    if (!tg__star_knows(x->combine))
        return tg_fail(TG_E_UNSUPPORTED, "exchange=%s: a server cannot form the %s",
                       x->ops->entry.name, x->combine->name);
    if (x->ops->codes_means)
        TG_TRY(tg__mean_only(x, INT_MAX));
    s->slices = slices_of(x);
    x->open_slices = TG__MIN(s->slices, TG__STAR_OPEN);
    x->nparts = (size_t)x->servers * s->slices;
    TG_TRY(tg__owned_alloc(&x->owned, x->nparts, sizeof *x->parts, &x->parts));
    TG_TRY(tg__owned_alloc(&x->owned, x->nparts, sizeof *s->len, &s->len));
    TG_TRY(tg__owned_alloc(&x->owned, x->nparts, sizeof *s->behind, &s->behind));
    TG_TRY(tg__owned_alloc(&x->owned, x->nparts, sizeof *s->number, &s->number));
    TG_TRY(tg__owned_alloc(&x->owned, x->nparts, sizeof *x->late, &x->late));
    TG_TRY(tg__owned_alloc(&x->owned, x->nparts, sizeof *x->sent_ns, &x->sent_ns));
    TG_TRY(tg__owned_alloc(&x->owned, (size_t)x->servers, sizeof *x->unanswered, &x->unanswered));
    for (size_t i = 0; i < x->nparts; i++) {
        x->parts[i].lo = begin_of(x, i);
        x->parts[i].hi = i + 1 < x->nparts ? begin_of(x, i + 1) : x->n;
        cap = TG__MAX(cap, tg__codec_bound(x->codec, x->parts[i].hi - x->parts[i].lo));
        cap = TG__MAX(cap, TG__F32_BYTES(x->parts[i].hi - x->parts[i].lo));
    }
    const size_t behind = is_of_parameters(x)   ? TG__STAR_TENSORS_MOST + TG__STAR_SETTINGS_MOST
                          : x->ops->codes_means ? TG__CODING_MOST
                                                : 0;
    TG_TRY(tg__messages_alloc(x, &s->push, x->nparts, TG__STAR_HEAD + cap + behind));
    TG_TRY(tg__messages_alloc(x, &s->pull, x->nparts, cap + TG__STAR_TAIL));
    for (size_t i = 0; i < x->nparts; i++) {
        x->parts[i].dst = tg__message_frame(&s->push, i) + TG__STAR_HEAD;
        x->parts[i].cap = cap;
    }
    return TG_OK;
}

static uint16_t flags_of(const tg__exchange *x)
{
    unsigned flags = (x->owns_momentum ? TG__STAR_OWNS_MOMENTUM : 0) |
                     (x->anew ? TG__STAR_ANEW : 0) | (x->settings.len > 0 ? TG__STAR_TELLS : 0) |
                     (x->tensors.len > 0 ? TG__STAR_TENSORS : 0);
    if (x->ops->codes_means)
        flags |=
            TG__STAR_CODED | (x->first ? TG__STAR_FIRST : 0) | (x->dropped ? TG__STAR_DROPPED : 0);
    return (uint16_t)flags;
}

static tg_status star_start(tg__exchange *x)
{
    star *s = x->impl;
    for (size_t i = 0; i < x->nparts; i++) {
        tg__star head = {
            .combine = x->combine, .flags = flags_of(x), .begin = x->parts[i].lo, .rate = x->rate};
        uint8_t *at = tg__message_frame(&s->push, i), *end = at + TG__STAR_HEAD + x->parts[i].len;
        s->behind[i] = (uint32_t)(x->tensors.len + x->settings.len);
        head.tensors = (uint32_t)x->tensors.len;
        if (x->tensors.len > 0)
            memcpy(end, x->tensors.text, x->tensors.len);
        if (x->settings.len > 0)
            memcpy(end + x->tensors.len, x->settings.text, x->settings.len);
        if (x->ops->codes_means) {
            TG_TRY(tg__coding_write(x, &x->parts[i], x->first, (uint32_t)(i / s->slices), end,
                                    &s->behind[i]));
            head.coding = s->behind[i];
        }
        tg__star_head(at, &head);
        s->len[i] = 0;
        x->late[i] = false;
    }
    x->is_late = false;
    memset(x->unanswered, 0, (size_t)x->servers * sizeof *x->unanswered);
    s->told = s->from = s->over = 0;
    s->spoilt = false;
    x->step = 0;
    x->youngest = x->oldest = 0;
    return TG_OK;
}

/* Slice by slice, to all servers. */
static size_t star_wants(tg__exchange *x, tg__wish *wish, size_t max)
{
    star *s = x->impl;
    const uint32_t S = (uint32_t)x->servers, to = TG__MIN(s->from + x->open_slices, s->slices);
    size_t count = 0;
    for (; s->told < 2 * S * to && count < max; s->told++) {
        const uint32_t k = s->told / 2, q = k % S, c = k / S, i = q * s->slices + c;
        const bool send = s->told % 2 == 1;
        wish[count++] =
            (tg__wish){.send = send,
                       .peer = x->size + (int)q,
                       .round = send ? TG__STAR_PUSH : TG__STAR_PULL,
                       .slice = c,
                       .msg = tg__message(send ? &s->push : &s->pull, i),
                       .len = send ? TG__STAR_HEAD + x->parts[i].len + s->behind[i] : s->pull.cap,
                       .id = send ? (uint32_t)x->nparts + i : i};
    }
    return count;
}

static void decode_part(tg__exchange *x, size_t i, float *dst)
{
    star *s = x->impl;
    s->spoilt |= !tg__frame_decode_finite(tg__message_frame(&s->pull, i), s->len[i],
                                          dst + x->parts[i].lo, x->pool);
}

static bool slice_is_here(const tg__exchange *x, uint32_t c)
{
    const star *s = x->impl;
    for (size_t i = c; i < x->nparts; i += s->slices)
        if (s->len[i] == 0)
            return false;
    return true;
}

static void note_age(tg__exchange *x, uint32_t server, unsigned age)
{
    if (age > 0 && (x->youngest == 0 || age < x->youngest)) {
        x->youngest = age;
        x->youngest_server = server;
    }
    if (age > x->oldest) {
        x->oldest = age;
        x->oldest_server = server;
    }
}

static tg_status take_step(tg__exchange *x, uint32_t id, size_t len)
{
    const star *s = x->impl;
    const size_t at = len - TG__MIN(len, TG__STAR_STEP);
    uint64_t step =
        at + TG__STAR_STEP == len ? tg__get64(tg__message_frame(&s->pull, id) + at) : UINT64_MAX;
    const unsigned age = (unsigned)(step >> TG__STAR_AGE_AT);
    if (x->combine == &tg__combine_parameters)
        step &= (UINT64_C(1) << TG__STAR_AGE_AT) - 1;
    if (step > TG__STAR_STEP_MOST)
        return tg_fail(TG_E_CORRUPT,
                       "server %u: the step in an answer of %zu bytes: allowed: 0 to "
                       "2^53",
                       id / s->slices, len);
    x->step = TG__MAX(x->step, step);
    if (x->combine == &tg__combine_parameters)
        note_age(x, id / s->slices, age);
    x->late[id] = x->combine != &tg__combine_parameters;
    x->is_late |= x->late[id];
    return TG_OK;
}

/* Check the frame (len) that has arrived for a part. codec  its id; -1: any */
static tg_status check_frame(const tg__exchange *x, uint32_t id, size_t len, int codec)
{
    const star *s = x->impl;
    const tg__part *part = &x->parts[id];
    const tg_status status =
        tg__frame_check(tg__message_frame(&s->pull, id), len, part->hi - part->lo, codec);
    return status == TG_OK
               ? TG_OK
               : tg_fail(status, "frame from server %u: %s", id / s->slices, tg_error());
}

/* Servers keep the parameters, of which x->into is what this rank has. */
static tg_status take_parameters(tg__exchange *x, uint32_t id, size_t len, size_t *len_p)
{
    star *s = x->impl;
    const tg__part *part = &x->parts[id];
    const uint8_t *frame = tg__message_frame(&s->pull, id);
    float *dst = x->into + part->lo;
    tg__star_tail tail;
    if (tg__star_read_tail(frame, len, &tail) != TG_OK)
        return tg_fail(TG_E_CORRUPT, "server %u: %s", id / s->slices, tg_error());
    const bool change = tail.holds == TG__STAR_CHANGE;
    len -= TG__STAR_TAIL;
    if (change && s->number[id] != 0 && tail.number != s->number[id] + 1)
        return tg_fail(
            TG_E_CORRUPT, "server %u: a change that leads to parameters %llu: this rank has %llu",
            id / s->slices, (unsigned long long)tail.number, (unsigned long long)s->number[id]);
    TG_TRY(check_frame(x, id, len, change ? x->codec->ops->wire_id : TG__ID_f32));
    if (change)
        tg__frame_decode_add(frame, len, dst, x->pool);
    else
        tg__frame_decode(frame, len, dst, x->pool);
    if (!tg__parallel_finite(x->pool, dst, part->hi - part->lo))
        return tg_fail(TG_E_CORRUPT, "server %u: its parameters are not finite", id / s->slices);
    s->number[id] = tail.number;
    x->late[id] = tail.holds == TG__STAR_LATE;
    x->is_late |= x->late[id];
    x->step = TG__MAX(x->step, tail.step);
    *len_p = len;
    return TG_OK;
}

static tg_status star_done(tg__exchange *x, uint32_t id, size_t len)
{
    star *s = x->impl;
    s->over++;
    if (id >= x->nparts)
        return TG_OK;
    x->answered = TG__STAR_HEAD + x->parts[id].len + s->behind[id];
    x->answered_part = id;
    if (x->keeps)
        return take_parameters(x, id, len, &s->len[id]);
    if (step_bytes(x, id, len) > 0) {
        TG_TRY(take_step(x, id, len));
        len -= TG__STAR_STEP;
    }
    const int codec = x->ops->codes_means ? x->codec->ops->wire_id : -1;
    TG_TRY(check_frame(x, id, len, codec));
    s->len[id] = len;
    while (s->from < s->slices && slice_is_here(x, s->from))
        s->from++;
    if (x->into != NULL) /* while it is cached, and other parts are in flight */
        decode_part(x, id, x->into);
    return TG_OK;
}

static bool star_finished(const tg__exchange *x)
{
    const star *s = x->impl;
    return s->over == 2 * x->nparts;
}

static void star_result(tg__exchange *x, float *dst)
{
    const star *s = x->impl;
    if (x->keeps && x->into != dst)
        memcpy(dst, x->into, x->n * sizeof *dst);
    for (size_t i = 0; !x->keeps && x->into != dst && i < x->nparts; i++)
        decode_part(x, i, dst);
    x->overflow |= s->spoilt;
}

/* With one server, whose link is like those of the ranks. */
static void star_cost(int size, size_t n, double frame, tg__cost *cost_p)
{
    const double head = TG__ENVELOPE_BYTES + TG__STAR_HEAD;
    const double block = TG__ENVELOPE_BYTES + TG__FRAME_HEAD + 4.0 * (double)n;
    *cost_p = (tg__cost){
        .rounds = 2, .delays = 2, .bytes = frame + head, .serial = size * (frame + head + block)};
}

static void twoway_cost(int size, size_t n, double frame, tg__cost *cost_p)
{
    const double head = TG__ENVELOPE_BYTES + TG__STAR_HEAD + TG__CODING_STEP;
    (void)n;
    *cost_p = (tg__cost){.rounds = 2,
                         .delays = 2,
                         .bytes = frame + head,
                         .serial = size * (frame + head + TG__ENVELOPE_BYTES + frame)};
}

#define STAR_OPS                                                                             \
    .impl_bytes = sizeof(star), .init = star_init, .start = star_start, .wants = star_wants, \
    .done = star_done, .finished = star_finished, .result = star_result, .served = true

const tg__exchange_ops tg__star_exchange = {
    .entry = {"star", "servers sum in rank order and send the sums to all: 2 delays",
              "Li et al. 2014, OSDI", NULL},
    .brief = "2 delays, by way of servers, which sum in rank order",
    .sums = TG__SUMS_DENSE | TG__SUMS_CODED,
    STAR_OPS,
    .cost = star_cost,
};

const tg__exchange_ops tg__twoway_exchange = {
    .entry = {"twoway",
              "the same, and servers code the means, each with a residual of its own: two-way "
              "compression",
              "Tang et al. 2019, arXiv:1905.05957", NULL},
    .brief = "2 delays, by way of servers, which code means with residuals",
    .sums = TG__SUMS_TWOWAY,
    STAR_OPS,
    .cost = twoway_cost,
    .codes_means = true,
};
