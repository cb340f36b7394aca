/* telegrad/transport.h - moving bytes between ranks: ready transports, and the table to fill for
 * one of your own.
 *
 * A transport is point to point and non-blocking.
 *
 * Driving  One thread at a time drives a transport: a session's communication thread, or the
 *          caller's thread with inline progress. Only `wake` may be called from other threads.
 * Sharing  Several reducers and sessions may share a transport: up to 1,023 reducers, fewer beside
 *          sessions.
 *          - All ranks create the reducers, and begin (or load) the sessions, in the same order.
 *            The handshake names what differs.
 *          - After that they are independent: start, wait for and destroy them in any order, which
 *            may differ between ranks. The results are the same as if they ran one after the other.
 *          - Waiting for one makes progress on all. A wait ends only when every rank has started
 *            that operation, so start what other ranks may wait for before you wait yourself.
 *          - A failure of one shuts the transport; all others fail with the same error, and so do
 *            those created later. A rank that runs out of memory while it creates one shuts it too,
 *            because the others would wait. A failure that all ranks know of (their settings
 *            differ) ends that one alone.
 *          - A call that refuses its arguments (TG_E_ARG, TG_E_SPEC, ...) sends nothing, and the
 *            transport stays as it was. If every rank made the same mistake, call again with other
 *            arguments. If this rank alone did, the others wait for it: destroy the transport.
 *            Then they get TG_E_PEER at once, which names this rank.
 * Lifetime A transport, its table of functions and its clock are used where they lie. They must
 *          live until the last reducer and session on the transport is destroyed, and the clock
 *          until the transport is. Destroy in this order: reducers and sessions, transport, clock.
 * Threads  Different threads may use different reducers and sessions of a transport at the same
 *          time. If any_thread is false, only the thread that created the first one may use them;
 *          other threads get TG_E_STATE. While a session with a communication thread exists, that
 *          thread drives the transport for all. */
#ifndef TELEGRAD_TRANSPORT_H
#define TELEGRAD_TRANSPORT_H

#include "telegrad/base.h"
#include "telegrad/clock.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One posted operation. The caller provides the memory, and must not move it until `test` reports
 * it done or the transport is destroyed. The words belong to the transport. Never grows. */
typedef struct tg_request {
    uint64_t word[8];
} tg_request;

typedef struct tg_transport tg_transport;

/* The functions of a transport. The table and the tg_transport are used where they lie. A function
 * that fails says why with tg_fail. */
