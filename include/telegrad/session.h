/* telegrad/session.h - training on several ranks: tensors, steps, checkpoints.
 *
 *     tg_session_create(&config, transport, &s);
 *     tg_session_add(s, &tensor, &id);    each tensor, in forward order, the same on all ranks
 *     tg_session_begin(s);                handshake; all ranks get rank 0's parameters
 *                                         (or tg_session_load, to resume from a checkpoint)
 *     for each step:
 *         tg_session_param_wait(s, id);   before a layer reads its parameters (see tg_overlap)
 *         tg_session_grad_wait(s, id);    before the backward pass overwrites a gradient
 *         tg_session_grad_ready(s, id);   when a gradient is complete, last layers first
 *         tg_session_step(s, &info);      closes the step and updates the parameters
 *     tg_session_finish(s);               applies what is still in flight
 *     tg_session_destroy(s);
 *
 * Buckets   Tensors are exchanged in buckets. A bucket's exchange starts when its gradients are
 *           complete. Exchanges start in a fixed order, from the last bucket to the first, so a
 *           bucket that is complete early waits for the higher-numbered ones. Gradients may become
 *           ready in any order, and in a different order on each rank.
 * Memory    The parameters and gradients are the caller's arrays. The session updates the
 *           parameters in place.
 * Bits      All ranks compute the same bits of the global parameters, except with exchange=none.
 * Failures  Once ranks have begun to communicate, a failure is final: later calls return the same
 *           error. TG_E_ARG and TG_E_STATE for a wrong call change nothing. A tg_session_save that
 *           fails without TG_E_PEER does not end the session. If tg_session_load finds no
 *           checkpoint, it fails with TG_E_IO, and this session cannot be used any more: destroy
 *           it, create a new one, and call tg_session_begin.
 * Threads   Call from one thread at a time. tg_session_request_stop may be called from any thread
 *           and from a signal handler. */
#ifndef TELEGRAD_SESSION_H
#define TELEGRAD_SESSION_H

#include "telegrad/codec.h"
#include "telegrad/optimizer.h"
#include "telegrad/registry.h"
#include "telegrad/transport.h"
#include "telegrad/weights.h"
#include "telegrad/trace.h"
#include <signal.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tg_session tg_session;

/* What happens to a step whose gradients are not finite (NaN or infinity), or whose arithmetic
 * leaves the range of f32: the sum of gradients over ranks, their sum within a node, or a rank's
 * gradient plus what it remembers. A huge gradient within the range (1e38) is exchanged as usual.
 * The optimizer's update is not checked: with an absurd learning rate, parameters may overflow. */
typedef enum tg_nonfinite {
    /* No rank applies the step; training continues with the next one. Coded payloads of finite
     * ranks return to their residuals; a dense step is lost.
     * One bucket    If the strategy and the optimizer apply each bucket by itself (ssgd or updates,
     *               no clip), a sum out of range drops that bucket only, unless it is the first
     *               layers'.
     * Memory        If a rank's memory (residual, the method's momentum) cannot be encoded, or
     *               exceeds 2^100 after a dropped step, that rank resets the bucket's memory to 0
     *               and logs TG_LOG_WARN. */
    TG_NONFINITE_SKIP = 0,
    /* tg_session_step fails with TG_E_NONFINITE on every rank. On the rank whose gradient it is,
     * the error names the tensor and the first element that is not finite. Strategies that take
     * local steps fail when the round is exchanged. With TG_OVERLAP_FULL, tg_session_step then
     * waits for all buckets, as with TG_OVERLAP_BACKWARD. */
    TG_NONFINITE_FAIL = 1
} tg_nonfinite;

/* What tg_session_step does if a tensor was not made ready. */
typedef enum tg_unready {
    TG_UNREADY_ERROR = 0, /* fail with TG_E_STATE, naming the tensor */
    TG_UNREADY_ZERO = 1   /* take the gradient as zero */
} tg_unready;

/* What the exchange of gradients overlaps with. The parameters after each step have the same bits
 * in all three modes, and ranks may choose different ones. */
