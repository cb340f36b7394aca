/* The trainer: a client of the public headers, as any user's program would be. One call of
 * train_run trains one rank. */
#ifndef TG_TRAIN_H
#define TG_TRAIN_H

#include <signal.h>
#include "telegrad/telegrad.h"
#include "trainer/data/dataset.h"

/* ---- one run --------------------------------------------------------------------------------- */

/* How the learning rate grows with the minibatch of a step, which is k batches (ranks times parts).
 * A warm-up of the schedule then rises from the rate of one batch.
 * Source  Goyal et al. 2017, arXiv:1706.02677, sec. 2.1 and 2.2 */
typedef enum train_lr_scale {
    TRAIN_LR_SCALE_NONE = 0,  /* unchanged */
    TRAIN_LR_SCALE_SQRT = 1,  /* times sqrt(k) */
    TRAIN_LR_SCALE_LINEAR = 2 /* times k */
} train_lr_scale;
#define TRAIN_LR_SCALES 3
extern const char *const train_lr_scale_names[TRAIN_LR_SCALES];

/* The precision of products in convolutions, dense layers and the inputs of an LSTM: fp32, or
 * rounded to bf16 and summed in fp32. Activations between layers, parameters, gradients and
 * optimizer state are always fp32; so are the recurrent products of an LSTM's forward pass, and
 * attention. */
typedef enum train_precision { TRAIN_FP32 = 0, TRAIN_BF16 = 1 } train_precision;
#define TRAIN_PRECISIONS 2
extern const char *const train_precision_names[TRAIN_PRECISIONS];

/* How long the work of a step takes on a simulated clock (docs/virtual-clock.md). All zero:
 * unknown. */
typedef struct train_times {
    size_t layers;
    int64_t *layer_ns; /* (3, layers) forward, gradients of its tensors, gradients of its inputs */
    size_t buckets;
    tg_bucket_cost *bucket; /* (buckets) 0 buckets: coding and applying take no time */
    bool known;             /* the number of buckets is final */
} train_times;
void train_times_free(train_times *times); /* frees its arrays */

/* A slow rank: its computing takes `times` as long in the steps from..to (counted from 1). */
typedef struct train_slow {
    int rank;
    double times;
    uint64_t from, to;
} train_slow;

/* The steps of a run whose ranks take the next one when they are ready, so that fast ranks make
 * more of them than slow ones. All ranks are threads of one process.
 * staleness  most steps that a rank may be ahead of the slowest (server mode async:staleness=s);
 *            -1: no bound
 * Errors     TG_E_NOMEM */
typedef struct train_share train_share;
TG_NODISCARD tg_status train_share_create(int64_t staleness, train_share **s_p);
void train_share_destroy(train_share *s); /* NULL is fine */

