/* telegrad/session.h - training: tensors, steps, checkpoints.
 *
 *     tg_session_create(&config, transport, &s);
 *     tg_session_add(s, &tensor, &id);    every tensor, in forward order, the same on all ranks
 *     tg_session_begin(s);                handshake; rank 0's parameters go to all
 *                                         (or tg_session_load, in its place)
 *     for each step:
 *         tg_param_wait(s, id);           before a layer reads its parameters (see tg_overlap)
 *         tg_grad_wait(s, id);            before backward overwrites a gradient
 *         tg_grad_ready(s, id);           when a gradient is complete, last layers first
 *         tg_step(s, &info);
 *     tg_session_finish(s);               applies what is in flight
 *     tg_session_destroy(s);
 *
 * Threads  one calling thread per session; tg_session_request_stop from any thread or signal
 * handler. A failure of TG_E_PEER, TG_E_CORRUPT, TG_E_MISMATCH or TG_E_VERSION is final: every
 * later call returns it again. So is any failure of tg_session_begin and tg_session_load once ranks
 * have begun to talk: where there is no checkpoint to load, make another session and begin it. */
#ifndef TELEGRAD_SESSION_H
#define TELEGRAD_SESSION_H

#include "telegrad/codec.h"
#include "telegrad/optimizer.h"
#include "telegrad/registry.h"
#include "telegrad/transport.h"
#include "telegrad/weights.h"
#include "telegrad/trace.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tg_session tg_session;

typedef enum tg_nonfinite {
    TG_NONFINITE_SKIP = 0, /* nobody applies the step; what finite ranks sent
                            * coded goes back into their residuals, a dense step is lost. The same
                            * where gradients are finite, but their sum over ranks or over a node,
                            * or that of a gradient and what its rank remembers, leaves f32's range;
                            * though where each bucket can be applied by itself (ssgd without
                            * clipping by norm) this drops the bucket alone, unless it is the first
                            * layers'. A rank whose memory (residual, momentum of the method) could
                            * not be encoded, or holds more than 2^100 after a dropped step, starts
                            * that bucket's anew at 0, and tg_log is told (TG_LOG_WARN): the next
                            * step may follow */
    TG_NONFINITE_FAIL = 1  /* tg_step fails with TG_E_NONFINITE on every rank; with strategies that
                            * take own steps, when the round is exchanged. With TG_OVERLAP_FULL
                            * tg_step waits for all buckets then, as with TG_OVERLAP_BACKWARD */
} tg_nonfinite;

typedef enum tg_unready {
    TG_UNREADY_ERROR = 0, /* tg_step fails with TG_E_STATE naming the tensor */
    TG_UNREADY_ZERO = 1   /* a tensor never made ready in a step counts as zero */
} tg_unready;

/* What the exchange of gradients may run beside. The parameters after each step are the same bits
 * in all three, and ranks may differ in it. */
typedef enum tg_overlap {
    TG_OVERLAP_BACKWARD = 0, /* the backward pass: a bucket is exchanged as soon as its gradients
                              * are complete; tg_step waits for all of them */
    TG_OVERLAP_FULL = 1,     /* the next forward pass as well: tg_step waits for the first layers'
                              * bucket only, and the caller calls tg_param_wait before a tensor is
                              * read; whoever does not reads old parameters */
    TG_OVERLAP_NONE = 2      /* nothing: exchanges start when all gradients are complete */
} tg_overlap;

