/* An exchange is a state machine without I/O that turns the ranks' encoded vectors into their
 * aggregate. It never waits, never looks at a clock, and knows no step. A driver (pump.h, or a
 * simulator) plays it:
 *
 *     x->ops->start(x)               its parts have been encoded
 *     while (!x->ops->finished(x)):
 *         wants(x, wish, max)        what it wants sent and received now, each told once
 *         ...                        the driver moves the bytes, in any order
 *         done(x, id, len)           a send's buffer is free, or a payload of len bytes has come to
 *                                    its place (the frame has not been checked: done does)
 *     result(x, dst)                 the aggregate
 *
 * Receives are told before sends that depend on nothing; one msg that goes to several peers is told
 * in an unbroken row, so that a driver seals it once.
 *
 * An object is made once per (bucket, lane) with all its buffers and started any number of times;
 * several objects may be under way at once. One file and one line in exchanges.def each; broadcast
 * (sets parameters), reduce (sums within a node) and push (gossip) are not selectable.
 *
 * A small dense vector in one delay is allgather with codec f32: every rank sends all of it to all,
 * who sum in rank order. */
#ifndef TG_EXCHANGE_H
#define TG_EXCHANGE_H

#include "codec/codec_impl.h"
#include "wire/envelope.h"
#include "telegrad/spec.h"

/* msg is a message buffer: TG__ENVELOPE_BYTES of room, then the payload. The driver owns the room.
 */
typedef struct tg__wish {
    bool send;
    int peer;
    uint16_t round; /* < 64 */
    uint32_t slice; /* < 64; (peer, round, slice) names a message of this exchange */
    uint8_t *msg;
    size_t len; /* payload bytes: to send, or the most that may come */
    uint32_t id;
} tg__wish;

typedef struct tg__exchange tg__exchange;

/* How decoded frames become the aggregate. Mean is the first; votes, medians and weighted means are
 * others. begin and finish look at elements one by one: several cores may share a vector. */
typedef struct tg__combine {
    const char *name;
    void (*begin)(float *acc, size_t n);
    /* in rank order; the frame has been checked */
    void (*add)(float *acc, size_t n, const uint8_t *frame, size_t len, int rank, tg__pool *pool);
    void (*finish)(float *acc, size_t n, int size);
    /* NULL, or all of these at once: acc (x->n) from the ranks' checked frames, whose list is
     * overwritten. Exchanges that have all frames at hand call it. The same bits, unless it looks
     * at x->segments: then only those exchanges can serve it. */
    void (*all)(const tg__exchange *x, float *acc, const uint8_t **frames, const size_t *lens);
    size_t (*room)(size_t n, size_t tensors, int size); /* bytes of x->room; NULL: none */
} tg__combine;
/* begin and finish on the cores of x->pool. */
void tg__combine_begin(const tg__exchange *x, float *acc, size_t n);
void tg__combine_finish(const tg__exchange *x, float *acc, size_t n);
/* dst = what finish makes of acc, which stays as it is: a pass over memory less than copy and
 * finish. Whether it is finite. */
bool tg__combine_take(const tg__exchange *x, float *dst, const float *acc, size_t n);
extern const tg__combine
    tg__combine_mean; /* zeros; += decoded; *= 1.0f / size (exact for powers of two) */
extern const tg__combine tg__combine_vote; /* sign of the sum of signs; codec sign, scale=none */
extern const tg__combine
    tg__combine_clipped; /* mean, each tensor of a rank cut to the median of the ranks' norms */

/* Two-way methods: turn a finished block (of exchange direct) into a coded frame, by
 * x->recode_arg. mean lies where the frame's payload will, so it is used up before the frame is
 * written. What left the range of f32 is a frame of zeros, and x->overflow. */
typedef tg_status tg__recode(tg__exchange *x, const float *mean, uint8_t *frame, size_t cap,
                             size_t *len_p);

extern const tg__combine
    tg__combine_max; /* zeros; the larger of it and the f32 frame's; for scalers >= 0 */

/* What one exchange costs a rank, for n elements of which a frame takes `frame` bytes (whole
 * vector), P ranks. */
