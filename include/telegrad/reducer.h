/* telegrad/reducer.h - one call in the place of a dense all-reduce.
 *
 *     tg_transport *t;  tg_reducer *r;
 *     tg_transport_mpi(MPI_COMM_WORLD, &t);
 *     tg_reducer_create("topk:density=0.01", t, n, NULL, &r);
 *     ... every step:  tg_reducer_mean(r, gradient, mean);
 *     tg_reducer_destroy(r);  tg_transport_destroy(t);
 *
 * The reducer keeps the method's memory (residuals) between calls. All ranks create it with the
 * same arguments (checked by a handshake), and use it equally often.
 *
 * A vector in buckets has a reducer for each, on one transport. All ranks create them in the same
 * order; then they may be started and waited for in any order, another one on each rank:
 *
 *     for each bucket i, as its gradients are complete:
 *         tg_reducer_start(r[i], gradient[i], mean[i], NULL, NULL);
 *     for each bucket i, in any order:
 *         tg_reducer_wait(r[i]);
 *
 * Threads  one calling thread per reducer at a time; different reducers may be used by different
 * threads at once (telegrad/transport.h says what sharing a transport means) */
#ifndef TELEGRAD_REDUCER_H
#define TELEGRAD_REDUCER_H

#include "telegrad/codec.h"
#include "telegrad/transport.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tg_reducer tg_reducer;

typedef struct tg_reducer_config {
    size_t struct_size; /* sizeof(tg_reducer_config) */
    uint64_t seed;
    uint64_t steps_per_epoch;   /* for durations in epochs; 0: unknown */
    int64_t timeout_ms;         /* longest wait for one message; 0: 60,000 */
    const tg_segment *segments; /* (nsegments) tensors in the vector; NULL: one */
    size_t nsegments;
    unsigned codec_threads; /* cores for encoding and decoding, the caller's among them; 0: one. The
                               same bits for any number */
    const int *nodes;       /* two levels: see tg_session_config.nodes; NULL: one. Copied */
    /* Steps that the run is planned to have; 0: unknown. A warm-up that is not given is then no
     * more than a share of it (tg_key.share). Where neither this nor steps_per_epoch is known a
     * default in epochs counts TG_DEFAULT_EPOCH_STEPS for each: dgc's are 1,000 steps */
    uint64_t total_steps;
} tg_reducer_config;

/* method     spec string, e.g. "topk:density=0.01"; exchange=auto: the network is measured, and
 *            rank 0 chooses
 * transport  borrowed; may be shared with other reducers and sessions, not driven by the caller
 *            until all are destroyed
 * n          elements of every vector
 * config     NULL: seed 0, one segment, 60 s
 * Errors     TG_E_SPEC, TG_E_ARG (also codec_threads > 256), TG_E_NOMEM,
 *            TG_E_MISMATCH (ranks differ, or create in different orders: names what and whom),
 *            TG_E_PEER, TG_E_STATE (too many share the transport) */
TG_API TG_NODISCARD tg_status tg_reducer_create(const char *method, tg_transport *transport,
                                                size_t n, const tg_reducer_config *config,
                                                tg_reducer **r_p);
/* NULL is fine. With an operation under way it shuts the transport, for all that share it: wait
 * first. */
TG_API void tg_reducer_destroy(tg_reducer *r);

/* mean (n) = mean over ranks of what they sent of g (n). mean may be g. The same bits on all ranks.
 * Errors   TG_E_NONFINITE: on every rank, if any rank's g is not finite, or the sum over ranks, or
 *          that of g and what a rank remembers, leaves the range of f32: mean is untouched, the
 *          next call may follow. What finite ranks sent is remembered; of a rank whose memory could
 *          not be encoded, or holds more than 2^100 then, it starts anew at 0.
 *          TG_E_PEER, TG_E_CORRUPT: the reducer is dead */
TG_API TG_NODISCARD tg_status tg_reducer_mean(tg_reducer *r, const float *g, float *mean);

/* The same in parts: start (encodes, and begins to send), then test (progress, never blocks) or
 * wait. All calls move the operations of all reducers and sessions of the transport. g and mean
 * stay untouched by the caller until done. One operation of a reducer at a time: TG_E_STATE
 * otherwise. on_done (NULL: none) is called by the call on this reducer that finds it finished. */
TG_API TG_NODISCARD tg_status tg_reducer_start(tg_reducer *r, const float *g, float *mean,
                                               void (*on_done)(void *arg, tg_status status),
                                               void *arg);
TG_API TG_NODISCARD tg_status tg_reducer_test(tg_reducer *r, bool *done_p);
TG_API TG_NODISCARD tg_status tg_reducer_wait(tg_reducer *r);

/* Bytes handed to the transport so far. */
TG_API uint64_t tg_reducer_bytes_sent(const tg_reducer *r);
/* 4 n over the bytes of the last coded gradient, envelope and frame included. With nodes: at their
 * lowest ranks; 1 at others, whose gradients go uncoded. */
TG_API double tg_reducer_ratio(const tg_reducer *r);

#ifdef __cplusplus
}
#endif
#endif