typedef struct tg_session_config {
    size_t struct_size;    /* sizeof(tg_session_config) */
    const char *method;    /* NULL: the strategy's, tg_registry_strategy_method: mostly "dense" */
    const char *strategy;  /* NULL: "ssgd" */
    const char *optimizer; /* NULL: "sgd:lr=0.01" */
    uint64_t seed;
    uint64_t steps_per_epoch; /* for durations in epochs; 0: unknown */
    int64_t timeout_ms;       /* longest wait for one message; 0: 60,000 */
    tg_driver driver;
    tg_nonfinite on_nonfinite;
    tg_unready on_unready;
    size_t bucket_bytes; /* tensors are exchanged together up to this size; 0: 25 MiB */
    uint64_t hash_every; /* compare hashes of the global parameters every so many steps; 0: never */
    const char *job; /* any text that must be equal on all ranks (model, data, batch); NULL: "" */
    tg_trace *trace; /* NULL: none; borrowed */
    /* (nrules) "PATTERN=METHOD": trained tensors whose name matches the pattern (fnmatch(3)) are
     * exchanged by that method ("f32" is dense), e.g. "*.bias=f32"; the first rule that matches
     * counts, tensors that none matches use `method`. A rule without a tensor is an error when the
     * session begins. exchange=none is for all tensors or for none. Copied. */
    const char *const *rules;
    size_t nrules;
    unsigned codec_threads; /* cores for encoding and decoding; 0: one. May differ between ranks:
                               the same bits for any number */
    /* (nmetadata) "NAME=TEXT" for the header of saved weights, of rank 0 (weights.h), e.g.
     * "model=lenet5". Copied. */
    const char *const *metadata;
    size_t nmetadata;
    tg_overlap overlap;
    /* (nbuckets) how many trained tensors go into each bucket, in the order added, whatever their
     * size; where rules give them several methods, into one bucket each. NULL: bucket_bytes
     * decides. Copied. */
    const uint32_t *buckets;
    size_t nbuckets;
    /* (ranks of the transport) which node each rank is of: any number >= 0, the same for those of
     * one machine (mpi.h finds out). Gradients are then summed in f32 within a node, by its lowest
     * rank, and the method works among these as if each were a rank, whose gradient is its node's
     * mean; what is not sent is remembered there. A rank that waits for its node's lowest waits
     * longer than timeout_ms, but ends if any is known to have failed (docs/cluster.md). NULL, or a
     * node for each rank: one level. Exchange=none, and votes on nodes of unequal size, are errors
     * when the session begins. Copied. */
    const int *nodes;
    /* Of this rank's data, where strategies weight ranks by them (fedavg); 0 on all ranks: they
     * count alike. */
    uint64_t samples;
    /* Steps that the run is planned to have; 0: unknown. Warm-ups of method and strategy that are
     * not given are then no more than a share of it (tg_key.share): tg_session_spec tells. A
     * checkpoint keeps what they were: a run that is resumed, with more steps too, goes on by it */
    uint64_t total_steps;
    /* Called when a call of this session has waited for another rank for a second, and about every
     * second from then on until it has what it waits for, or fails. By the thread that drives the
     * transport, so it returns soon and calls nothing of this session. Not by a clock of simulated
     * time. NULL: tg_log warns after 10 s, 20 s, 40 s, ... of the same wait. */
    void (*on_wait)(void *arg, const tg_wait *wait);
    void *on_wait_arg;
} tg_session_config;

/* transport is borrowed; it may be shared with other sessions and reducers (telegrad/transport.h),
 * and is not driven by the caller until all are destroyed. Nothing is sent yet.
 * Errors TG_E_SPEC (also: method and optimizer name two different momenta; a rule that is none),
 *        TG_E_ARG (also codec_threads > 256, nodes below 0), TG_E_UNSUPPORTED, TG_E_NOMEM */
TG_API TG_NODISCARD tg_status tg_session_create(const tg_session_config *config,
                                                tg_transport *transport, tg_session **s_p);
/* Ends the communication thread, unless another session on the transport has it too; shuts the
 * transport, for all that share it, if something is in flight. NULL is fine. */
TG_API void tg_session_destroy(tg_session *s);

typedef enum tg_tensor_kind {
    TG_TENSOR_TRAINED = 0,  /* has a gradient */
    TG_TENSOR_AVERAGED = 1, /* a statistic (batch norm): ranks keep their own, also in
                               checkpoints; evaluation uses the mean */
    TG_TENSOR_RANK0 = 2     /* a statistic of which rank 0's value counts */
} tg_tensor_kind;