typedef struct tg__cost {
    unsigned rounds;
    double delays; /* one-way delays in sequence */
    double bytes;  /* sent per rank, envelopes included: by the rank that sends most */
    double serial; /* bytes that leave one after the other, whoever sends them: over equal links an
                      exchange takes delays * delay + serial / rate. More than bytes where a rank
                      waits for another's before it sends its own */
} tg__cost;

typedef struct tg__exchange_ops {
    tg_entry entry;
    /* allocate for x->n, x->codec, x->size; set x->parts, nparts. Errors TG_E_NOMEM,
     * TG_E_UNSUPPORTED */
    tg_status (*init)(tg__exchange *x);
    void (*fini)(tg__exchange *x);
    tg_status (*start)(tg__exchange *x);
    size_t (*wants)(tg__exchange *x, tg__wish *wish, size_t max);
    tg_status (*done)(tg__exchange *x, uint32_t id, size_t len);
    bool (*finished)(const tg__exchange *x);
    void (*result)(tg__exchange *x, float *dst); /* dst (n) is overwritten, the same bits on all
                                                    ranks (reduce: only rank 0 has it; push: not) */
    void (*cost)(int size, size_t n, double frame, tg__cost *cost_p);
    /* Exchanges that encode sums again (the others: NULL): r (n) += scale * what this rank dropped
     * from sums in doing so, in units of the sum. Over all ranks, what was sent is size * the
     * aggregate plus this. When finished, before the next start; any thread. */
    void (*leftover)(tg__exchange *x, float scale, float *r);
    bool sliceable; /* no messages of slices of its own, the same for any cut of the vector: may be
                     * cut into slices (sliced.h) */
    bool automatic; /* exchange=auto may choose it */
    bool decodes_own; /* the result contains this rank's own decoded values (not broadcast and push)
                       */
} tg__exchange_ops;

struct tg__exchange {
    const tg__exchange_ops *ops;
    int rank, size;
    size_t n;
    int64_t now_ns;  /* before start and done: what time it is, if the driver knows; else 0. It may
                        change what is wanted when, never a result */
    tg_codec *codec; /* bounds and re-encodes; borrowed */
    const tg__combine *combine;
    /* [out] by start, done and result: a sum, or a mean, left the range of f32. What the exchange
     * sends from then on carries NONFINITE. Of a sum that all ranks decode alike all see it in the
     * result; of one that is encoded again a frame of zeros goes on, and the flag tells the others.
     * A driver sets it to false before start. */
    bool overflow;
    int hop;         /* push: to the rank that many further; set before start */
    tg__pool *pool;  /* cores for decoding; NULL: the calling one. Borrowed, set by the maker */
    tg__part *parts; /* (nparts) where the caller encodes its vector before start: cut and placed by
                        the exchange */
    size_t nparts;
    unsigned open_slices; /* slices under way at once, with at most 4 messages a rank each; 0: 1 */
    tg__recode
        *recode; /* NULL: finished blocks go out as dense f32. direct only, set by the maker */
    void *recode_arg;
    const tg_segment *segments; /* (nsegments) tensors, for combines that look at them; NULL: one.
                                   Borrowed, set by the maker, as is the room */
    size_t nsegments;
    void *room;
    tg_encode_context context; /* ops->leftover: what encoding sums depends on, and a random stream
                                  of its own; set before each start, segments of the vector (or
                                  none) */
    void *impl;
};

const tg__exchange_ops *const *tg__exchanges(size_t *count_p);
const tg_entry *const *tg__exchange_entries(size_t *count_p);
const tg__exchange_ops *
tg__exchange_find(const char *name); /* also "broadcast", "reduce", "push"; NULL if there is none */

/* codec: of the parts. A dense exchange (direct, ring) sums decoded values and sends its sums as
 * dense f32. */
TG_NODISCARD tg_status tg__exchange_create(const tg__exchange_ops *ops, int rank, int size,
                                           size_t n, tg_codec *codec, const tg__combine *combine,
                                           tg__exchange **x_p);
void tg__exchange_destroy(tg__exchange *x);

/* Bytes the best dense exchange sends per rank: 8 n (P-1)/P. */
double tg__dense_bytes(int size, size_t n);

#endif
