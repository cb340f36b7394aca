/* An exchange is a state machine without I/O. It turns the ranks' encoded vectors into their
 * aggregate. It never waits, never reads a clock, and has no notion of steps. A driver (pump.h, or
 * a simulator) runs it:
 *
 *     x->ops->start(x)               the parts have been encoded
 *     while (!x->ops->finished(x)):
 *         wants(x, wish, max)        what to send and receive now; each wish is returned once
 *         ...                        the driver moves the bytes, in any order
 *         done(x, id, len)           a send's buffer is free, or a payload of len bytes has arrived
 *                                    in its place (done checks the frame)
 *     result(x, dst)                 the aggregate
 *
 * Wishes    Receives come before sends that depend on nothing. If a msg goes to several peers, its
 *           wishes are consecutive, so that the driver seals it once.
 * Lifetime  An object is created once per (bucket, lane), with all its buffers, and started any
 *           number of times. Several objects may be in flight at once.
 * Adding    An exchange is one file and one line in exchanges.def. broadcast (sets parameters),
 *           reduce (sums within a node) and push (gossip) cannot be chosen by a spec.
 *
 * A small dense vector is exchanged in one delay by allgather with codec f32: every rank sends its
 * whole vector to all others, and each sums in rank order. */
#ifndef TG_EXCHANGE_H
#define TG_EXCHANGE_H

#include "base/owned.h"
#include "base/settings.h"
#include "codec/codec_impl.h"
#include "wire/envelope.h"
#include "telegrad/spec.h"

/* A message to send or receive. */
typedef struct tg__wish {
    bool send;
    int peer;
    uint16_t round; /* < 64 */
    uint32_t slice; /* < 64; (peer, round, slice) identifies a message of this exchange */
    uint8_t *msg;   /* TG__ENVELOPE_BYTES, which the driver fills, then the payload */
    size_t len;     /* payload bytes: to send, or at most to receive */
    uint32_t id;
} tg__wish;

typedef struct tg__exchange tg__exchange;

/* How decoded frames become the aggregate: mean, vote, median-clipped mean, maximum. finish
 * works element by element, so several cores may share a vector. */
typedef struct tg__combine {
    const char *name;
    /* Called in rank order, first on zeros; the frame has been checked. */
    void (*add)(float *acc, size_t n, const uint8_t *frame, size_t len, tg__pool *pool);
    void (*finish)(float *acc, size_t n, int size); /* NULL: nothing is left to do */
    /* All of it in one call: acc (x->n) from the checked frames of all ranks. The list
     * of frames is overwritten. Exchanges that have all frames at hand call it; NULL: none do. It
     * gives the same bits, unless it uses x->segments: then only such exchanges can serve it. */
    void (*all)(const tg__exchange *x, float *acc, const uint8_t **frames, const size_t *lens);
    size_t (*room)(size_t n, size_t tensors, int size); /* bytes of x->room; NULL: 0 */
    /* a sum, then a factor: an exchange may add partial sums, and cut vectors into slices */
    bool additive;
    bool votes; /* the result is a vote on signs, not a mean */
    /* `all` forms the aggregate in a place of its own, and acc is NULL; result does nothing. Only
     * allgather serves it. */
    bool elsewhere;
    bool cuts; /* ranks are compared by their norms; a mean unless the method has clip=median */
} tg__combine;
/* Zeros to add to, and finish, on the cores of x->pool. */
void tg__combine_begin(const tg__exchange *x, float *acc, size_t n);
void tg__combine_finish(const tg__exchange *x, float *acc, size_t n);
/* dst = finish(acc), one pass over memory less than copy and finish; acc does not change unless it
 * is dst. Returns true if dst is finite. */
bool tg__combine_take(const tg__exchange *x, float *dst, const float *acc, size_t n);
/* mean: add decoded values, multiply by 1.0f / size (exact for powers of two). */
extern const tg__combine tg__combine_mean;
/* Its two steps. */
void tg__mean_add(float *acc, size_t n, const uint8_t *frame, size_t len, tg__pool *pool);
void tg__mean_finish(float *acc, size_t n, int size);
/* Majority vote: the sign of the sum of signs; for codec sign with scale=none. */
extern const tg__combine tg__combine_vote;
/* mean, with each tensor of a rank scaled down to the median of the ranks' norms. */
extern const tg__combine tg__combine_clipped;
/* mean of dct frames, from the sum of their coefficients; x->segments are the tensors. Only
 * exchanges that have all frames at hand can use it, because its `add` leaves coefficients. */