typedef struct tg_tensor {
    size_t struct_size;  /* sizeof(tg_tensor) */
    const char *name;    /* unique, at most 200 bytes without = and newlines; copied */
    const size_t *shape; /* (ndim); the matrix view is shape[0] x rest; copied */
    size_t ndim;         /* 0 to 8 */
    tg_tensor_kind kind;
    tg_array param; /* (product of shape) */
    tg_array grad;  /* same length; TRAINED only. Gradients whose memory is adjacent in the order
                       added need no copy */
} tg_tensor;

/* Errors TG_E_ARG (name taken, shape, a gradient in its parameter's memory), TG_E_STATE (after
 * begin), TG_E_UNSUPPORTED (device memory, another type than f32) */
TG_API TG_NODISCARD tg_status tg_session_add(tg_session *s, const tg_tensor *t, uint32_t *id_p);

/* Handshake (versions, specs, job text, tensors, with the rank that differs named), then rank 0's
 * tensors go to all. Between the two, for methods that say exchange=auto, the network is measured
 * and the exchange of each bucket chosen, by rank 0 for all; tg_log is told of it (TG_LOG_INFO).
 * Errors TG_E_SPEC (a rule without a tensor, rules that exclude each other), TG_E_ARG
 * (config.buckets do not hold all tensors), TG_E_MISMATCH, TG_E_VERSION, TG_E_PEER, TG_E_NOMEM */
TG_API TG_NODISCARD tg_status tg_session_begin(tg_session *s);

/* The normal form of the session's method (of the tensors that no rule takes) or strategy, with
 * warm-ups as this run has them. Lives as long as the session. NULL for other kinds, and before
 * begin or load. */
TG_API const char *tg_session_spec(const tg_session *s, tg_kind kind);

/* The gradient of this tensor is complete. It is checked for NaN and infinity here, while it is in
 * the cache. Errors of this and the three calls below: TG_E_ARG (no such tensor), TG_E_STATE
 * (before begin, ready twice, during an evaluation), TG_E_PEER, TG_E_CORRUPT */
TG_API TG_NODISCARD tg_status tg_grad_ready(tg_session *s, uint32_t id);
/* Wait until the session has read this tensor's gradient of the last step. */
TG_API TG_NODISCARD tg_status tg_grad_wait(tg_session *s, uint32_t id);
/* Wait until this tensor's parameters are those of the next forward pass. With TG_OVERLAP_FULL and
 * a strategy that applies bucket by bucket (ssgd), what came for its bucket is applied here. Also
 * for tensors that are not trained: nothing to wait for. */
TG_API TG_NODISCARD tg_status tg_param_wait(tg_session *s, uint32_t id);
/* Whether this rank sits the coming step out (fedavg with clients < 1, or past its deadline): the
 * caller computes nothing and makes nothing ready, but calls tg_step. Between steps; false before
 * begin. */
TG_API bool tg_session_idle(const tg_session *s);
/* Inline driver: move what can be moved, without blocking, of all that share the transport. Call it
 * between layers. No-op with a thread. */
TG_API TG_NODISCARD tg_status tg_progress(tg_session *s);

/* What the exchanges of one method did: those delivered since the last tg_step, of all buckets that
 * go by it. kept / n is the density that was achieved, residual_norm / norm how many gradients'
 * worth was not sent yet, encode_ns / n what an element cost. */
typedef struct tg_method_info {
    const char *method;   /* normal form, with what was chosen in the place of exchange=auto; lives
                             as long as the session */
    uint64_t n;           /* elements exchanged in this run; 0: nothing of this method came */
    uint64_t kept;        /* those that this rank's frames say something about; n if dense */
    uint64_t bytes;       /* this rank's frames, with one envelope a bucket */
    uint64_t bytes_sent;  /* all its messages, in all rounds, to all peers */
    int64_t encode_ns;    /* compensate and encode */
    int64_t decode_ns;    /* check, decode and combine, this rank's own frames included */
    uint32_t fell_back;   /* buckets whose coded form was no smaller than the dense one */
    double norm;          /* of what was handed in: the gradient, or what the strategy sends */
    double residual_norm; /* of what was not sent yet; 0 unless want_residual_norm */
} tg_method_info;