typedef struct tg_transport_ops {
    size_t struct_size; /* sizeof(tg_transport_ops) */
    const char *name;

    /* Start sending len bytes to peer. Messages with the same (peer, tag) arrive in the order
     * posted.
     * tag     < TG_TAG_LIMIT
     * buf     the caller must not change it until done
     * Errors  TG_E_PEER (names the rank), TG_E_STATE (after `shut`) */
    tg_status (*post_send)(tg_transport *t, int peer, uint32_t tag, const void *buf, size_t len,
                           tg_request *req);
    /* Start receiving one message of at most cap bytes from peer with exactly this tag.
     * Errors  as for post_send */
    tg_status (*post_recv)(tg_transport *t, int peer, uint32_t tag, void *buf, size_t cap,
                           tg_request *req);
    /* Has the operation finished? After an error it is over, too, and the memory of a receive may
     * hold anything, also bytes that the peer has not sent.
     * done_p  [out]
     * len_p   [out] bytes received or sent, set when done
     * Errors  TG_E_PEER (the peer is gone), TG_E_CORRUPT (a message longer than cap arrived) */
    tg_status (*test)(tg_transport *t, tg_request *req, bool *done_p, size_t *len_p);
    /* Make progress. Return when something may have changed, when `wake` was called since the last
     * poll, or at deadline_ns of t->clock, whichever comes first. It may return early. It must
     * sleep, not spin. */
    tg_status (*poll)(tg_transport *t, int64_t deadline_ns);
    /* Make the current poll, or the next one, return soon. May be called from any thread. NULL:
     * poll must not sleep longer than a millisecond. */
    void (*wake)(tg_transport *t);
    /* This rank gives up. Peers that wait for it get TG_E_PEER as soon as the medium can tell them;
     * every later call here fails with TG_E_STATE. May be called twice.
     * Returns true: posted buffers are released. False: the medium cannot cancel (MPI), and they
     * stay in use until the process ends. */
    bool (*shut)(tg_transport *t);
    /* Free everything, t included. This rank leaves, as after `shut`: peers that wait for it get
     * TG_E_PEER. What it sent before still arrives if no request is pending. */
    void (*destroy)(tg_transport *t);
    /* Optional; both or neither (NULL). They let every rank name the rank that failed, not only the
     * ranks that waited for it.
     * blame   the rank that makes this one give up (it may be itself). Called once, before `shut`,
     *         which tells the others
     * blamed  the rank that peer blamed; TG_BLAMED_NOBODY if it left without blaming anyone,
     *         TG_NOT_LEFT if it is not known to have left. May be called after `shut` */
    void (*blame)(tg_transport *t, int rank);
    int (*blamed)(tg_transport *t, int peer);
    /* Optional (NULL), for a transport whose other ranks come and go, such as a server's. A rank
     * that is absent is a vacant seat: receives posted to it wait for whoever takes the seat.
     * Disconnect a rank, and tell it tg_error; or clear the seat of one that has left. Its
     * operations are over, and its seat is vacant afterwards. Returns true if the rank may come
     * back, because its connection broke. */
    bool (*drop)(tg_transport *t, int peer);
    /* Optional (NULL), for a transport that can reconnect to a peer. Once all operations with the
     * lost peer are over, call it until the peer is back; post nothing to the peer before that.
     * Each call waits a few seconds at most, 20 if the peer's name has to be looked up.
     * back_p  [out] true: the peer is connected. It knows nothing of earlier operations
     * Errors  the peer will not come back: TG_E_PEER, TG_E_MISMATCH, TG_E_NOMEM, TG_E_STOPPED */
    tg_status (*renew)(tg_transport *t, int peer, bool *back_p);
    /* Optional (NULL), for a transport that reconnects by itself, such as that of
     * tg_transport_worker: is it reconnecting to this peer? Until it is done, the peer is not
     * late. */
    bool (*is_away)(tg_transport *t, int peer);
    /* Optional (NULL), beside `drop`: a worker that had this seat before may come back, as a server
     * that was started again knows from its journal. Another one gets the seat only if no other is
     * vacant, and of several such seats the one that was expected first. */
    void (*expect)(tg_transport *t, int peer);
    /* Optional (NULL), for a medium on which one message may take longer than the timeout of those
     * who wait for it: when bytes of a message last came from peer (send: when this machine's
     * system, or the peer's, last took some), by t->clock; 0: never, or not known. May be early.
     * While bytes move, the peer is not silent: a message may take up to ten times the timeout. */
    int64_t (*moved_ns)(tg_transport *t, int peer, bool send);
} tg_transport_ops;

#define TG_BLAMED_NOBODY (-1)
#define TG_NOT_LEFT (-2)

struct tg_transport {
    size_t struct_size; /* sizeof(tg_transport) */
    const tg_transport_ops *ops;
    void *impl;            /* the implementation's own */
    int rank, size;        /* 0 <= rank < size */
    bool any_thread;       /* threads other than the creating one may drive it */
    const tg_clock *clock; /* of the deadlines of `poll` */
    /* Servers that this rank reaches in addition to the ranks (server.h): peers `size` to
     * size + servers - 1. They are not ranks of the job. */
    size_t servers;
    /* For a rank that reaches servers only (size 1): which of at most `seats` workers it is, from
     * 0. Random numbers and data depend on it. 0, 0: any other rank. */
    int seat, seats;
};

#define TG_RANKS_MAX 4096  /* most ranks that reducers and sessions run on */
#define TG_SERVERS_MAX 256 /* most servers beside them */

/* A tag has 24 bits: exchange < 2^12, round < 2^6, slice < 2^6. Decorators use bit 24 and up.
 * Exchanges that are under way at the same time have different numbers; each reducer or session has
 * its own range of them. */
#define TG_TAG_LIMIT ((uint32_t)1 << 24)

/* Leave and free the transport, including one of your own; NULL is fine. (Its function `destroy`
 * alone would leave behind what reducers and sessions know of it.) Ranks that still wait for this
 * one get TG_E_PEER at once. Destroy its reducers and sessions first: if some are left, all their
 * calls fail with TG_E_STATE, and the transport is freed with the last of them.
 * Threads  if any_thread is false, the thread that created its first reducer or session. If another
 *          thread calls it while some are left, it marks them as failed; this rank then leaves in
 *          the next call that uses one of them, or when the last of them is destroyed */
TG_API void tg_transport_destroy(tg_transport *t);

/* Connect `size` ranks of one process through memory.
 * t_out    [out] (size) one endpoint per rank
 * Errors   TG_E_ARG (size < 1 or > TG_RANKS_MAX), TG_E_NOMEM
 * Threads  each endpoint may be used and destroyed by a thread of its own */
TG_API TG_NODISCARD tg_status tg_transport_inproc(int size, tg_transport **t_out);
/* The same with another clock.
 * clock    borrowed: tg_clock_monotonic(), or a virtual clock that all threads that use the
 *          endpoints have entered (clock.h)
 * Errors   as above; TG_E_ARG also for a clock without now_ns or sleep_until_ns */