typedef struct train_job {
    const char *model; /* "lenet5", "mlp:hidden=256" */
    const char *method, *strategy, *optimizer, *lr_schedule;
    const char *const *rules; /* (nrules) "PATTERN=METHOD" by tensor name (session.h) */
    size_t nrules;
    train_lr_scale lr_scale;
    size_t batch;        /* samples per rank and part of a step */
    uint32_t accumulate; /* parts of a step, whose mean gradient is exchanged; 0: 1 */
    train_precision precision;
    size_t context;    /* tokens in a sample; 0: as in the model's spec, else 35 */
    const char *shard; /* how data are distributed over ranks (shard.h); NULL: "iid" */
    uint64_t epochs;   /* ignored if steps > 0 */
    uint64_t steps;    /* total steps; 0: epochs decides */
    /* The run pauses after this step: it saves, and tests as it does at its end, with the schedules
     * of its whole length. A resumed run continues with the bits of one that did not pause. 0, or
     * beyond the last step: it does not pause. */
    uint64_t until;
    uint64_t seed;
    uint64_t log_every;
    const char *save_dir;     /* NULL: do not save */
    const char *save_weights; /* file of the weights at the end; NULL: none */
    uint64_t save_every;      /* steps; 0: only at the end, or when interrupted */
    const char *resume_dir;   /* any number of ranks may have saved it */
    bool count_anew;          /* see session.h */
    const char *init;         /* file of initial weights, which rank 0 reads; NULL: random ones */
    const char *data_spec;    /* the spec of the data. It goes into saved weights with `holdout`, so
                             * that they can be evaluated; NULL: the data's name */
    size_t holdout;
    int64_t timeout_ms;
    tg_driver driver;
    bool evaluate; /* after each epoch and at the end */
    tg_trace *trace;
    /* Once *stop is nonzero on any rank, all ranks stop after the same step, with `interrupted`.
     * With exchange=none that step is a multiple of 16, with `uneven` and save_dir one of
     * save_every. Set-up that is not complete a second later
     * fails with TG_E_STOPPED (tg_session_request_stop). NULL: never stop; set it on all ranks or
     * on none. */
    const volatile sig_atomic_t *stop;
    unsigned codec_threads;  /* cores for encoding and decoding; 0: one */
    uint64_t gradient_every; /* steps between calls of `gradient`; 0: the first of each epoch */
    tg_overlap overlap;      /* see session.h */
    size_t bucket_bytes;     /* see session.h */
    /* In place of bucket_bytes: merge tensors by measurements before the first step (run_fusion.h).
     * A checkpoint keeps the choice. */
    bool bucket_auto;
    bool bucket_lags; /* with bucket_auto: choose the density of each bucket, too (run_lags.h) */
    const int *nodes; /* (ranks) two levels (session.h) */
    /* The ranks that are threads of this process, and the bytes that were available before any of
     * them allocated (memory.h). All refuse if their networks together need more. 0: unknown; each
     * rank then considers its own network only. */
    size_t workers_here;
    double memory;
    /* If the transport has a simulated clock: how long work takes. All ranks, in one process, share
     * it. Rank 0 completes what is unknown before the first step. If tau_ns > 0: layers share
     * tau_ns in proportion to their operations, and the rest takes no time. Otherwise by
     * measurement. NULL: time is measured. */
    train_times *times;
    int64_t tau_ns;
    double tau_jitter;      /* each rank's computing of a step takes up to this fraction longer */
    const train_slow *slow; /* (nslow) */
    size_t nslow;
    /* Servers apply each gradient as it comes, on a simulated clock: ranks share their steps, which
     * are `steps` times the number of ranks, and do not meet at the end of an epoch. The same
     * object on all ranks, for one run. NULL: each rank makes `steps` steps. */
    train_share *share;
    /* The same in real time: each rank makes `steps` steps, and waits for others only where it
     * saves or tests. With save_dir it requires save_every. */
    bool uneven;
} train_job;

typedef struct train_start_info {
    const char *method, *strategy, *optimizer, *lr_schedule; /* normal forms */
    int world;
    size_t params, tensors;
    size_t context; /* of tokens; 0: images */
    const char *shard;
    uint64_t steps, first_step; /* first_step > 0 after a resume, or if it joins others */
    bool joined;                /* the run is a worker of servers, and began where others were */
    uint64_t until;             /* the last step of this run; steps, unless it pauses */
    uint64_t first_epoch;       /* 0, 1, ...: that of first_step */
    int resumed;                /* ranks that saved the checkpoint it resumes from; 0: none */
    /* What another number of ranks could not take over and starts afresh, in words; "": nothing;
     * NULL: the run does not resume. */
    const char *anew;
    uint64_t steps_per_epoch; /* 0: unknown (train_simulate) */
    const train_times *times; /* the job's, complete; NULL: time is measured */
    bool covered;             /* rules give all trained tensors other methods than `method` */
    /* Of this job and no other, the same on all its ranks; 0: only rank 0 is told of events. */
    uint64_t job;
} train_start_info;

typedef struct train_step_info {
    uint64_t step;  /* 1, 2, ...: steps done */
    uint64_t epoch; /* 0, 1, ... */
    double loss;    /* of this rank's batch */
    double lr;
    tg_step_info tg;
    /* Of this step; log records have medians of their own. compute_ms: forward and backward passes,
     * without time spent in the session (waiting for exchanges, or moving them). */
    double compute_ms, step_ms;
    double seconds; /* since the first step of this run */
} train_step_info;

/* Who waited for whom, in seconds. */
typedef struct train_waits {
    int world;              /* 0: a single rank, or unknown */
    const double *for_rank; /* (world) rank 0's waits for each rank: tg_session_waited */
    const double *by_rank;  /* (world) each rank's waits for exchanges: wait_ns of all its steps */
} train_waits;

typedef struct train_epoch_info {
    uint64_t epoch, step;
    /* Mean over the epoch's steps and all ranks, of the finite losses; NAN if there are none. */
    double train_loss;
    /* Of the global parameters, on the whole test set, in nats; NAN if not evaluated. If the loss
     * is not finite, it is INFINITY, and the accuracy NAN. */
    double test_accuracy, test_loss;
    double seconds; /* training time so far, evaluation excluded */
    uint64_t bytes_sent;
    train_waits waits; /* of this run's part of the epoch; valid during the call */
} train_epoch_info;