typedef enum tg_overlap {
    /* The backward pass: a bucket's exchange starts when its gradients are complete.
     * tg_session_step waits for all buckets. */
    TG_OVERLAP_BACKWARD = 0,
    /* The next forward pass as well: tg_session_step waits for the first layers' bucket only. Call
     * tg_session_param_wait before reading a tensor's parameters; without it you read old ones. */
    TG_OVERLAP_FULL = 1,
    /* Nothing: exchanges start when all gradients are complete. */
    TG_OVERLAP_NONE = 2
} tg_overlap;

typedef struct tg_session_config {
    size_t struct_size; /* sizeof(tg_session_config) */
    /* NULL: tg_registry_strategy_method, for most strategies "dense". Not used by a strategy whose
     * exchanges are all dense (tg_rate_hint.dense): the commands warn of that, a session does
     * not. With strategy "server", methods and rules without a key exchange have exchange=star */
    const char *method;
    const char *strategy;  /* NULL: tg_registry_default_strategy of the method and the optimizer */
    const char *optimizer; /* NULL: "sgd:lr=0.01"; "external": the caller's (external.h) */
    uint64_t seed;         /* the same on all ranks */
    uint64_t steps_per_epoch; /* for durations in epochs; 0: unknown */
    /* Longest wait for a message, over TCP for a byte of it (for all of it ten times that); 0:
     * 60,000. The error may come 3/4 of it later (2 s at most): others first say whom they blame */
    int64_t timeout_ms;
    tg_driver driver;
    tg_nonfinite on_nonfinite;
    tg_unready on_unready;
    size_t bucket_bytes; /* largest bucket that tensors are grouped into; 0: 25 MiB */
    uint64_t hash_every; /* compare hashes of the global parameters every N steps; 0: never */
    const char *job;     /* free text that must match on all ranks (model, data, batch); NULL: "" */
    tg_trace *trace;     /* borrowed; NULL: none */
    /* (nrules) "PATTERN=METHOD": trained tensors whose name matches PATTERN (fnmatch(3), by bytes
     * in any locale) use METHOD ("f32" is dense), e.g. "*.bias=f32". The first match counts; other
     * tensors use `method`. A rule that matches no tensor is an error of tg_session_begin.
     * exchange=none must be used for all tensors or for none. Copied. */
    const char *const *rules;
    size_t nrules;
    unsigned codec_threads; /* cores for coding; 0: one. Same bits with any; ranks may differ */
    /* (nmetadata) "NAME=TEXT" for the header of saved weights (weights.h), e.g. "model=lenet5".
     * Rank 0's are written. Copied. */
    const char *const *metadata;
    size_t nmetadata;
    tg_overlap overlap;
    /* (nbuckets) number of trained tensors in each bucket, in the order added, whatever their
     * size. If rules give these tensors several methods, each method gets a bucket of its own.
     * NULL: bucket_bytes decides. Copied. */
    const uint32_t *buckets;
    size_t nbuckets;
    /* (ranks of the transport) the node of each rank: any number >= 0, equal for ranks on the same
     * machine (tg_transport_mpi_nodes finds them). NULL, or every rank on a node of its own: one
     * level. Copied.
     * Arithmetic  The lowest rank of a node sums the node's gradients in f32. The method runs among
     *             these lowest ranks, on the mean of each node, and keeps its residuals there.
     * Waiting     A rank that waits for its node's lowest rank may wait longer than timeout_ms; the
     *             wait ends when any rank is known to have failed (docs/cluster.md).
     * Errors      tg_session_begin refuses exchange=none, and voting methods if nodes differ in
     *             size. */
    const int *nodes;
    /* Training samples on this rank; strategies that weight ranks (fedavg) weight by it. 0 on all
     * ranks: equal weights. */
    uint64_t samples;
    /* Planned length of the run in steps; 0: unknown. If known, a warm-up of a method or strategy
     * that you leave to its default is limited to a share of the run (tg_key.share);
     * tg_session_spec shows the result. A checkpoint keeps these warm-ups, so a resumed run uses
     * them even if it is extended. */
    uint64_t total_steps;
    /* Called when a call of this session has waited for another rank for one second, then about
     * every second until the wait ends or fails. It runs on the thread that drives the transport:
     * return soon, and call no function of this session. It is not called on a simulated clock.
     * NULL: tg_log warns after 10 s, 20 s, 40 s, ... of the same wait. */
    void (*on_wait)(void *arg, const tg_wait *wait);
    void *on_wait_arg;
    /* Once *stop is nonzero, the session behaves as if tg_session_request_stop had been called; if
     * the optimizer is external, it also ends its waits (external.h). A signal handler may set it.
     * Borrowed; NULL: none. */
    const volatile sig_atomic_t *stop;
    /* With servers whose workers come and go (net.h). 0: the session begins at the step of the
     * slowest connected worker; if there is none, after the last step that was made. 1: if there is
     * none, at step 0; the servers' parameters and optimizer memory stay. */
    uint64_t count_anew;
} tg_session_config;

