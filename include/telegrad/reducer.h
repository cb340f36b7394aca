/* telegrad/reducer.h - compressed averaging: one call that replaces a dense all-reduce.
 *
 *     tg_transport *t;  tg_reducer *r;
 *     tg_transport_mpi(MPI_COMM_WORLD, &t);
 *     tg_reducer_create("topk:density=0.01", t, n, NULL, &r);
 *     for each step:
 *         tg_reducer_mean(r, gradient, mean);
 *     tg_reducer_destroy(r);  tg_transport_destroy(t);
 *
 * The reducer keeps the method's memory (residuals) between calls. All ranks create it with the
 * same arguments, which a handshake checks (timeout_ms, stop, codec_threads, memory and device may
 * differ), and call it equally often.
 *
 * To split a vector into buckets, create a reducer for each bucket on the same transport. All ranks
 * create them in the same order. Start them and wait for them in any order, which may differ from
 * rank to rank:
 *
 *     for each bucket i, as its gradients are complete:
 *         tg_reducer_start(r[i], gradient[i], mean[i], NULL, NULL);
 *     for each bucket i, in any order:
 *         tg_reducer_wait(r[i]);
 *
 * Threads  one calling thread per reducer at a time; different threads may use different reducers
 *          at the same time (see "Sharing" in transport.h) */
#ifndef TELEGRAD_REDUCER_H
#define TELEGRAD_REDUCER_H

#include "telegrad/codec.h"
#include "telegrad/transport.h"
#include <signal.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tg_reducer tg_reducer;

typedef struct tg_reducer_config {
    size_t struct_size;       /* sizeof(tg_reducer_config) */
    uint64_t seed;            /* of all random choices; the same on all ranks */
    uint64_t steps_per_epoch; /* for durations in epochs; 0: unknown */
    /* Longest wait for one message; 0: 60,000. The error may arrive up to three quarters of the
     * timeout later (at most 2 s), while the rank waits to learn whom the others blame. */
    int64_t timeout_ms;
    /* (nsegments) the tensors in the vector: ascending, without gaps, none empty, to element n,
     * with rows * cols == n of each; NULL: one ... */
    const tg_segment *segments;
    size_t nsegments;       /* ... and this 0 */
    unsigned codec_threads; /* cores for encoding and decoding, the caller's included; 0: one. Any
                             * number gives the same bits */
    const int *nodes;       /* two levels: see tg_session_config.nodes; NULL: one level. Copied */
    /* Planned length of the run in steps; 0: unknown. If known, a warm-up that you leave to its
     * default is limited to a share of the run (tg_key.share). If neither this nor steps_per_epoch
     * is known, defaults in epochs count TG_DEFAULT_EPOCH_STEPS steps per epoch, so the warm-up of
     * dgc is 1,000 steps. */
    uint64_t total_steps;
    /* Once *stop is nonzero, which a signal handler may set, a call that is still waiting for other
     * ranks a second later fails with TG_E_STOPPED. This rank then leaves the transport, and the
     * others get TG_E_PEER. Borrowed; NULL: none. */
    const volatile sig_atomic_t *stop;
    /* Where the vectors are. TG_CUDA: in the memory of this GPU; call tg_cuda_attach first
     * (telegrad/cuda.h) and pass them with tg_reducer_start_array. Ranks may differ in this */
    tg_memory memory;
    int device; /* TG_CUDA: ordinal */
} tg_reducer_config;