typedef struct train_end_info {
    int world;
    uint64_t steps, epochs;                   /* done since the start, over all resumed runs */
    double test_accuracy, test_loss;          /* as in train_epoch_info */
    double train_loss;                        /* of the last epoch, or part of one */
    double seconds;                           /* training time of this run, evaluation excluded */
    double step_ms_median, compute_ms_median; /* as in train_step_info */
    uint64_t bytes_sent;                      /* everything this rank handed to the transport */
    /* Of it, bytes to ranks of its node (train_job.nodes). The bytes and ratios below exclude
     * them. */
    uint64_t bytes_near;
    /* Mean over the second half of this run's steps (after warm-ups), from exchange to exchange: a
     * round's counts for all of its steps. Dense steps of CD-SGD count; evaluation and saves do
     * not. Of a run too short for that, all that was sent for training over all steps. */
    double bytes_per_step;
    /* 4n over the coded bytes (frames and envelopes) of the n elements delivered in a step: the
     * median of the second half, without dense steps of CD-SGD. NAN if nothing was sent. */
    double ratio;
    /* Bytes of the best dense exchange, times the steps of this run, over the bytes that this rank
     * sent for training. These include what is in flight at the end, but not handshake, evaluation
     * and saves (with a strategy that delays, a kilobyte per peer and save does count). NAN if
     * nothing was sent (one rank, or exchange=none). */
    double ratio_wire;
    /* Means over all steps of this run. step_ms_mean: `seconds`, which includes what was in flight
     * at the end, over the number of steps. The others: of the values in train_step_info. */
    double step_ms_mean, compute_ms_mean, encode_ms_mean, exchange_ms_mean, decode_ms_mean,
        apply_ms_mean, wait_ms_mean;
    double step_coded_ms_median; /* of steps whose awaited exchange was coded; NAN if none */
    double exchange_ms_median;
    /* Of the coded steps of the second half, like ratio: the fraction of elements kept, and medians
     * of the cost of an element to encode (feedback included), and to decode and combine. NAN if
     * none. */
    double kept, encode_ns_element, decode_ns_element;
    uint64_t skipped_nonfinite;
    /* Steps of this run whose gradient, or some bucket of it, came after a server's deadline. */
    uint64_t late;
    uint64_t clipped; /* steps of this run whose averaged gradient exceeded the optimizer's clip */
    uint64_t params_hash;
    bool interrupted;
    int stopped_by; /* if interrupted, the largest *job->stop of any rank; else 0 */
    /* The lowest rank that has this one, the rank itself if it does. With stopped_by 0: the rank
     * whose callback failed. */
    int stopped_at;
    bool unchanged; /* on rank 0: no parameter has changed by more than rounding, 6e-8 */
    /* Why the checkpoint or the weights of the end could not be written; "": they are, or were not
     * asked for. */
    char unsaved[512];
    /* Why a callback of this rank failed, for example to write to a file; "": none did. */
    char untold[512];
} train_end_info;

/* The gradient of a tensor in one step, from this rank's batch only. */
typedef struct train_gradient {
    const char *name;
    const size_t *shape; /* (ndim) */
    size_t ndim, n;
    const float *grad; /* (n) */
} train_gradient;

/* Callbacks. They run on rank 0 only, in its thread, except `wait`. Any may be NULL. */
typedef struct train_events {
    void *arg;
    /* They run on every rank, because each is a process with a disk and perhaps a user of its own;
     * rank 0's `start` ends before the others' begin. The same on all ranks. A failure of one is
     * that rank's. */
    bool every_rank;
    tg_status (*start)(void *arg, const train_start_info *info);
    /* After every step; the callee selects by log_every. */
    tg_status (*step)(void *arg, const train_step_info *info);
    tg_status (*epoch)(void *arg, const train_epoch_info *info);
    /* The gradient of a step (1, 2, ...) before it is exchanged; see gradient_every. */
    tg_status (*gradient)(void *arg, uint64_t step, const train_gradient *tensor, size_t count);
    /* At the end, with more than one rank: the waits of the whole run. */
    tg_status (*waited)(void *arg, const train_waits *waits);
    /* Rank `rank` waits for another: tg_session_config.on_wait. Runs on its driving thread. */
    void (*wait)(void *arg, int rank, const tg_wait *wait);
} train_events;