/* Create a session. Nothing is sent yet.
 * transport  borrowed, with its clock, until the session is destroyed ("Lifetime" in transport.h);
 *            other sessions and reducers may share it. Do not drive it yourself until all of them
 *            are destroyed
 * Errors     TG_E_SPEC (also: method and optimizer set different momenta; a malformed rule),
 *            TG_E_ARG (also: codec_threads > 256, a node < 0, a list that is NULL with a
 *            count, an empty bucket), TG_E_UNSUPPORTED, TG_E_NOMEM
 * If one rank alone fails here, in tg_session_add or in tg_session_begin, the others may wait for
 * it in tg_session_begin until it destroys its transport ("Sharing" in transport.h). After
 * TG_E_NOMEM from this call, tg_session_add, tg_session_begin, tg_session_load or a step, this rank
 * has left the transport, so that no other rank waits for it. The others get TG_E_PEER, which names
 * it. */
TG_API TG_NODISCARD tg_status tg_session_create(const tg_session_config *config,
                                                tg_transport *transport, tg_session **s_p);
/* Free the session; NULL is fine. Ends the communication thread unless another session on the
 * transport uses it. If an exchange is in flight here, which can depend on timing, shuts the
 * transport for everyone who shares it: call tg_session_finish first. Otherwise other ranks are not
 * told: those that still wait for this session learn of it when this rank destroys its
 * transport. */
TG_API void tg_session_destroy(tg_session *s);

/* ---- tensors --------------------------------------------------------------------------------- */

typedef enum tg_tensor_kind {
    TG_TENSOR_TRAINED = 0,  /* has a gradient */
    TG_TENSOR_AVERAGED = 1, /* a statistic (batch norm): each rank keeps its own, also in
                             * checkpoints; evaluation uses the mean */
    TG_TENSOR_RANK0 = 2     /* a statistic: rank 0's value counts */
} tg_tensor_kind;

typedef struct tg_tensor {
    size_t struct_size;  /* sizeof(tg_tensor) */
    const char *name;    /* unique; 1 to 200 bytes of UTF-8 without = and control characters, not
                          * "__metadata__"; copied */
    const size_t *shape; /* (ndim) matrix view: shape[0] rows, the rest columns; copied */
    size_t ndim;         /* 0 to 8 */
    tg_tensor_kind kind;
    tg_array param; /* (product of shape, 1 to TG_MAX_ELEMENTS) f32 in host memory, aligned to 4
                     * bytes; must not overlap the parameters of another tensor */
    tg_array grad;  /* TRAINED only: as param, in other memory. Gradients that are adjacent, in the
                     * order added, are not copied. Leave it zero if the optimizer is external */
} tg_tensor;

/* Add a tensor, before tg_session_begin.
 * id_p    [out] the number that the calls below take
 * Errors  TG_E_ARG (name taken or not allowed, shape, alignment, a gradient in its parameter's
 *         memory), TG_E_STATE (after begin), TG_E_UNSUPPORTED (device memory, a type other than
 *         f32), TG_E_NOMEM */