extern const tg__combine tg__combine_dct;

/* For two-way methods: encode a finished block (ops->recodes), with x->recode_arg. mean
 * overlaps the memory of the frame's payload, so read all of it before writing the frame. If a
 * value overflows f32, write a frame of zeros and set x->overflow. */
typedef tg_status tg__recode(tg__exchange *x, const float *mean, uint8_t *frame, size_t cap,
                             size_t *len_p);

/* Maximum of f32 frames, at least 0; for scalers. */
extern const tg__combine tg__combine_max;

/* The cost of one exchange. */
typedef struct tg__cost {
    unsigned rounds;
    double delays; /* one-way delays in sequence */
    double bytes;  /* sent by the rank that sends most, envelopes included */
    /* bytes sent one after another on the critical path, by any ranks: over equal links an exchange
     * takes delays * delay + serial / rate. Larger than bytes if a rank waits for another rank's
     * bytes before it sends its own */
    double serial;
} tg__cost;

/* What an exchange can sum, and what a method sends: a method can use the exchanges with which it
 * has a bit in common. */
enum {
    TG__SUMS_DENSE = 1,      /* f32 vectors, with a sum as precise as f32 */
    TG__SUMS_CODED = 2,      /* frames of any codec, cut into parts; sums are not coded again */
    TG__SUMS_WHOLE = 4,      /* frames that must not be cut: tensors are coded as a whole */
    TG__SUMS_SELECTED = 8,   /* sparse frames; elements of sums are selected again */
    TG__SUMS_ROUNDED = 16,   /* frames of a codec that rounds; sums are rounded again, once */
    TG__SUMS_REROUNDED = 32, /* the same, but at every step of several */
    TG__SUMS_TWOWAY = 64, /* frames of any codec; servers code means, with a residual of theirs */
    TG__SUMS_ALL = 127
};

typedef struct tg__exchange_ops {
    tg_entry entry;
    const char *brief; /* delays, and what matters in the choice: for the help of methods */
    unsigned sums;     /* TG__SUMS_* */
    size_t impl_bytes; /* of x->impl, zeroed before init */
    /* Allocate for x->n, x->codec, x->size, from x->owned; set x->parts and x->nparts.
     * Errors  TG_E_NOMEM, TG_E_UNSUPPORTED */
    tg_status (*init)(tg__exchange *x);
    tg_status (*start)(tg__exchange *x);
    size_t (*wants)(tg__exchange *x, tg__wish *wish, size_t max);
    tg_status (*done)(tg__exchange *x, uint32_t id, size_t len);
    bool (*finished)(const tg__exchange *x);
    /* Overwrite dst (n) with the aggregate. All ranks get the same bits (except reduce, where only
     * rank 0 has it, and push). */
    void (*result)(tg__exchange *x, float *dst);
    /* The cost among `size` ranks, for n elements whose frame (of the whole vector) takes `frame`
     * bytes. */
    void (*cost)(int size, size_t n, double frame, tg__cost *cost_p);
    /* r (n) += scale * what this rank dropped when it encoded sums again, in units of the sum. Over
     * all ranks, what was sent is size * aggregate + leftover. Called when finished, before the
     * next start; any thread. NULL: the exchange does not encode sums again. */
    void (*leftover)(tg__exchange *x, float scale, float *r);
    /* may be cut into slices (sliced.h): it has no slices of its own, and gives the same result for
     * any cut of the vector */
    bool sliceable;
    bool automatic;   /* exchange=auto may choose it */
    bool apart;       /* nothing is summed: every rank has its own result */
    bool served;      /* servers sum: the transport must have some */
    bool decodes_own; /* the result contains this rank's own decoded values (not broadcast, push) */
    bool recodes;     /* encodes finished blocks by x->recode: two-way methods need it */
    bool codes_means; /* served: servers code what they send, with residuals of their own */
} tg__exchange_ops;