TG_API TG_NODISCARD tg_status tg_transport_inproc_clock(int size, const tg_clock *clock,
                                                        tg_transport **t_out);

/* A rank's network link. The two directions are independent; in each, a rank's messages go one
 * after the other. A message arrives delay_ns + U[0, jitter_ns) after its last byte has left.
 * Messages in flight overlap. Never grows. */
typedef struct tg_link {
    size_t struct_size;      /* exactly sizeof(tg_link) */
    double up_bps, down_bps; /* bits per second; 0: unlimited */
    int64_t delay_ns, jitter_ns;
} tg_link;

/* Parse a link: "20mbit,10ms", "100Mbps", "10 ms", "up=5mbit,down=50mbit,delay=30ms,jitter=5ms".
 * Rates   bits: bit, bit/s, bps, b/s; bytes: B/s, Bps, byte/s. Prefixes: k m g t (powers of 1000),
 *         ki mi gi ti (of 1024). b is a bit and B is a byte; otherwise case does not matter. From 1
 *         bit/s to 1e18
 * Times   us, ms, s, min; at most 3600 s
 * Blanks  are ignored, except within numbers and words
 * Errors  TG_E_SPEC */
TG_API TG_NODISCARD tg_status tg_link_parse(const char *text, tg_link *link_p);

/* Decorator: emulate a link over `inner`. All ranks of a job must be shaped (their links may
 * differ) and share one clock, as the processes of one machine do. Each message is accompanied by a
 * stamp of 24 bytes, which is not counted as traffic.
 * inner   owned by the new transport on success; used by no reducer or session yet
 * Errors  TG_E_ARG (a rate below 1 bit/s or above 1e18, a time above an hour, inner is shaped
 *         already), TG_E_NOMEM */
TG_API TG_NODISCARD tg_status tg_transport_shaped(tg_transport *inner, const tg_link *link,
                                                  tg_transport **t_p);

/* The same between nodes only. Ranks of one node reach each other over `inner` directly.
 * nodes   (ranks of inner) the node of each rank; must not be NULL
 * Errors  as above */
TG_API TG_NODISCARD tg_status tg_transport_shaped_nodes(tg_transport *inner, const tg_link *link,
                                                        const int *nodes, tg_transport **t_p);

/* The same with a link per rank. A message leaves at its sender's up_bps with its sender's jitter,
 * arrives at its receiver's down_bps, and takes the longer of both ends' delays.
 * links   (ranks of inner) must not be NULL
 * nodes   as above; NULL: every rank is on a node of its own
 * Errors  as above */
TG_API TG_NODISCARD tg_status tg_transport_shaped_links(tg_transport *inner, const tg_link *links,
                                                        const int *nodes, tg_transport **t_p);

/* Decorator for tests: inject faults into `inner`.
 * inner   owned by the new transport on success; used by no reducer or session yet
 * spec    "fault:" and any of these keys:
 *             drop=0.01      probability per message that it is lost
 *             corrupt=0.01   ... that one of its bits flips
 *             truncate=0.01  ... that it is cut short
 *             oversize=0.01  ... that it is too long
 *             garbage=0.01   ... that it is noise
 *             replay=0.01    ... that the message of an earlier exchange is sent in its place
 *             delay=5ms      each message is held for this long
 *             stall=100      after that many sends, when the next is posted, the rank falls silent
 *             kill=100       ... the rank is gone
 *             seed=1
 * Errors  TG_E_SPEC, TG_E_ARG, TG_E_NOMEM */
TG_API TG_NODISCARD tg_status tg_transport_faulty(tg_transport *inner, const char *spec,
                                                  tg_transport **t_p);

/* What drives the transport of a session. */
typedef enum tg_driver {
    TG_DRIVER_AUTO = 0,   /* a communication thread if the transport allows it, else inline */
    TG_DRIVER_THREAD = 1, /* a communication thread; TG_E_UNSUPPORTED if not allowed */
    TG_DRIVER_INLINE = 2  /* progress inside calls only: tg_session_progress in session.h */
} tg_driver;

/* A long wait for another rank's message (tg_session_config.on_wait). */
typedef struct tg_wait {
    size_t struct_size; /* of the library's structure */
    /* the rank waited for; of several, the one waited for longest ...; from `size` on, a server */
    int rank;
    int others;     /* ... and the number of others */
    bool indirect;  /* the missing message depends on what that rank itself receives (a later round
                     * of a ring, a node's lowest rank), so it may be waiting for another rank */
    int64_t for_ns; /* duration so far */
    uint64_t step;  /* between steps: the one before */
} tg_wait;

#ifdef __cplusplus
}
#endif
#endif