TG_API TG_NODISCARD tg_status tg_session_add(tg_session *s, const tg_tensor *t, uint32_t *id_p);

/* Connect the ranks. All ranks call it.
 * 1. Handshake: versions, specs, job text and tensors must agree; the error names the rank that
 *    differs.
 * 2. With exchange=auto: the ranks measure the network, rank 0 chooses the exchange of each bucket
 *    for all, and tg_log is told (TG_LOG_INFO).
 * 3. All ranks get rank 0's tensors. With strategy "server", they then get the servers'. If workers
 *    come and go, the session begins at the others' step (count_anew), as tg_session_steps says.
 * Errors  TG_E_SPEC (a rule that matches no tensor, rules that exclude each other),
 *         TG_E_ARG (config.buckets does not cover all tensors; parameters of two tensors, or one's
 *         gradient and another's parameters, share memory),
 *         TG_E_NONFINITE (a trained tensor of rank 0 holds NaN or infinity: on all ranks, naming
 *         the tensor; the transport stays usable),
 *         TG_E_STATE (begun before, or no tensor to train was added),
 *         TG_E_STOPPED (tg_session_request_stop), TG_E_MISMATCH, TG_E_VERSION, TG_E_PEER,
 *         TG_E_NOMEM */
TG_API TG_NODISCARD tg_status tg_session_begin(tg_session *s);

/* The normal form of the session's method (for tensors without a rule) or strategy, with the
 * warm-ups of this run. NULL before begin or load, and for other kinds. Lives as long as the
 * session. */
TG_API const char *tg_session_spec(const tg_session *s, tg_kind kind);

/* ---- steps ----------------------------------------------------------------------------------- */

/* Errors of tg_session_grad_ready, _grad_wait, _param_wait and _progress:
 *     TG_E_ARG (no such tensor), TG_E_STATE (before begin, ready twice, during an evaluation),
 *     TG_E_PEER, TG_E_CORRUPT */

/* The gradient of this tensor is complete. The session checks it for NaN and infinity now, while it
 * is in the cache. Do not change the gradient until tg_session_grad_wait returns. */
TG_API TG_NODISCARD tg_status tg_session_grad_ready(tg_session *s, uint32_t id);
/* Wait until the session has read this tensor's gradient of the last step; then you may overwrite
 * it. */
TG_API TG_NODISCARD tg_status tg_session_grad_wait(tg_session *s, uint32_t id);
/* Wait until this tensor's parameters are those of the next forward pass. With TG_OVERLAP_FULL and
 * a strategy that applies bucket by bucket (ssgd, updates), this call applies the update of the
 * tensor's bucket. Returns at once for tensors that are not trained. */
TG_API TG_NODISCARD tg_status tg_session_param_wait(tg_session *s, uint32_t id);
/* True if this rank sits out the next step (fedavg with clients < 1, or past its deadline). Then
 * compute nothing and make nothing ready, but call tg_session_step; a gradient that is made ready
 * all the same, finite or not, is not used. Call it between steps; false before begin. */
TG_API bool tg_session_idle(const tg_session *s);
/* With the inline driver: move, without blocking, every operation of all sessions and reducers that
 * share the transport. Call it between layers. Does nothing with a communication thread. */
TG_API TG_NODISCARD tg_status tg_session_progress(tg_session *s);

/* What the exchanges of one method did, over all buckets that use it, delivered since the last
 * tg_session_step. kept / n is the density achieved, residual_norm / norm the backlog in gradients,
 * encode_ns / n the cost of an element. */