/* What a step did. The fields marked (*) are about the exchanges delivered since the last tg_step,
 * in this one or between the two: a delayed strategy started them in an earlier step, and so did,
 * of all buckets but the first, TG_OVERLAP_FULL. All zero if none was. Times in nanoseconds. */
typedef struct tg_step_info {
    size_t struct_size;      /* set by the caller: sizeof(tg_step_info) */
    bool want_residual_norm; /* set by the caller: fill residual_norm (a pass over the residuals) */
    uint64_t step;           /* 0, 1, ... */
    bool skipped;      /* (*) dropped: some rank's gradient was not finite. With TG_OVERLAP_FULL too
                        * it is this step's that is dropped. Or this rank's own gradient was not,
                        * and its own step (local, diloco, ...) was not taken */
    bool stop;         /* (*) some rank asked to stop: all ranks see it after the same step */
    bool coded;        /* (*) by the method's codec; false: dense (CD-SGD: every k-th) */
    double density;    /* (*) fraction asked for; 1 if dense */
    uint64_t kept;     /* (*) elements that own frames say something about ... */
    uint64_t elements; /* (*) ... of so many */
    uint32_t fell_back;   /* (*) buckets whose coded form was no smaller than the dense one */
    uint64_t coded_bytes; /* (*) own gradient as coded, frames and one envelope a bucket included */
    int64_t encode_ns;    /* (*) compensate and encode */
    int64_t exchange_ns;  /* (*) some of them was under way, from launch to the aggregate */
    int64_t decode_ns;    /* (*) of it: check, decode and combine */
    uint64_t bytes_sent;  /* handed to the transport since the last step ... */
    uint64_t bytes_near;  /* ... of them to ranks of the own node (tg_session_config.nodes) */
    uint64_t bytes_dense; /* of the best dense exchange: 8 n (P-1)/P; with nodes, P of them */
    double grad_norm;     /* of this step's local gradient */
    double residual_norm; /* of what was not sent yet */
    int64_t apply_ns;     /* strategy and optimizer, since the last step */
    int64_t wait_ns;      /* the calling thread waited for exchanges since the last step */
    const tg_method_info *methods; /* (nmethods) (*) by method; valid until the next tg_step */
    size_t nmethods;
    double mean_norm; /* (*) of the averaged gradient, all tensors together, where the optimizer has
                       * a clip; else 0 */
    bool clipped;     /* (*) it was above the clip, and scaled down to it */
} tg_step_info;

/* Exchanges start in a fixed order of buckets, from the last to the first, whatever order gradients
 * become ready in: so ranks may differ in that. A bucket that is complete early waits for those
 * behind it.
 *
 * Close the step: all gradients are ready. On return parameters are those of the next forward pass;
 * with TG_OVERLAP_FULL, and a strategy and an optimizer that allow it (ssgd, no clip), each
 * tensor's are so after its tg_param_wait. Of the other calls those that read parameters
 * (tg_eval_begin, tg_session_save, tg_session_params_hash, tg_session_finish) wait for all of them.
 * info may be NULL. Errors TG_E_STATE (a tensor not ready), TG_E_NONFINITE (if so configured),
 * TG_E_PEER, TG_E_CORRUPT */
TG_API TG_NODISCARD tg_status tg_step(tg_session *s, tg_step_info *info);

/* From the next tg_step on; the first value is the optimizer spec's lr. The same on all ranks. Set
 * it before the step's first tg_grad_ready where a method has rescale=yes: gradients are encoded
 * with the rate as it is then. Errors TG_E_ARG */
TG_API TG_NODISCARD tg_status tg_session_set_lr(tg_session *s, double lr);