/* Train rank transport->rank. All ranks call it with equal jobs; if settings differ (steps,
 * evaluation, saving), they fail before the first step. A callback that fails with TG_E_IO, other
 * than `start`, stops the run on all ranks as job->stop does: it saves, and the result tells why.
 * That rank gets no more calls, except `waited`. (With exchange=none and without job->stop, the run
 * fails.) Any other failure of a callback ends the run on all ranks at once. So does a save that
 * fails, except at the end, where the result tells why.
 * end_p    [out] set on every rank, with the same accuracy and hash
 * Errors   those of the session,
 *          TG_E_SPEC (the job's strings),
 *          TG_E_MISMATCH (names the setting, ranks and values),
 *          TG_E_UNSUPPORTED (the CPU has no bf16),
 *          TG_E_NONFINITE (the loss is not finite any more, for good)
 * Threads  one rank per thread; oneDNN runs on the calling thread only */
TG_NODISCARD tg_status train_run(const train_job *job, const train_data *data,
                                 tg_transport *transport, const train_events *events,
                                 train_end_info *end_p);

/* The length of a job, and what follows from it. */
typedef struct train_plan_info {
    uint64_t steps, steps_per_epoch;
    const char *method, *strategy; /* normal forms, with the warm-ups of the run */
} train_plan_info;

/* Report what the job would exchange on `world` ranks, without ranks or training: call `about`
 * once, then `each` for every tensor (tg_session_plan).
 * served  there are parameter servers beside the ranks. One stands for all, in mode sync
 * data    spec of the data set. Images are not read if their number is known; a vocabulary is
 * Errors  TG_E_ARG (a batch is larger than a rank's data), those of the job's strings, of
 *         train_data_samples, of tg_session_plan and of tg_server_create, and what `about` and
 *         `each` return */
TG_NODISCARD tg_status train_plan(const train_job *job, const char *data, int world, bool served,
                                  tg_status (*about)(void *arg, const train_plan_info *info),
                                  tg_status (*each)(void *arg, const tg_plan_tensor *tensor),
                                  void *arg);

/* ---- how long a step takes ------------------------------------------------------------------- */

/* A benchmark of training steps: a model, and one batch that stays in memory. The input has the
 * model's usual size (28 x 28 grey images for LeNet-5, 32 x 32 colour images for ResNets,
 * WikiText-2's vocabulary for the LSTM, ...) and depends on the rank only. */
typedef struct train_bench train_bench;

typedef struct train_bench_info {
    const char *model;              /* normal form; lives as long as the train_bench */
    size_t batch;                   /* samples */
    size_t height, width, channels; /* of an image; 0: tokens */
    size_t context, classes;        /* tokens in a sample, 0: images; labels, vocabulary */
    size_t params;                  /* trained parameters */
    double flops; /* of a forward pass, per sample; a step takes three times as many */
} train_bench_info;

/* The usual batch sizes of a model, which its results are reported for.
 * batch    [out] (room) at most `room` are written
 * count_p  [out] how many there are
 * Errors   TG_E_SPEC */
TG_NODISCARD tg_status train_bench_batches(const char *spec, size_t room, size_t *batch,
                                           size_t *count_p);

/* Create a benchmark.
 * transport  NULL: forward, backward, SGD with momentum, and no session. Otherwise borrowed: steps
 *            are those of train_run with method dense, and all ranks call together
 * Errors     those of the model's spec and of the session, TG_E_ARG, TG_E_NOMEM,
 *            TG_E_UNSUPPORTED (the CPU has no bf16)
 * Threads    only the thread that created it may use it */
TG_NODISCARD tg_status train_bench_create(const char *spec, size_t batch, train_precision precision,
                                          tg_transport *transport, train_bench **b_p);
void train_bench_destroy(train_bench *b); /* NULL is fine */
train_bench_info train_bench_about(const train_bench *b);
/* Take one step; with a transport, all ranks take the same number.
 * loss_p  [out] of the batch, before the update
 * Errors  those of the layers and of the session */
TG_NODISCARD tg_status train_bench_step(train_bench *b, double *loss_p);

/* ---- steps without training ------------------------------------------------------------------ */

/* A model's step in the form that a simulation takes (simulate.h): the order in which layers
 * compute, how long, and which tensors they read and complete. */
typedef struct train_sim train_sim;