typedef struct tg_method_info {
    size_t struct_size;   /* of the library's structure */
    const char *method;   /* normal form, with the exchange chosen in place of exchange=auto; lives
                           * as long as the session */
    uint64_t n;           /* elements exchanged; 0: no exchange of this method was delivered */
    uint64_t kept;        /* elements that this rank's frames carry; n if dense */
    uint64_t bytes;       /* this rank's frames, plus one envelope per bucket */
    uint64_t bytes_sent;  /* all messages of this rank, in all rounds, to all peers */
    int64_t encode_ns;    /* compensate and encode */
    int64_t decode_ns;    /* check, decode and combine, this rank's own frames included */
    uint32_t fell_back;   /* buckets whose coded form was no smaller than the dense one */
    double norm;          /* of the input: the gradient, or what the strategy sends */
    double residual_norm; /* of what was not sent yet; 0 unless want_residual_norm */
} tg_method_info;

/* What a step did. Fields marked (*) describe the exchanges delivered since the last
 * tg_session_step, in this call or before it. A delayed strategy started them in an earlier step;
 * so did TG_OVERLAP_FULL for all buckets but the first. They are zero if nothing was delivered.
 * Times are in nanoseconds, and amounts are this rank's. */
typedef struct tg_step_info {
    size_t struct_size;      /* set by the caller: sizeof(tg_step_info) */
    bool want_residual_norm; /* set by the caller: fill residual_norm (a pass over the residuals) */
    uint64_t step;           /* 0, 1, ... */
    bool skipped;      /* (*) the step was dropped because some rank's gradient was not finite (this
                        * step, with TG_OVERLAP_FULL too); or this rank's own gradient was not, and
                        * its local step (local, diloco, ...) was not taken */
    bool stop;         /* (*) some rank asked to stop; all ranks see this after the same step */
    bool coded;        /* (*) by the method's codec; false: dense (CD-SGD: every k-th) */
    bool clipped;      /* (*) mean_norm exceeded the clip, and the gradient was scaled down to it */
    double density;    /* (*) density asked for; 1 if dense */
    uint64_t kept;     /* (*) elements that this rank's frames carry ... */
    uint64_t elements; /* (*) ... of so many */
    uint32_t fell_back;   /* (*) buckets whose coded form was no smaller than the dense one */
    uint64_t coded_bytes; /* (*) this rank's coded gradient: frames, plus one envelope per bucket */
    int64_t encode_ns;    /* (*) compensate and encode */
    int64_t exchange_ns;  /* (*) time with some exchange under way, from launch to aggregate ... */
    int64_t decode_ns;    /* (*) ... of it: check, decode and combine */
    uint64_t bytes_sent;  /* handed to the transport since the last step ... */
    uint64_t bytes_near;  /* ... of them to ranks on this node (tg_session_config.nodes) */
    uint64_t bytes_dense; /* of the best dense exchange: 8 n (P-1)/P for P ranks, or P nodes */
    double grad_norm;     /* of this step's local gradient */
    double residual_norm; /* of what was not sent yet; 0 unless want_residual_norm */
    int64_t apply_ns;     /* strategy and optimizer, since the last step */
    int64_t wait_ns;      /* the calling thread waited for exchanges, since the last step */
    double mean_norm;     /* (*) norm of the averaged gradient over all tensors, if the optimizer
                           * has a clip; else 0. Of this rank's own if only that is clipped */
    /* (nmethods) (*) by method: methods[0]->n, ... Valid until the next tg_session_step */
    const tg_method_info *const *methods;
    size_t nmethods;
    /* (*) all messages of this rank for these exchanges, without those to ranks on this node. In
     * contrast to bytes_sent it does not depend on timing */
    uint64_t bytes_exchanged;
    uint64_t late; /* (*) buckets that reached a server after its deadline_ms. They return to the
                    * residual; methods without one lose them */
} tg_step_info;

/* Close the step: all gradients are ready.
 * On return the parameters are those of the next forward pass. With TG_OVERLAP_FULL, and a strategy
 * and an optimizer that allow it (ssgd and updates, no clip), those of a tensor are only after its
 * tg_session_param_wait. Other calls that read parameters (tg_session_eval_begin, tg_session_save,
 * tg_session_params_hash, tg_session_finish) wait for all of them.
 * info    filled on success; NULL: not wanted
 * Errors  TG_E_ARG (struct_size), TG_E_STATE (a tensor is not ready),
 *         TG_E_NONFINITE (with TG_NONFINITE_FAIL), TG_E_MISMATCH (with hash_every: the parameters
 *         of the ranks differ), TG_E_PEER, TG_E_CORRUPT */
