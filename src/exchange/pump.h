/* The pump drives exchanges over a transport: posts what they want, seals and opens envelopes,
 * watches deadlines. The communication thread and inline progress both call tg__pump_run. Not
 * thread-safe: one thread at a time. */
#ifndef TG_PUMP_H
#define TG_PUMP_H

#include "exchange/exchange.h"
#include "telegrad/transport.h"

/* Receives are posted at once; sends, in order of priority, while fewer bytes than this are under
 * way, or none to that peer (who may not answer any more: that must not hold up the others). What
 * is under way cannot be overtaken, so a message of the first layers waits for this and a message a
 * peer at most: 0.4 s at 20 Mbit/s, 42 ms at 200 Mbit/s. A link is kept busy if it is no less than
 * rate x the time until a send is over, which over TCP is a round trip: 1 MiB is enough for
 * 200 Mbit/s with 20 ms one way. */
#define TG__PUMP_WINDOW ((size_t)1 << 20)

/* Exchanges under way at once have numbers that differ modulo this. */
#define TG__SEQUENCES 4096u

typedef struct tg__waits tg__waits;

/* One user of the transport, a reducer or a session: what its exchanges have in common. Each has a
 * window of its own, because what one of them has under way may wait until a peer starts the same
 * exchange, which may be when another's messages have come. Zero it, set what is needed. */
typedef struct tg__channel {
    uint16_t number;     /* in envelopes; 0: none yet */
    uint64_t session;    /* hash that envelopes carry */
    int64_t timeout_ns;  /* longest wait for one message */
    const bool *near;    /* (size) or NULL: none. Borrowed, set by the maker, as are: */
    tg__waits *waits;    /* who is waited for; NULL: nobody asks */
    uint64_t bytes_sent; /* total, envelopes included ... */
    uint64_t bytes_near; /* ... of them to ranks that are near */
    size_t *under_way; /* (size) bytes given to the transport for that peer, and not sent yet ... */
    size_t total_under_way; /* ... and for all: see TG__PUMP_WINDOW */
} tg__channel;
void tg__channel_fini(tg__channel *c); /* nothing of it is under way, or the pump is dead */

/* Whom an exchange is between, if that is not all ranks of the transport. */
typedef struct tg__group {
    const int *rank;   /* (size of the exchange) each one's rank in the transport */
    unsigned patience; /* longest wait for one message, in timeouts: more than 1 where a peer has
                          exchanges to wait for itself before it answers. Beyond the first one it
                          ends if any rank is known to have given up because of another */
} tg__group;

/* One exchange on its way. The caller owns the memory (zeroed before the first use) and keeps it
 * until `finished`. */
typedef struct tg__flight {
    tg__exchange *x;
    tg__channel *channel;   /* NULL: the pump's own. Borrowed until finished */
    const tg__group *group; /* NULL: all ranks. Borrowed until finished */
    uint32_t sequence; /* the message tag's: the same on all ranks for this exchange, and different,
                          mod TG__SEQUENCES, from all others under way on any rank */
    uint64_t step;
    uint16_t bucket;
    int priority; /* smaller: its messages are sent first; FIFO among equals */
    /* By simulated time: to start x; to take in a byte of a frame, in picoseconds. */
    int64_t start_cost_ns, byte_cost_ps;
    uint16_t program_round; /* which exchange of its method's program this is, below 1024 */
    uint16_t flags_out; /* what this rank says; OR-ed with what came in before the exchange asks for
                           each send, so that flags travel on */
    uint16_t flags_in;  /* [out] OR of all that was received; NONFINITE if x->overflow */
    bool finished;      /* [out] */
    uint64_t bytes_sent;      /* [out] envelopes included */
    int64_t begin_ns, end_ns; /* [out] by the transport's clock */
    int64_t combine_ns; /* [out] of it in the exchange: checking, decoding and combining frames */

    struct tg__flight *next; /* from here on the pump's */
    struct tg__posts *posts;
    const uint8_t *sealed; /* the message sealed last, as message `sealed_order` */
    uint32_t sealed_order;
    uint32_t order;   /* slice << 6 | round: the lowest still pending ... */
    int64_t order_ns; /* ... since then */
} tg__flight;

typedef struct tg__pump {
    tg_transport *transport;
    tg__channel own;    /* of flights that name none */
    tg__flight *active; /* by priority, then in the order launched */
    int64_t *heard_ns;  /* (2 size), see pump_late.c */
    int64_t ran_ns;     /* when this rank is known to have run last; 0: never */
    tg_status status;   /* first failure: the pump is dead from then on */
    int culprit;        /* of it, a rank; -1: nobody in particular */
    int suspect;        /* ... if that rank blames this one: who is late too; -1: nobody */
    int64_t timeout_ns; /* ... of the exchange that failed */
    char error[320];
} tg__pump;

/* session, timeout_ns: of the pump's own channel. */
void tg__pump_init(tg__pump *p, tg_transport *t, uint64_t session, int64_t timeout_ns);
/* Touches no flight. If any is active the transport must be shut before its memory goes. */
void tg__pump_fini(tg__pump *p);

/* Free what the pump keeps in a flight that is not under way; after a failure only if the
 * transport's shut returned true: else posted memory is still in use, and the exchange must live on
 * as well. */
void tg__flight_fini(tg__flight *f);

/* Start f->x (parts encoded) and post what it wants. A flight without messages is finished on
 * return. Ranks may launch in different orders. Errors: those of the exchange and the transport;
 * then the pump is dead */
TG_NODISCARD tg_status tg__pump_launch(tg__pump *p, tg__flight *f);

/* Move everything that can be moved; if nothing finished, sleep in the transport's poll, at most
 * until deadline_ns, and try again; returns when a flight finished, nothing is active, wake was
 * called, or the deadline passed, and may return earlier: call it in a loop. On a message that
 * stays away for timeout_ns: TG_E_PEER "rank 2 sent nothing for 10.0 s (step 7, bucket 0, exchange
 * direct, round 0)"; transport failures and damaged messages likewise. A failure shuts the
 * transport. The wait for a message begins when all earlier rounds are complete, and anew with
 * every message from the same rank, whatever its channel. Time in which this rank did not listen is
 * no lateness of a peer: what passes between two calls, or in one while the process does not run
 * (stopped, frozen, the machine suspended), does not count if it is more than 1/64 of timeout_ns at
 * a stretch. */
TG_NODISCARD tg_status tg__pump_run(tg__pump *p, int64_t deadline_ns);

/* Launch and run until f is finished: for handshakes and tests. */
TG_NODISCARD tg_status tg__pump_wait(tg__pump *p, tg__flight *f);

#endif