typedef struct train_sim_info {
    const tg_work *work; /* (nwork) of a step. All pointers live as long as the train_sim */
    size_t nwork;
    const train_times *times;    /* layers */
    int64_t tau_ns;              /* computing of a step */
    size_t params, tensors;      /* trained */
    const tg_sim_tensor *tensor; /* (tensors) */
    size_t context;              /* tokens in a sample; 0: images */
    size_t classes;
} train_sim_info;

/* Create the steps of a model.
 * job     its model, context, batch, accumulate, precision and seed are used. Times come from
 *         `times` if it has layers, else from tau_ns; otherwise they are measured now, on a batch
 *         of zeros
 * data    spec of the data set that the model reads; images are not read. NULL: the set that its
 *         papers train it on
 * Errors  TG_E_SPEC, TG_E_ARG, TG_E_NOMEM, TG_E_MISMATCH (times of another model),
 *         TG_E_UNSUPPORTED (the CPU has no bf16) */
TG_NODISCARD tg_status train_sim_create(const train_job *job, const char *data, train_sim **s_p);
void train_sim_destroy(train_sim *s); /* NULL is fine */
train_sim_info train_sim_about(const train_sim *s);
/* Create a simulation of the model's exchanges, with the job's method, rules, strategy, optimizer,
 * overlap, driver and buckets. Coding takes no time.
 * total_steps  0: unknown
 * Errors       those of tg_simulation_create */
TG_NODISCARD tg_status train_sim_exchanges(const train_sim *s, const train_job *job,
                                           uint64_t steps_per_epoch, uint64_t total_steps,
                                           tg_simulation **sim_p);

/* Parameter servers of a simulation (simulate.h). */
typedef struct train_sim_servers {
    int64_t count;
    const char *mode;     /* NULL: "sum", or with strategy server "sync" */
    tg_link link;         /* of each server */
    const tg_link *links; /* (world) of each rank; NULL: all ranks have the same */
} train_sim_servers;

/* Simulate a run of `world` ranks, all behind the same link. The events and the end are those of
 * train_run on rank 0 with a simulated clock, without losses, hashes and evaluations: nothing is
 * computed. Coding costs are those of job->times; with tau_ns they are 0; otherwise they are
 * measured.
 * samples  of an epoch; 0: unknown, then job->steps must be set
 * servers  NULL: none
 * Errors   those of the simulation; TG_E_SPEC (a duration in epochs of unknown length),
 *          TG_E_UNSUPPORTED (nodes) */
TG_NODISCARD tg_status train_simulate(const train_sim *s, const train_job *job, size_t samples,
                                      int world, const tg_link *link,
                                      const train_sim_servers *servers, const train_events *events,
                                      train_end_info *end_p);

/* ---- evaluation ------------------------------------------------------------------------------ */

typedef struct train_eval_job {
    const char *model;
    const tg_weights *weights; /* must have the model's tensors and no others */
    size_t batch;              /* samples at a time */
    size_t context;            /* of texts, as in train_job */
    train_precision precision;
    size_t samples; /* images: number to test, from the start of the test set; 0: all */
    /* Images: called for each batch in the order of the test set, with logits (rows, classes), of
     * `total` rows in all. The evaluation ends if it returns anything but TG_OK. NULL: not
     * wanted */
    tg_status (*outputs)(void *arg, const float *logits, size_t rows, size_t classes, size_t total);
    void *arg;
    const volatile sig_atomic_t *stop; /* once nonzero: TG_E_STATE after the batch; NULL: never */
} train_eval_job;

typedef struct train_eval_info {
    double accuracy, loss; /* means over the labels, as in train_epoch_info */
    size_t labels, params; /* labels: images or tokens tested */
    double seconds;
} train_eval_info;

/* Evaluate weights on the test set, in one thread, as train_run does with its own.
 * Errors  TG_E_SPEC (the model), TG_E_ARG (samples or outputs for a text),
 *         TG_E_MISMATCH (weights of another model), TG_E_NONFINITE (weights that are not finite),
 *         TG_E_UNSUPPORTED (the CPU has no bf16),
 *         and what outputs returns */
TG_NODISCARD tg_status train_evaluate(const train_eval_job *job, const train_data *data,
                                      train_eval_info *info_p);

/* ---- libraries ------------------------------------------------------------------------------- */

/* A library that the trainer uses, with the version loaded; "none" if built without it. */
typedef struct train_library {
    const char *name;
    char version[32];
} train_library;
#define TRAIN_LIBRARIES 3
train_library train_library_version(size_t i);

#endif