TG_API TG_NODISCARD tg_status tg_session_step(tg_session *s, tg_step_info *info);

/* Set the learning rate from the next tg_session_step on; the first one is the optimizer spec's lr.
 * It must be the same on all ranks; otherwise their parameters drift apart, which hash_every
 * detects. If a method has rescale=yes, set it before the step's first tg_session_grad_ready,
 * because gradients are encoded with the current rate.
 * Errors  TG_E_ARG */
TG_API TG_NODISCARD tg_status tg_session_set_lr(tg_session *s, double lr);

/* Between begin and end the parameters hold the global weights, and statistics of the kind AVERAGED
 * their mean. All ranks call both, between steps.
 * Errors  TG_E_STATE, TG_E_NOMEM, TG_E_PEER */
TG_API TG_NODISCARD tg_status tg_session_eval_begin(tg_session *s);
TG_API TG_NODISCARD tg_status tg_session_eval_end(tg_session *s);

/* Sum metrics over ranks: x (n) = sum in rank order, the same bits on all ranks. Blocks until all
 * ranks have called it. n is at most 4096.
 * Errors  TG_E_ARG, TG_E_STATE (before begin), TG_E_PEER */
TG_API TG_NODISCARD tg_status tg_session_sum(tg_session *s, double *x, size_t n);

/* Ask all ranks to stop after the same step, which sets tg_step_info.stop.
 * Set-up   tg_session_begin and tg_session_load continue if they complete within a second.
 *          Otherwise they fail on this rank with TG_E_STOPPED. It leaves the transport, and the
 *          others get TG_E_PEER, which names it
 * Again    Called a second time, it also ends waits: a call that waits a second later fails alike
 * Threads  any; also signal handlers */
TG_API void tg_session_request_stop(tg_session *s);

/* ---- statistics -------------------------------------------------------------------- */

/* 64-bit hash of the global parameters in the order added: names, shapes, values. A worker of
 * servers alone (size 1) may also call it after TG_E_PEER or TG_E_STOPPED.
 * Errors  TG_E_STATE (before begin) */
TG_API TG_NODISCARD tg_status tg_session_params_hash(tg_session *s, uint64_t *hash_p);
/* Steps taken, with those before a resume, and those that servers made without this worker. */
TG_API uint64_t tg_session_steps(const tg_session *s);
/* Bytes handed to the transport, handshake included. */
TG_API uint64_t tg_session_bytes_sent(const tg_session *s);
/* Of them, bytes to ranks on the same node; 0 without tg_session_config.nodes. */
TG_API uint64_t tg_session_bytes_near(const tg_session *s);
/* Bytes to other nodes that are not part of a step's exchanges: those of the handshake,
 * tg_session_sum, evaluation and checkpoints. */
TG_API uint64_t tg_session_bytes_control(const tg_session *s);
/* Total time that calls of this session have waited for each rank, handshake included. Time in
 * which messages of several ranks were missing counts for each of them, so the sum may exceed the
 * total. Time in which exchanges ran beside the caller's own work does not count. In a ring a rank
 * waits only for its predecessor, with nodes only for its node's lowest rank.
 * ns      (ranks of the transport) nanoseconds; 0 for this rank
 * Errors  TG_E_ARG */
TG_API TG_NODISCARD tg_status tg_session_waited(const tg_session *s, int64_t *ns);
/* Steps that were dropped, whole or in some bucket, because a gradient or a sum of gradients was
 * not finite (tg_nonfinite). */
TG_API uint64_t tg_session_skipped(const tg_session *s);

/* ---- checkpoints ----------------------------------------------------------------------------- */

