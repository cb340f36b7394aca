/* telegrad/transport.h - moving bytes between ranks: the table a caller can fill, and the ready
 * ones.
 *
 * Point to point and non-blocking. A transport is driven by one thread at a time (a session's
 * communication thread, or the caller's thread with inline progress); only `wake` may be called
 * from others.
 *
 * Sharing  Any number of reducers and sessions may use one transport at a time, up to 1,023
 * reducers, fewer beside sessions. All ranks create the reducers and begin (or load) the sessions
 * in the same order: the handshake names what differs. From then on each is on its own: they are
 * started, waited for and destroyed in any order, which may differ between ranks, and the results
 * are those of one after the other. Whoever waits for one moves all. A wait ends when every rank
 * has started that operation, so start what others may wait for before you wait. A failure in one
 * shuts the transport: all others end with the same error.
 *
 * Threads  Reducers and sessions of one transport may be used by different threads at the same
 * time, each by one. Where any_thread is false, by the thread that made the first one only:
 * TG_E_STATE from others. While a session with a communication thread is there, that thread drives
 * the transport for all. */
#ifndef TELEGRAD_TRANSPORT_H
#define TELEGRAD_TRANSPORT_H

#include "telegrad/base.h"
#include "telegrad/clock.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One posted operation. The memory is the caller's and stays in place until `test` said done, or
 * until the transport is destroyed; the words are the transport's. */
typedef struct tg_request {
    uint64_t word[8];
} tg_request;

typedef struct tg_transport tg_transport;

typedef struct tg_transport_ops {
    size_t struct_size; /* sizeof(tg_transport_ops) */
    const char *name;

    /* Start sending len bytes to peer. buf stays untouched until done. Messages with the same
     * (peer, tag) arrive in the order posted. tag < TG_TAG_LIMIT.
     * Errors  TG_E_PEER (names the rank), TG_E_STATE after `shut` */
    tg_status (*post_send)(tg_transport *t, int peer, uint32_t tag, const void *buf, size_t len,
                           tg_request *req);
    /* Start receiving one message of at most cap bytes from peer with exactly this tag. */
    tg_status (*post_recv)(tg_transport *t, int peer, uint32_t tag, void *buf, size_t cap,
                           tg_request *req);
    /* Has it finished? *done_p is set on TG_OK; *len_p (bytes received or sent) when done.
     * Errors  TG_E_PEER: the peer is gone; TG_E_CORRUPT: a message longer than cap arrived.
     *         After an error the request is over. */
    tg_status (*test)(tg_transport *t, tg_request *req, bool *done_p, size_t *len_p);
    /* Make progress; return when something may have changed, when `wake` was called since the last
     * poll, or at deadline_ns of t->clock, whichever is first. It may return early. Sleeps rather
     * than spins. */
    tg_status (*poll)(tg_transport *t, int64_t deadline_ns);
    /* Make a poll that is under way (or the next one) return soon. Any thread. NULL: poll never
     * sleeps longer than a millisecond. */
    void (*wake)(tg_transport *t);
    /* This rank gives up: peers that wait for it get TG_E_PEER as soon as the medium can tell them,
     * every later call here fails with TG_E_STATE. Posted buffers are released when this returns,
     * or, where the medium cannot cancel (MPI), when the process ends: then returns false. May be
     * called twice. */
    bool (*shut)(tg_transport *t);
    /* Free everything, t included; shuts first if requests are pending. */
    void (*destroy)(tg_transport *t);
    /* Both or neither (NULL): so that all ranks can say who failed, not only those that waited for
     * it. blame: whom this rank gives up because of (it may be itself); once, before `shut`, which
     * tells it to the others. blamed: what peer said so, TG_BLAMED_NOBODY if it left without a
     * word, TG_NOT_LEFT as long as nothing is known of its leaving; also after `shut`. */
    void (*blame)(tg_transport *t, int rank);
    int (*blamed)(tg_transport *t, int peer);
} tg_transport_ops;

#define TG_BLAMED_NOBODY (-1)
#define TG_NOT_LEFT (-2)

struct tg_transport {
    size_t struct_size; /* sizeof(tg_transport) */
    const tg_transport_ops *ops;
    void *impl;            /* the implementation's own */
    int rank, size;        /* 0 <= rank < size */
    const tg_clock *clock; /* whose time `poll` deadlines are */
    bool any_thread;       /* may be driven by a thread other than the one that created it */
};

/* Tags are (exchange < 2^12, round < 2^6, slice < 2^6), 24 bits; bit 24 and up belong to
 * decorators. Exchanges under way at once have numbers of their own: each reducer or session has a
 * range of them. */
#define TG_TAG_LIMIT ((uint32_t)1 << 24)

TG_API void tg_transport_destroy(tg_transport *t); /* NULL is fine */