/* Create a reducer. All ranks call it; it performs the handshake.
 * method     spec string, e.g. "topk:density=0.01". With exchange=auto the ranks measure the
 *            network, and rank 0 chooses the exchange
 * transport  borrowed, with its clock, until the reducer is destroyed ("Lifetime" in transport.h);
 *            other reducers and sessions may share it. Do not drive it yourself until all of them
 *            are destroyed
 * n          elements of every vector, 1 to TG_MAX_ELEMENTS
 * config     NULL: seed 0, one segment, 60 s
 * Errors     TG_E_SPEC, TG_E_ARG (also: codec_threads > 256): nothing was sent (see "Sharing" in
 *            transport.h for what to do if only this rank got it),
 *            TG_E_NOMEM (this rank leaves the transport, so that no other rank waits for it; the
 *            others get TG_E_PEER, which names it),
 *            TG_E_MISMATCH (ranks differ, or create reducers in different orders; names what
 *            differs, and the rank),
 *            TG_E_PEER, TG_E_STATE (too many share the transport; or the GPU has failed, and this
 *            rank leaves the transport, too), TG_E_STOPPED,
 *            TG_E_UNSUPPORTED (TG_CUDA without tg_cuda_attach).
 *            If the transport has failed before, the same error as then */
TG_API TG_NODISCARD tg_status tg_reducer_create(const char *method, tg_transport *transport,
                                                size_t n, const tg_reducer_config *config,
                                                tg_reducer **r_p);
/* Free the reducer; NULL is fine. Wait for its operation first: if one is under way, this shuts the
 * transport for everyone who shares it. Otherwise other ranks are not told: those that still wait
 * for this reducer learn of it when this rank destroys its transport. */
TG_API void tg_reducer_destroy(tg_reducer *r);

/* Compute the mean over ranks of the coded g. Blocks until it is done. The reducer must be one for
 * vectors in host memory.
 * g        (n) f32, read only
 * mean     [out] (n) the mean, the same bits on all ranks; may be g, but must not overlap it in
 *          part
 * Errors   TG_E_ARG, TG_E_STATE (an operation is under way): nothing was sent
 *          TG_E_NONFINITE: on every rank, if any rank's g is not finite, or if the sum over ranks,
 *          or g plus a rank's memory, leaves the range of f32. On the rank whose g it is, the error
 *          names the first element that is not finite. mean is unchanged, and the next call may
 *          follow. What finite ranks sent returns to their memory. A memory that cannot be encoded,
 *          or then exceeds 2^100, is reset to 0
 *          TG_E_PEER, TG_E_CORRUPT, TG_E_STOPPED: final; destroy the reducer */
TG_API TG_NODISCARD tg_status tg_reducer_mean(tg_reducer *r, const float *g, float *mean);

/* The same without blocking. start encodes and begins to send; then call test, which makes progress
 * and never blocks, or wait. Each of these calls makes progress on all reducers and sessions of the
 * transport. A reducer has one operation at a time.
 * g, mean  as above; the caller must not touch them until the operation is done
 * on_done  called by the call on this reducer that finds the operation done; NULL: none. It must
 *          not destroy the reducer
 * Errors   as for tg_reducer_mean; TG_E_STATE (an operation is under way) */
TG_API TG_NODISCARD tg_status tg_reducer_start(tg_reducer *r, const float *g, float *mean,
                                               void (*on_done)(void *arg, tg_status status),
                                               void *arg);
/* The same for vectors of another type. A 16-bit gradient is widened to f32, exactly, and the mean
 * is rounded to nearest even; beyond the range of f16 it becomes the largest finite value. The
 * memory stays in f32. From the first such call on, the reducer holds another 4 n bytes.
 * dtype    of g and mean. Ranks may differ, and so may calls
 * Errors   as for tg_reducer_start */
TG_API TG_NODISCARD tg_status tg_reducer_start_as(tg_reducer *r, tg_dtype dtype, const void *g,
                                                  void *mean,
                                                  void (*on_done)(void *arg, tg_status status),
                                                  void *arg);
/* The same for vectors in the memory that the reducer was created for.
 *
 * On a GPU: the method's memory is there, too. Methods with exchange=allgather and a codec that the
 * GPU has (topk, dgc, 2bit, efsign, qsgd, int8, fp16, ...) code and decode there, so only
 * frames go to the host; vectors of others are copied to the host and coded there. Both give the
 * same bits. g is read by work that begins after what g->stream has been given before this call.
 * When the operation is done, mean is valid for work that mean->stream is given from then on. Until
 * then g, mean and the streams must stay.
 * g, mean  both of n elements, of the same type, and as the config says; mean may be g
 * Errors   as for tg_reducer_start; TG_E_STATE also if the GPU fails, which is final */
