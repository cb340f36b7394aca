/* The pump drives exchanges over a transport: it posts what they want, seals and opens envelopes,
 * and watches deadlines. The communication thread and inline progress both call tg__pump_run.
 *
 * Threads  one at a time */
#ifndef TG_PUMP_H
#define TG_PUMP_H

#include "base/latch.h"
#include "exchange/exchange.h"
#include "exchange/server_window.h"
#include "telegrad/transport.h"

/* The window: the number of bytes of sends that may be in flight.
 *
 * Receives are posted at once. Sends are posted in order of priority while fewer bytes than this
 * are in flight in all, or none to that peer (a peer that no longer answers must not hold up the
 * others).
 *
 * Upper limit  What is in flight cannot be overtaken, so a message of the first layers waits for at
 *              most this much and one message per peer: 0.4 s at 20 Mbit/s, 42 ms at 200 Mbit/s.
 * Lower limit  To keep a link busy, at least rate x the time until a send completes, which over TCP
 *              is a round trip: 1 MiB is enough for 200 Mbit/s with 20 ms one way. */
#define TG__PUMP_WINDOW ((size_t)1 << 20)

/* The numbers of exchanges that are under way at the same time differ modulo this. */
#define TG__SEQUENCES 4096u

typedef struct tg__waits tg__waits;

/* What the exchanges of one user of the transport (a reducer or a session) have in common. Each
 * channel has a window of its own: its messages may wait until a peer starts the same exchange, and
 * the peer may do that only after messages of another channel have arrived.
 * Zero the struct and set what is needed. */
typedef struct tg__channel {
    uint16_t number;    /* in envelopes; 0: none yet */
    uint64_t session;   /* hash that envelopes carry */
    int64_t timeout_ns; /* longest wait for one message */
    const bool *near; /* (size) ranks on the same node; NULL: none. Borrowed, set by the creator */
    /* measures the time spent waiting for each rank; NULL: off. Borrowed, set by the creator */
    tg__waits *waits;
    uint64_t bytes_sent; /* total, envelopes included */
    uint64_t bytes_near; /* the part sent to near ranks */
    /* (ranks and servers) bytes per peer that the transport has accepted and not yet sent */
    size_t *under_way;
    size_t total_under_way;    /* their sum: see TG__PUMP_WINDOW */
    tg__server_window *window; /* (servers) */
    int talkers; /* ranks that send to servers: leaders of nodes; 0: all. Set by the creator */
} tg__channel;
/* Free what the channel holds. Nothing of it may be under way, unless the pump is dead. */
void tg__channel_fini(tg__channel *c);

/* The ranks of an exchange, if they are not all ranks of the transport. */
typedef struct tg__group {
    const int *rank; /* (size of the exchange) their ranks in the transport; NULL: all */
    /* longest wait for one message, in timeouts: more than 1 if a peer must itself wait for
     * exchanges before it answers. After the first timeout, the wait ends if any rank is known to
     * have given up because of another */
    unsigned patience;
} tg__group;

/* What the work on an exchange costs on a simulated clock. */
typedef struct tg__costs {
    int64_t encode_ns;
    int64_t start_ns, finish_ns; /* of each of its method's rounds */
    int64_t decode_byte_ps;      /* per byte of received frames (picoseconds) */
} tg__costs;

/* One exchange in flight. The caller owns the memory, zeroes it before the first use, and keeps it
 * until `finished`. */
typedef struct tg__flight {
    tg__exchange *x;
    tg__channel *channel;   /* NULL: the pump's own. Borrowed until finished */
    const tg__group *group; /* NULL: all ranks. Borrowed until finished */
    /* for message tags: the same on all ranks for this exchange, and different, mod TG__SEQUENCES,
     * from all others in flight on any rank */
    uint32_t sequence;
    uint64_t step;
    uint16_t bucket;
    bool no_step;           /* it belongs to no step of training; step and bucket are 0 */
    int priority;           /* smaller: its messages are sent first; FIFO among equals */
    const tg__costs *costs; /* NULL: its work costs nothing. Borrowed until finished */
    uint16_t program_round; /* number of this exchange in its method's program, below 1024 */
    /* flags that this rank sends. Flags received before a send are added, so that they propagate */
    uint16_t flags_out;
    uint16_t flags_in;        /* [out] all flags received; also NONFINITE if x->overflow */
    bool finished;            /* [out] */
    uint64_t bytes_sent;      /* [out] envelopes included */
    uint64_t bytes_near;      /* [out] the part sent to near ranks */
    int64_t begin_ns, end_ns; /* [out] by the transport's clock */
    int64_t combine_ns;       /* [out] the part spent on checking, decoding and combining frames */

    struct tg__flight *next; /* from here on for the pump only */
    struct tg__posts *posts;
    const uint8_t *sealed; /* the message sealed last, as message `sealed_order` */
    uint32_t sealed_order;
    uint32_t order;   /* slice << 6 | round: the lowest one pending */
    int64_t order_ns; /* the time since when `order` has been pending */
} tg__flight;

typedef struct tg__pump {
    tg_transport *transport;
    tg__channel own;    /* of flights without a channel */
    tg__flight *active; /* by priority, then in the order launched */
    int64_t *heard_ns;  /* (2 for each rank and server), see pump_late.c */
    int64_t ran_ns;     /* when this rank was last known to run; 0: never */
    tg__latch failure;  /* after it the pump is dead */
    int culprit;        /* the rank that caused it; -1: no particular one */
    int suspect;        /* if the culprit blames this rank: another late rank; -1: none */
    int64_t timeout_ns; /* of the exchange that failed */
    bool stepped;       /* an exchange of a step has begun */
} tg__pump;

/* Initialise p; session and timeout_ns are those of the pump's own channel. */
void tg__pump_init(tg__pump *p, tg_transport *t, uint64_t session, int64_t timeout_ns);
/* Free p; no flight is touched. If a flight is active, shut the transport before freeing its
 * memory. */
void tg__pump_fini(tg__pump *p);

/* Free what the pump keeps in a flight that is not in flight. After a failure, call it only if the
 * transport's shut returned true; otherwise posted memory is still in use, and the exchange must be
 * kept as well. */
void tg__flight_fini(tg__flight *f);

/* Start f->x, whose parts are encoded, and post what it wants. A flight without messages is
 * finished on return. Ranks may launch flights in different orders.
 * Errors  those of the exchange and of the transport; the pump is dead then */
TG_NODISCARD tg_status tg__pump_launch(tg__pump *p, tg__flight *f);

/* Make progress on all flights. If none finishes, sleep in the transport's poll until deadline_ns
 * at most, and try again. Returns when a flight has finished, nothing is active, wake was called,
 * or the deadline has passed. It may return earlier, so call it in a loop.
 *
 * Timeouts  The wait for a message begins when all earlier rounds are complete, that for a server's
 *           answer not before the message that it answers is sent, and again with every message
 *           from the same rank, on any channel. While the transport says that bytes of a message
 *           move (moved_ns), it may take ten times as long. Time in which this rank does not
 *           listen is not a peer's delay: a stretch of more than 1/64 of timeout_ns between two
 *           calls, or within one while the process does not run (stopped, frozen, machine
 *           suspended), does not count.
 * Errors    TG_E_PEER if a message is missing for timeout_ns: "rank 2 sent nothing for 10.0 s (step
 *           7, bucket 0, exchange direct, round 0)"; those of the transport, and of damaged
 *           messages. A failure shuts the transport */
TG_NODISCARD tg_status tg__pump_run(tg__pump *p, int64_t deadline_ns);

#endif