/* `size` ranks in one process, joined in memory; t_out (size) gets one endpoint a rank. Each
 * endpoint may be used and destroyed by a thread of its own. Errors TG_E_ARG (size < 1 or > 4096),
 * TG_E_NOMEM */
TG_API TG_NODISCARD tg_status tg_transport_inproc(int size, tg_transport **t_out);
/* The same by another clock: tg_clock_monotonic(), or the virtual one of the command, in which all
 * threads that use the endpoints take part. clock is borrowed. Errors also TG_E_ARG (a clock
 * without now_ns or sleep_until_ns) */
TG_API TG_NODISCARD tg_status tg_transport_inproc_clock(int size, const tg_clock *clock,
                                                        tg_transport **t_out);

/* What a link does. Bytes leave at up_bps and arrive at down_bps (bits per second, 0 = unlimited),
 * each direction on its own, one after the other per rank; a message arrives delay_ns + U[0,
 * jitter_ns) after its last byte left. Messages in flight overlap. */
typedef struct tg_link {
    size_t struct_size; /* sizeof(tg_link) */
    double up_bps, down_bps;
    int64_t delay_ns, jitter_ns;
} tg_link;

/* "20mbit,10ms", "100Mbps", "10 ms", "up=5mbit,down=50mbit,delay=30ms,jitter=5ms". Rates: bit,
 * bit/s, bps, b/s (bits), B/s, Bps, byte/s (bytes), with k m g t (powers of 1000) or ki mi gi ti
 * (of 1024); a small b is a bit and a capital B a byte, all else may be in either case. Times: us
 * ms s min. Blanks do not count, except within numbers and words. Errors TG_E_SPEC */
TG_API TG_NODISCARD tg_status tg_link_parse(const char *text, tg_link *link_p);

/* Decorator: `inner` seen through a link. Takes `inner` over on success. All ranks of a job must be
 * shaped (links may differ) and share one clock, as the processes of one machine do. The
 * shaping costs one stamp message of 24 bytes beside every message, not counted as
 * traffic.
 * Errors TG_E_ARG (a rate below 1 bit/s or above 1e18, a time above an hour, shaped already),
 * TG_E_NOMEM */
TG_API TG_NODISCARD tg_status tg_transport_shaped(tg_transport *inner, const tg_link *link,
                                                  tg_transport **t_p);

/* The same between nodes only: nodes (ranks of inner) says which one each rank is of, and ranks of
 * one node reach each other as over `inner`, beside the link. Errors as above, and nodes NULL */
TG_API TG_NODISCARD tg_status tg_transport_shaped_nodes(tg_transport *inner, const tg_link *link,
                                                        const int *nodes, tg_transport **t_p);

/* The same where links differ: links (ranks of inner) says what each rank is behind. A message
 * leaves at its sender's up_bps, with its sender's jitter, arrives at its receiver's down_bps, and
 * takes the longer of both ends' delays. nodes: as above, or NULL. Errors as above, and links NULL
 */
TG_API TG_NODISCARD tg_status tg_transport_shaped_links(tg_transport *inner, const tg_link *links,
                                                        const int *nodes, tg_transport **t_p);

/* Decorator for tests: `inner` with faults, "fault:drop=0.01,corrupt=0.01,truncate=0.01,
 * oversize=0.01,garbage=0.01,replay=0.01,delay=5ms,stall=100,kill=100,seed=1" (probabilities per
 * message sent: it is lost, has a bit flipped, is cut short, too long, noise, or the message of an
 * earlier exchange; stall / kill after that many sends: from then on this rank says nothing / is
 * gone; they strike when the next one is posted). Takes `inner` over on success. Errors TG_E_SPEC,
 * TG_E_ARG, TG_E_NOMEM */
TG_API TG_NODISCARD tg_status tg_transport_faulty(tg_transport *inner, const char *spec,
                                                  tg_transport **t_p);

/* Who drives the transport of a session. */
typedef enum tg_driver {
    TG_DRIVER_AUTO = 0,   /* a communication thread if the transport allows, else inline */
    TG_DRIVER_THREAD = 1, /* TG_E_UNSUPPORTED if the transport does not allow */
    TG_DRIVER_INLINE = 2  /* progress only inside calls: see tg_progress in session.h */
} tg_driver;

/* A wait for another rank's message that lasts. */
typedef struct tg_wait {
    size_t struct_size; /* sizeof(tg_wait) */
    int rank;           /* whom this rank waits for: of several the one it has for longest ... */
    int others;         /* ... and how many there are beside */
    bool indirect;  /* what is missing depends on messages that rank gets itself (a later round of
                     * a ring, a node's lowest): it may be waiting for another */
    int64_t for_ns; /* so long already */
    uint64_t step;
} tg_wait;

#ifdef __cplusplus
}
#endif
#endif