TG_API TG_NODISCARD tg_status tg_reducer_start_array(tg_reducer *r, const tg_array *g,
                                                     const tg_array *mean,
                                                     void (*on_done)(void *arg, tg_status status),
                                                     void *arg);
/* Make progress, and find out whether the operation is done. Does not block. If no operation is
 * under way, it is done.
 * done_p  [out] true: mean holds the result
 * Errors  those of tg_reducer_mean with which the operation ended */
TG_API TG_NODISCARD tg_status tg_reducer_test(tg_reducer *r, bool *done_p);
/* Wait until the operation is done. Returns at once if none is under way.
 * Errors  as for tg_reducer_test */
TG_API TG_NODISCARD tg_status tg_reducer_wait(tg_reducer *r);

/* ---- memory ---------------------------------------------------------------------------------- */

/* Take back the last operation, if its mean was not applied (an optimizer skips the step because
 * another bucket's gradient is not finite): what this rank sent returns to its memory. Either all
 * ranks call it or none does. Call it once, after a wait that succeeded, and before the next start,
 * tg_reducer_slot_get or tg_reducer_scale.
 * Errors  TG_E_STATE (nothing to take back, or an operation is under way) */
TG_API TG_NODISCARD tg_status tg_reducer_undo(tg_reducer *r);
/* Multiply what was not yet sent, also by servers (exchange=twoway), by a factor, because the
 * gradients' scale changes by it (a loss scale). All ranks call it with the same factor.
 * factor  finite and above 0
 * Errors  TG_E_ARG, TG_E_STATE (an operation is under way) */
TG_API TG_NODISCARD tg_status tg_reducer_scale(tg_reducer *r, double factor);

/* A part of the memory, without that of servers. To save a reducer, copy all of its slots and the
 * step. To restore it, create one with the same arguments, and write them back. Between reducers
 * that divide the vector differently, slots move with their segments. */
typedef struct tg_reducer_slot {
    size_t struct_size; /* sizeof(tg_reducer_slot) */
    size_t segment;     /* the segment that it belongs to; without segments: 0 */
    size_t at;          /* role "owner": the element of the segment at which it begins; else 0 */
    void *data;         /* (bytes) to read and write until the next start */
    size_t bytes;
    char name[32]; /* "residual", "velocity", ...: unique for a segment and a role */
    char role[16]; /* "rank": each rank has its own, "owner": of the part that this rank owns,
                    * "leader": of a node's lowest rank, "replicated": the same on all ranks */
    char rule[16]; /* how to restore it on another number of ranks. "sum": f32, keep the sum over
                    * ranks; "copy": anything else */
} tg_reducer_slot;

TG_API size_t tg_reducer_slot_count(const tg_reducer *r);
/* Describe a slot.
 * i       below tg_reducer_slot_count
 * slot    [out] struct_size must be set
 * Errors  TG_E_ARG, TG_E_STATE (an operation is under way) */
TG_API TG_NODISCARD tg_status tg_reducer_slot_get(tg_reducer *r, size_t i, tg_reducer_slot *slot);
/* Get or set the number of operations started so far, on which warm-ups and random numbers depend.
 * All ranks set the same number. With exchange=twoway, servers then begin anew: what they did not
 * send is lost.
 * Errors  TG_E_STATE (an operation is under way) */
TG_API uint64_t tg_reducer_step(const tg_reducer *r);
TG_API TG_NODISCARD tg_status tg_reducer_set_step(tg_reducer *r, uint64_t step);

/* ---- figures --------------------------------------------------------------------------------- */

/* Bytes handed to the transport so far. */
TG_API uint64_t tg_reducer_bytes_sent(const tg_reducer *r);
/* Compression ratio: 4 n over the bytes of the last coded gradient, frame and envelope included.
 * With nodes, ranks other than a node's lowest send uncoded gradients and return 1. */
TG_API double tg_reducer_ratio(const tg_reducer *r);

#ifdef __cplusplus
}
#endif
#endif