/* Between begin and end the parameters hold the global weights (and averaged statistics). All ranks
 * call both, between steps. Errors TG_E_STATE, TG_E_NOMEM, TG_E_PEER */
TG_API TG_NODISCARD tg_status tg_eval_begin(tg_session *s);
TG_API TG_NODISCARD tg_status tg_eval_end(tg_session *s);

/* x (n) = sum over ranks, in rank order, the same bits on all. Blocking, for metrics; n <= 4096.
 * Errors TG_E_ARG, TG_E_STATE (before begin), TG_E_PEER */
TG_API TG_NODISCARD tg_status tg_session_sum(tg_session *s, double *x, size_t n);

/* Ask all ranks to stop after the same step (tg_step_info.stop). Async-signal-safe, any thread. */
TG_API void tg_session_request_stop(tg_session *s);

/* 64-bit hash of the global parameters in the order added (names, shapes, values).
 * Errors TG_E_STATE (before begin) */
TG_API TG_NODISCARD tg_status tg_session_params_hash(tg_session *s, uint64_t *hash_p);
/* Steps taken so far (after a load: the checkpoint's). */
TG_API uint64_t tg_session_steps(const tg_session *s);
/* Bytes handed to the transport so far, handshake included. */
TG_API uint64_t tg_session_bytes_sent(const tg_session *s);
/* Of them to ranks of the own node: 0 without tg_session_config.nodes. */
TG_API uint64_t tg_session_bytes_near(const tg_session *s);
/* How long calls of this session have waited for messages of each rank, in all, the handshake
 * included: ns (ranks of the transport), 0 for the own. Time in which messages of several ranks
 * were missing counts for each of them, so the sum may be more than all waiting; time in which
 * exchanges were under way beside the caller's own work counts for none. In a ring a rank hears of
 * the one before it only, with nodes of its node's lowest only. Errors TG_E_ARG */
TG_API TG_NODISCARD tg_status tg_session_waited(const tg_session *s, int64_t *ns);
/* Steps whose exchange, or a bucket's of it, was dropped because a gradient, or a sum of it, was
 * not finite: see tg_nonfinite. */
TG_API uint64_t tg_session_skipped(const tg_session *s);

/* Save everything that resuming needs into dir/step-N (written aside, then renamed; the last two
 * are kept), with `extra` (len bytes of the caller's own, per rank; NULL if none). All ranks call
 * it after the same step. What is in flight is finished and stored unapplied: going on gives the
 * same bits as never having saved. The weights that an evaluation would use now are in
 * dir/step-N/model.safetensors: see weights.h.
 * Errors TG_E_IO, TG_E_PEER, TG_E_ARG (a tensor's name is not UTF-8): the session goes on */
TG_API TG_NODISCARD tg_status tg_session_save(tg_session *s, const char *dir, const void *extra,
                                              size_t len);
/* In the place of tg_session_begin: handshake, then the newest committed checkpoint in dir. What
 * exchange=auto was there it is here: nothing is measured.
 *
 * Any number of ranks may have saved it. If it was another, P for today's P', rank j of these takes
 * over the j-th of P' equal stretches of the old ranks laid side by side: of residuals, velocities,
 * local parameters, an optimizer's own memory and statistics it gets the mean over its stretch, so
 * that means over all ranks stay, and the sum of what is pending becomes P'/P times the old one.
 * Global parameters, and what all ranks have alike, are the same bits. config.steps_per_epoch may
 * be another then, and nodes too; exchange=auto is measured anew. Each rank must see the files of
 * all old ones in dir. docs/checkpoints.md says it by kind of state; tg_session_resumed what was
 * found.
 *
 * *extra_p: what this rank handed to tg_session_save; of another number of ranks, what rank
 * floor(j P / P') did. It is the session's until destroyed. Errors TG_E_IO, TG_E_CORRUPT,
 * TG_E_VERSION (saved by an older telegrad), TG_E_MISMATCH (another model, method, ..., or ranks
 * that found different checkpoints) */