/* Save everything that a resumed run needs to dir/step-N. All ranks call it after the same step.
 * What is in flight is received and stored unapplied, so the run continues with the same bits as if
 * it had not saved. The folder is written under another name and then renamed; the last two are
 * kept. dir/step-N/model.safetensors holds the weights that an evaluation would use (weights.h).
 * dir     folder of checkpoints; created if it does not exist. It may be shared by all ranks, or
 *         local to some or all; a local folder also receives the weights, and the files of its own
 *         ranks only. A step is committed in all folders before older ones are removed from any
 * extra   (len) bytes of the caller's own, per rank; NULL with len 0: none
 * Errors  TG_E_IO, TG_E_ARG (dir is empty or too long), TG_E_STATE (dir holds a checkpoint of a
 *         later step), TG_E_UNSUPPORTED (server.h): the session continues. TG_E_PEER ends it */
TG_API TG_NODISCARD tg_status tg_session_save(tg_session *s, const char *dir, const void *extra,
                                              size_t len);
/* After tg_session_finish: add the weights of the finished run to the checkpoint that was saved
 * after the same step. tg_session_finish applies what was in flight, and an unfinished round of a
 * strategy; a checkpoint, from which a longer run continues, is from before that. If the two
 * differ, dir/step-N/final.safetensors is written, which tg_weights_open_newest then prefers.
 * All ranks call it.
 * Errors  TG_E_STATE (dir holds no checkpoint of this step), TG_E_IO: the session continues.
 *         TG_E_PEER ends it */
TG_API TG_NODISCARD tg_status tg_session_save_final(tg_session *s, const char *dir);
/* Write the global weights, as an evaluation would use them, to a safetensors file (weights.h): the
 * trained model, if called after tg_session_finish. The file has its name once it is complete. All
 * ranks call it. A worker of servers (size 1) may call it after TG_E_PEER or TG_E_STOPPED, too.
 * path    of rank 0, which writes it; of the others it is ignored, and may be NULL
 * Errors  on all ranks: TG_E_ARG (rank 0: path is NULL), TG_E_IO: it goes on. TG_E_PEER ends it */
TG_API TG_NODISCARD tg_status tg_session_save_weights(tg_session *s, const char *path);
/* Resume: call it in place of tg_session_begin. After the handshake, the newest committed
 * checkpoint in dir is loaded; tg_log warns of newer folders without a COMMIT, which are not read.
 * If ranks have folders of their own, the newest step that all of them have is loaded; each rank
 * needs the folder with its file. With exchange=auto, each bucket keeps the exchange that the saved
 * run chose; nothing is measured.
 *
 * Number of ranks  A checkpoint of P ranks may be loaded by P' ranks. Lay the old ranks side by
 *                  side and cut them into P' equal stretches; rank j takes stretch j. Its
 *                  residuals, velocities, local parameters, optimizer memory and statistics become
 *                  the mean over the stretch. So means over all ranks are preserved, and the sum of
 *                  what is pending becomes P'/P times the old one. Global parameters, and all that
 *                  ranks have in common, keep their bits. config.steps_per_epoch and nodes may
 *                  change, and exchange=auto is measured again. Each rank must see the files of all
 *                  old ranks in dir. docs/checkpoints.md lists every kind of state, and
 *                  tg_session_resumed reports what was found. The number of servers may change.
 *
 * extra_p          [out] what this rank gave to tg_session_save; from another number of ranks, what
 *                  rank floor(j P / P') gave. The session owns it until it is destroyed
 * len_p            [out] bytes of it
 * Errors           TG_E_IO, TG_E_CORRUPT, TG_E_VERSION (saved by an older telegrad),
 *                  TG_E_MISMATCH (another model, method, ..., or the ranks' checkpoints are of
 *                  different runs, or have no step in common), those of tg_session_begin */
TG_API TG_NODISCARD tg_status tg_session_load(tg_session *s, const char *dir, const void **extra_p,
                                              size_t *len_p);