struct tg__exchange {
    const tg__exchange_ops *ops;
    int rank, size;
    int servers; /* that the ranks reach; in wishes, server s is peer size + s */
    size_t n;
    /* the time, set before start and done by a driver that knows it; else 0. It may affect when
     * something is wanted, but never a result */
    int64_t now_ns;
    tg_codec *codec; /* for bounds and for encoding sums again; borrowed */
    const tg__combine *combine;
    /* [out] by start, done and result: a sum or a mean overflowed f32. The driver sets it to false
     * before start. From then on, what the exchange sends carries NONFINITE. If all ranks decode
     * the same sum, all see the overflow in the result. If the sum is encoded again, a frame of
     * zeros replaces it, and the flag tells the other ranks. */
    bool overflow;
    /* (n) where result() will be asked to write; NULL: not known. Set before start; from then on it
     * belongs to the exchange, which can form the aggregate there without a copy. result() is
     * called once for each start. */
    float *into;
    /* star: what servers that keep the parameters go by. Set before start: the learning rate of the
     * gradient, 0: unknown. Set by the creator: its method owns the momentum */
    double rate;
    bool owns_momentum;
    /* star, of parameters. Set before start: if no other worker is there, steps count from 0. Out,
     * by done: the step at which this worker begins, of all servers the latest; and the ages
     * (tg__star_age) of the servers that have seen the fewest and the most steps, 0: not told */
    bool anew;
    uint64_t step;
    unsigned youngest, oldest;
    uint32_t youngest_server, oldest_server;
    /* star, of parameters. Set before start, borrowed: what the tensors are (tg__star_texts), at
     * most TG__STAR_TENSORS_MOST bytes; and this worker's settings, so that a server can say what
     * differs, at most TG__STAR_SETTINGS_MOST. Empty: none */
    tg__settings tensors, settings;
    /* star, of gradients. Out, by done: some server's update did not wait for this rank's part, so
     * the server does not have it; `step` is then where this rank goes on. (nparts) which parts;
     * NULL: in other exchanges */
    bool is_late;
    bool *late;
    int hop;        /* push: distance to the receiving rank; set before start */
    tg__pool *pool; /* cores for decoding; NULL: the calling one. Borrowed, set by the creator */
    /* (nparts) the exchange cuts and places them; the caller encodes its vector into them before
     * start */
    tg__part *parts;
    size_t nparts;
    /* slices in flight at once, each with at most 4 messages per rank; 0: 1 */
    unsigned open_slices;
    /* With ops->served, for the window to servers: the message that `done` has just shown to be
     * answered (bytes; 0: none). sent_ns: (nparts) of each part's message, set by the pump */
    size_t answered, answered_part;
    int64_t *sent_ns;
    size_t *unanswered; /* (servers) bytes that each has been sent and has not answered; likewise */
    /* With ops->recodes: encodes finished blocks; NULL: they are sent as dense f32. Set by the
     * creator. */
    tg__recode *recode;
    void *recode_arg;
    /* For combines that use them: (nsegments) the tensors, NULL: one; and working memory for the
     * combine. Borrowed, set by the creator. */
    const tg_segment *segments;
    size_t nsegments;
    void *room;
    /* With ops->leftover: the context for encoding sums, with a random stream of its own. Set
     * before each start; its segments are those of the vector, or none. */
    tg_encode_context context;
    tg_segment *cut; /* scratch of tg__reencode */
    /* With ops->codes_means: `context` is also that by which servers code. Set before each start,
     * alike on all ranks: their residuals begin at 0; what they sent last was not applied; and a
     * factor for their residuals, 0: they send zeros and keep them */
    bool first, dropped;
    double factor;
    /* ... and set by the creator: servers keep the parameters. Then `into` is always given, and
     * holds what this rank has of them; answers change that, or replace it */
    bool keeps;
    bool costs_two_ways; /* it stands for one with ops->codes_means, to be measured */
    void *impl;
    tg__owned owned; /* memory, released with the exchange */
};

const tg__exchange_ops *const *tg__exchanges(size_t *count_p);
const tg_entry *const *tg__exchange_entries(size_t *count_p);
/* Find an exchange by its name, including "broadcast", "reduce" and "push"; NULL if there is
 * none. */
const tg__exchange_ops *tg__exchange_find(const char *name);

/* Create an exchange of n elements for one rank.
 * codec  of the parts; borrowed. Dense exchanges (direct, ring) sum decoded values and send their
 *        sums as dense f32 */
TG_NODISCARD tg_status tg__exchange_create(const tg__exchange_ops *ops, int rank, int size,
                                           size_t n, tg_codec *codec, const tg__combine *combine,
                                           tg__exchange **x_p);
/* The same for ranks that reach `servers` servers. */
TG_NODISCARD tg_status tg__exchange_create_served(const tg__exchange_ops *ops, int rank, int size,
                                                  int servers, size_t n, tg_codec *codec,
                                                  const tg__combine *combine, tg__exchange **x_p);
void tg__exchange_destroy(tg__exchange *x);

/* Bytes that the best dense exchange sends per rank: 8 n (P-1)/P. */
double tg__dense_bytes(int size, size_t n);

#endif