TG_API TG_NODISCARD tg_status tg_session_load(tg_session *s, const char *dir, const void **extra_p,
                                              size_t *len_p);

/* What a session goes on from. */
typedef struct tg_resumed {
    size_t struct_size;       /* set by the caller: sizeof(tg_resumed) */
    int ranks;                /* that saved the checkpoint; 0: the session did not load any */
    uint64_t steps_per_epoch; /* there; config's may be another if ranks are */
    /* Where epochs had other steps once: this step, less what it would be if all had had today's.
     * So the position in epochs is (steps - epoch_shift) / config.steps_per_epoch, which is where
     * the old ranks were, rounded down to whole steps. Durations in epochs go by it. Else 0. */
    int64_t epoch_shift;
    const char *anew; /* what could not be taken over and began anew, in words; "": nothing. The
                         session's */
} tg_resumed;

/* Errors TG_E_ARG (NULL, struct_size) */
TG_API TG_NODISCARD tg_status tg_session_resumed(const tg_session *s, tg_resumed *resumed_p);

/* How a trained tensor is exchanged, and what that costs. Strings and shape are the session's. */
typedef struct tg_plan_tensor {
    size_t struct_size; /* sizeof(tg_plan_tensor) */
    const char *name;
    const size_t *shape; /* (ndim) */
    size_t ndim, n;
    const char *method; /* normal form */
    const char *rule;   /* the pattern that it matched; NULL: the session's method */
    uint32_t bucket;    /* tensors of one bucket are exchanged together */
    /* Of one rank's gradient in a step, frames and envelopes included, as tg_step_info.coded_bytes
     * counts them: measured on a random gradient (normal, of deviation 1) at the final density.
     * What a bucket's tensors share (a selection, an envelope) is divided between them. */
    double bytes;
} tg_plan_tensor;

/* Call each(arg, tensor) for every trained tensor in the order added. Nothing is sent. What each
 * returns ends the listing unless TG_OK. Errors TG_E_STATE (before begin), TG_E_NOMEM */
TG_API TG_NODISCARD tg_status tg_session_plan(
    tg_session *s, tg_status (*each)(void *arg, const tg_plan_tensor *tensor), void *arg);

/* What the session's own work on a bucket takes, in runs by a clock of simulated time
 * (tg_clock.work). [0] of exchanges that go dense, [1] of coded ones. */
typedef struct tg_bucket_cost {
    int64_t encode_ns[2];      /* compensate and encode */
    int64_t start_ns[2];       /* of each round: make room for the sum ... */
    int64_t finish_ns[2];      /* ... and make the aggregate of it when all is in */
    int64_t decode_byte_ps[2]; /* decode and combine: picoseconds a byte of frames */
    int64_t apply_ns;          /* the optimizer's update */
} tg_bucket_cost;

/* Measure it, on this rank alone: nothing is sent, and nothing that the session remembers changes.
 * Of buckets 0, 1, ... the first `room` are measured; *count_p is how many there are. cost may be
 * NULL if room is 0.
 * Errors TG_E_STATE (before begin), TG_E_NOMEM, those of the methods */
TG_API TG_NODISCARD tg_status tg_session_measure(tg_session *s, size_t room, tg_bucket_cost *cost,
                                                 size_t *count_p);
/* From here on work takes this: on the thread that does it, so that encoding and decoding by the
 * communication thread are beside what the caller computes. Without, it takes no time. On a clock
 * that measures nothing changes. cost (count). Errors TG_E_STATE, TG_E_MISMATCH (another number of
 * buckets) */
TG_API TG_NODISCARD tg_status tg_session_set_costs(tg_session *s, const tg_bucket_cost *cost,
                                                   size_t count);

/* Drain: apply what is in flight; the parameters are the global ones from here on. Steps may
 * follow. Errors TG_E_STATE (in the middle of a step), TG_E_PEER, TG_E_CORRUPT */
TG_API TG_NODISCARD tg_status tg_session_finish(tg_session *s);

#ifdef __cplusplus
}
#endif
#endif