/* The same in memory, for a program that saves it with state of its own: what this rank needs to
 * resume, all parameters included. All ranks call it after the same step.
 * bytes_p  [out] (len) valid until the next tg_session_save_memory, or the session's end
 * Errors   TG_E_STATE (in a step), TG_E_NOMEM, TG_E_UNSUPPORTED: it continues. TG_E_PEER */
TG_API TG_NODISCARD tg_status tg_session_save_memory(tg_session *s, const void **bytes_p,
                                                     size_t *len_p);
/* Resume from what the same rank saved: call it in place of tg_session_begin, on all ranks. It
 * continues with the same bits. The number of ranks must be the same (else tg_session_take_memory).
 * Errors  TG_E_CORRUPT, TG_E_VERSION, TG_E_MISMATCH (another rank, number of ranks, model, method,
 *         ..., or the ranks' states are of different steps or runs), those of tg_session_begin */
TG_API TG_NODISCARD tg_status tg_session_load_memory(tg_session *s, const void *bytes, size_t len);
/* The same with any number of ranks: from what all old ranks saved after the same step. Another
 * number of ranks takes over as in tg_session_load.
 * bytes   (ranks) what each saved; if `ranks` is the number of ranks, only this rank's is read
 * len     (ranks) the bytes of each
 * ranks   that saved them
 * Errors  TG_E_ARG (ranks), those of tg_session_load_memory */
TG_API TG_NODISCARD tg_status tg_session_take_memory(tg_session *s, const void *const *bytes,
                                                     const size_t *len, size_t ranks);

/* The checkpoint that a session resumed from. */
typedef struct tg_resumed {
    size_t struct_size;       /* set by the caller: sizeof(tg_resumed) */
    int ranks;                /* ranks that saved it; 0: this session loaded none */
    uint64_t steps_per_epoch; /* at that time; differs from config's only if ranks does */
    /* The position in epochs is (steps - epoch_shift) / config.steps_per_epoch, and durations in
     * epochs go by it. Nonzero if epochs once had another number of steps: the checkpoint's step,
     * less the step at which a run with today's epochs would have been at the same position,
     * rounded down to whole steps. */
    int64_t epoch_shift;
    const char *anew; /* what starts afresh, in words; "": nothing. Lives as long as the session */
} tg_resumed;

/* Errors  TG_E_ARG (NULL, struct_size) */
TG_API TG_NODISCARD tg_status tg_session_resumed(const tg_session *s, tg_resumed *resumed_p);

/* ---- plan ------------------------------------------------------------------------------------ */

/* How a trained tensor is exchanged, and how many bytes that takes. Strings and shape live as long
 * as the session. */
typedef struct tg_plan_tensor {
    size_t struct_size; /* of the library's structure */
    const char *name;
    const size_t *shape; /* (ndim) */
    size_t ndim, n;
    const char *method; /* normal form */
    const char *rule;   /* the pattern that it matched; NULL: the session's method */
    uint32_t bucket;    /* tensors with the same number are exchanged together */
    /* Bytes of one rank's gradient in a step, frames and envelopes included, as in
     * tg_step_info.coded_bytes. Measured on a random gradient (normal, standard deviation 1) at the
     * final density. What a bucket's tensors share (a selection, an envelope) is divided among
     * them. */
    double bytes;
} tg_plan_tensor;

/* Call each(arg, tensor) for every trained tensor in the order added. Nothing is sent. If `each`
 * returns anything but TG_OK, the listing ends and returns it.
 * Errors  TG_E_STATE (before begin), TG_E_NOMEM */
TG_API TG_NODISCARD tg_status tg_session_plan(
    tg_session *s, tg_status (*each)(void *arg, const tg_plan_tensor *tensor), void *arg);

/* ---- finishing ------------------------------------------------------------------------------- */

/* Drain: apply what is in flight. From here on the parameters are the global ones. More steps may
 * follow.
 * Errors  TG_E_STATE (in the middle of a step), TG_E_PEER, TG_E_CORRUPT */
TG_API TG_NODISCARD tg_status tg_session_finish(tg_session *s);

#ifdef __cplusplus
}
#endif
#endif
