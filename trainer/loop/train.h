/* The trainer: a client of the public headers, as any user's program would be. One call trains one
 * rank. */
#ifndef TG_TRAIN_H
#define TG_TRAIN_H

#include <signal.h>
#include "telegrad/telegrad.h"
#include "trainer/data/dataset.h"

/* ---- one run --------------------------------------------------------------------------------- */

/* How the optimizer's rate grows with a step's minibatch, which is k batches large (ranks times
 * parts): as it is, times sqrt(k), times k (Goyal et al. 2017, arXiv:1706.02677, sec. 2.1). A
 * warm-up of the schedule then rises from the rate of one batch (sec. 2.2). */
typedef enum train_lr_scale {
    TRAIN_LR_SCALE_NONE = 0,
    TRAIN_LR_SCALE_SQRT = 1,
    TRAIN_LR_SCALE_LINEAR = 2
} train_lr_scale;
#define TRAIN_LR_SCALES 3
extern const char *const train_lr_scale_names[TRAIN_LR_SCALES];

/* What convolutions, dense layers and an LSTM's inputs multiply: fp32, or rounded to bf16 and
 * summed in fp32. All that lies between layers, parameters, gradients and the optimizer's state are
 * fp32 in any case; so are the LSTM's recurrent products forward, and attention. */
typedef enum train_precision { TRAIN_FP32 = 0, TRAIN_BF16 = 1 } train_precision;
#define TRAIN_PRECISIONS 2
extern const char *const train_precision_names[TRAIN_PRECISIONS];

/* What a step's work takes on a clock of simulated time (docs/virtual-clock.md). All zero: not
 * known. */
typedef struct train_times {
    size_t layers;
    int64_t *layer_ns; /* (3, layers) forward; gradients of its tensors; of its inputs */
    size_t buckets;
    tg_bucket_cost *bucket; /* (buckets) none: encoding, decoding and applying take no time */
    bool known;             /* `buckets` is final */
} train_times;
void train_times_free(train_times *times); /* its arrays */

/* A rank whose computing takes `times` as long in steps from..to (1, 2, ...). */
typedef struct train_slow {
    int rank;
    double times;
    uint64_t from, to;
} train_slow;

typedef struct train_job {
    const char *model; /* "lenet5", "mlp:hidden=256" */
    const char *method, *strategy, *optimizer, *lr_schedule;
    const char *const *rules; /* (nrules) "PATTERN=METHOD" by tensor name: see session.h */
    size_t nrules;
    train_lr_scale lr_scale;
    size_t batch;        /* samples per rank and part of a step */
    uint32_t accumulate; /* parts, whose mean gradient is exchanged; 0: one */
    train_precision precision;
    size_t context;    /* tokens in a sample; 0: what the model's spec says, else 35 */
    const char *shard; /* which rank has which data; NULL: "iid" */
    uint64_t epochs;   /* ignored if steps > 0 */
    uint64_t steps;    /* total steps; 0: epochs decides */
    uint64_t seed;
    uint64_t log_every;
    const char *save_dir;   /* NULL: never */
    uint64_t save_every;    /* steps; 0: only at the end (or interrupt) */
    const char *resume_dir; /* any number of ranks may have saved it */
    const char *init;       /* file of weights to start from, which rank 0 reads; NULL: drawn */
    const char *data_spec;  /* how the data was asked for, and `holdout`: said in saved weights, so
                               that they can be evaluated; NULL: the data's name */
    size_t holdout;
    int64_t timeout_ms;
    tg_driver driver;
    bool evaluate; /* at each epoch's end and at the end */
    tg_trace *trace;
    /* Becomes non-zero on any rank: all stop after the same step, and say `interrupted`. With a
     * method whose exchange is `none` that is a multiple of 16. NULL: never; on all ranks or none.
     */
    const volatile sig_atomic_t *stop;
    unsigned codec_threads;  /* cores for encoding and decoding; 0: one */
    uint64_t gradient_every; /* steps between two gradients told; 0: the first of each epoch */
    tg_overlap overlap;      /* of exchanges with backward and forward passes: session.h */
    size_t bucket_bytes;     /* likewise */
    bool bucket_auto; /* in the place of bucket_bytes: merge tensors as measured before the first
                         step (run_fusion.h); a checkpoint keeps what was chosen */
    const int *nodes; /* (ranks) two levels: session.h */
    /* The transport's clock is one of simulated time, and this is what work takes by it; one for
     * all ranks, which are of one process. As far as it is not known, rank 0 makes it so before the
     * first step: layers from tau_ns, if that is above 0, by their operations, and the rest as
     * nothing; else as measured. NULL: time is measured */
    train_times *times;
    int64_t tau_ns;
    double tau_jitter;      /* each rank's computing in a step takes up to this fraction longer */
    const train_slow *slow; /* (nslow) */
    size_t nslow;
} train_job;

typedef struct train_start_info {
    const char *method, *strategy, *optimizer, *lr_schedule; /* normal forms */
    int world;
    size_t params, tensors;
    size_t context; /* of tokens; 0: images */
    const char *shard;
    uint64_t steps, first_step; /* first_step > 0 after a resume */
    int resumed;                /* ranks that saved the checkpoint it goes on from; 0: from none */
    const char *anew; /* what of it could not be taken over by another number of ranks and began
                         anew, in words; "": nothing; NULL: no resume */
    uint64_t steps_per_epoch; /* 0: not known (train_simulate) */
    const train_times *times; /* the job's, known; NULL: time is measured */
} train_start_info;

typedef struct train_step_info {
    uint64_t step;  /* 1, 2, ...: steps done */
    uint64_t epoch; /* 0, 1, ... */
    double loss;    /* of this rank's batch */
    double lr;
    tg_step_info tg;
    /* Of this step; log records between carry medians of their own. compute: forward and backward
     * without what they spent in the session, waiting for exchanges or moving them. */
    double compute_ms, step_ms;
    double seconds; /* since the first step of this run */
} train_step_info;

/* Who waited for whom, in seconds. */
typedef struct train_waits {
    int world;              /* 0: one rank, or not known */
    const double *for_rank; /* (world) rank 0 for messages of each rank: tg_session_waited */
    const double *by_rank;  /* (world) each rank for exchanges, in all steps: train_step_info.tg */
} train_waits;

typedef struct train_epoch_info {
    uint64_t epoch, step;
    /* Mean over the epoch's steps and all ranks, without losses that are not finite; NAN if none
     * is. */
    double train_loss;
    double test_accuracy, test_loss; /* of the global parameters, over the whole test set; nats */
    double seconds;                  /* training time so far, evaluation excluded */
    uint64_t bytes_sent;
    train_waits waits; /* of what this run did of the epoch; lives as long as the call */
} train_epoch_info;

typedef struct train_end_info {
    int world;
    uint64_t steps, epochs;                   /* done, all runs together */
    double test_accuracy, test_loss;          /* NAN if not evaluated */
    double train_loss;                        /* of the last epoch, or part of one */
    double seconds;                           /* training, evaluation excluded, of this run */
    double step_ms_median, compute_ms_median; /* as in train_step_info */
    uint64_t bytes_sent;                      /* everything this rank handed to the transport */
    uint64_t bytes_near; /* of it, to ranks of its node (train_job.nodes): the figures of bytes and
                            traffic below are without */
    /* Mean over the steps of the second half of this run (after warm-ups), CD-SGD's dense ones
     * included, evaluation and saves not. */
    double bytes_per_step;
    /* 4n over the coded bytes of the n elements delivered in a step, envelope and frame included:
     * median of the second half; dense steps of CD-SGD not counted. */
    double ratio;
    /* Bytes of the best dense exchange, times the steps of this run, over those this rank sent for
     * training: all but handshake, evaluation and saves, what is in flight at the end included.
     * (Under a strategy that delays, a save's kilobyte a peer counts too.) NAN if nothing was sent
     * (one rank, or exchange=none). */
    double ratio_wire;
    /* Means over all steps of this run: seconds, which hold what was in flight at the end, over
     * their number; and what of it train_step_info says of each step. */
    double step_ms_mean, compute_ms_mean, encode_ms_mean, exchange_ms_mean, decode_ms_mean,
        apply_ms_mean, wait_ms_mean;
    double step_coded_ms_median; /* steps whose awaited exchange was coded; NAN if none */
    double exchange_ms_median;
    /* Of the coded steps of the second half, as ratio: fraction of the elements that was kept, and
     * medians of what an element cost to encode (feedback included) and to decode and combine. NAN
     * if none. */
    double kept, encode_ns_element, decode_ns_element;
    uint64_t skipped_nonfinite;
    uint64_t clipped; /* steps of this run whose averaged gradient was above the optimizer's clip */
    uint64_t params_hash;
    bool interrupted;
    int stopped_by; /* interrupted: the largest that *job->stop is on any rank; else 0 */
} train_end_info;

/* A tensor's gradient of one step, of this rank's batch alone. */
typedef struct train_gradient {
    const char *name;
    const size_t *shape; /* (ndim) */
    size_t ndim, n;
    const float *grad; /* (n) */
} train_gradient;

/* Called on rank 0 only, from its thread, but for `wait`. Any may be NULL. */
typedef struct train_events {
    void *arg;
    tg_status (*start)(void *arg, const train_start_info *info);
    tg_status (*step)(
        void *arg, const train_step_info *info); /* every step; the callee thins out by log_every */
    tg_status (*epoch)(void *arg, const train_epoch_info *info);
    /* The gradient of step 1, 2, ... before it is exchanged: see gradient_every */
    tg_status (*gradient)(void *arg, uint64_t step, const train_gradient *tensor, size_t count);
    /* When all is done, with more than one rank: of the whole run. */
    tg_status (*waited)(void *arg, const train_waits *waits);
    /* Any rank waits for another: tg_session_config.on_wait of `rank`, by its driving thread. */
    void (*wait)(void *arg, int rank, const tg_wait *wait);
} train_events;

/* Train rank transport->rank. All ranks call it with equal jobs. end_p is set on every rank
 * (accuracy, hash alike). Ranks that were told different things (steps, evaluation, saving) fail
 * before the first step. A callback that fails ends the run on all ranks. Threads: one rank per
 * thread; oneDNN runs on the calling thread alone. Errors: those of the session; TG_E_MISMATCH:
 * names the setting, ranks and values; TG_E_UNSUPPORTED:
 * the CPU has no bf16; TG_E_SPEC for the job's strings; TG_E_NONFINITE if the loss
 * is lost for good */
TG_NODISCARD tg_status train_run(const train_job *job, const train_data *data,
                                 tg_transport *transport, const train_events *events,
                                 train_end_info *end_p);

/* How long a job would be, and what follows from that. */
typedef struct train_plan_info {
    uint64_t steps, steps_per_epoch;
    const char *method, *strategy; /* normal forms, with the warm-ups that the run would have */
} train_plan_info;

/* What the job would exchange on `world` ranks: `about` once, then tg_session_plan of its tensors,
 * without ranks or training, for a data set of which images are not read where their number is
 * known (a vocabulary is). Errors: TG_E_ARG (batches larger than a rank's data), those of the job's
 * strings, of train_data_samples, of tg_session_plan, and what `about` and `each` return */
TG_NODISCARD tg_status train_plan(const train_job *job, const char *data, int world,
                                  tg_status (*about)(void *arg, const train_plan_info *info),
                                  tg_status (*each)(void *arg, const tg_plan_tensor *tensor),
                                  void *arg);

/* ---- how long a step takes ------------------------------------------------------------------- */

/* A model and one batch that stays in memory: nothing but its steps takes time. The input is of the
 * size that the model is known by (28 x 28 grey images for LeNet-5, 32 x 32 colours for ResNets,
 * WikiText-2's vocabulary for the LSTM, ...) and a function of the rank alone. */
typedef struct train_bench train_bench;

typedef struct train_bench_info {
    const char *model;              /* normal form; lives as long as the train_bench */
    size_t batch;                   /* samples */
    size_t height, width, channels; /* of an image; 0: tokens */
    size_t context, classes;        /* tokens in a sample, 0: images; labels, vocabulary */
    size_t params;                  /* trained */
    double flops;                   /* of a forward pass of a sample; a step is three of them */
} train_bench_info;

/* The batches that people train a model with, which its figures are given for: writes at most
 * `room` and returns how many there are. Errors TG_E_SPEC */
TG_NODISCARD tg_status train_bench_batches(const char *spec, size_t room, size_t *batch,
                                           size_t *count_p);

/* transport  NULL: forward, backward, SGD with momentum, and no session. Else a rank of it: what
 *            train_run's steps do with method dense; all ranks call together; borrowed
 * Errors     those of the model's spec and of the session, TG_E_ARG, TG_E_NOMEM,
 *            TG_E_UNSUPPORTED (the CPU has no bf16)
 * Threads    it belongs to the thread that made it */
TG_NODISCARD tg_status train_bench_create(const char *spec, size_t batch, train_precision precision,
                                          tg_transport *transport, train_bench **b_p);
void train_bench_destroy(train_bench *b); /* NULL is fine */
train_bench_info train_bench_about(const train_bench *b);
/* One step; with a transport all ranks take as many. *loss_p: of the batch before the update.
 * Errors those of the layers and of the session */
TG_NODISCARD tg_status train_bench_step(train_bench *b, double *loss_p);

/* ---- steps without training ------------------------------------------------------------------ */

/* A model's step as a simulation takes it (simulate.h): in which order layers compute, how long,
 * and which tensors they read and complete. */
typedef struct train_sim train_sim;

typedef struct train_sim_info {
    const tg_work *work; /* (nwork) of a step; the train_sim's, as all here */
    size_t nwork;
    const train_times *times;    /* layers */
    int64_t tau_ns;              /* computing of a step */
    size_t params, tensors;      /* trained */
    const tg_sim_tensor *tensor; /* (tensors) */
    size_t context;              /* tokens in a sample; 0: images */
} train_sim_info;

/* Of job its model, context, batch, accumulate, precision, seed, and where times come from: `times`
 * that has layers, else tau_ns, else they are measured here and now, on a batch of zeros.
 * data    what the model reads (the spec of a set, of which images are not read); NULL: what its
 *         papers train it on
 * Errors  TG_E_SPEC, TG_E_ARG, TG_E_NOMEM, TG_E_MISMATCH (times of another model),
 *         TG_E_UNSUPPORTED (the CPU has no bf16) */
TG_NODISCARD tg_status train_sim_create(const train_job *job, const char *data, train_sim **s_p);
void train_sim_destroy(train_sim *s); /* NULL is fine */
train_sim_info train_sim_about(const train_sim *s);
/* Its exchanges by the job's method, rules, strategy, optimizer, overlap, driver, buckets; coding
 * takes no time. total_steps 0: not known. Errors those of tg_simulation_create */
TG_NODISCARD tg_status train_sim_exchanges(const train_sim *s, const train_job *job,
                                           uint64_t steps_per_epoch, uint64_t total_steps,
                                           tg_simulation **sim_p);

/* What train_run would tell rank 0 of `world` ranks, all behind the link, by a clock of simulated
 * time, but for losses, hashes and evaluations: nothing is computed. Coding takes what job->times
 * says, nothing with tau_ns, else what is measured here.
 * samples  of an epoch; 0: not known, and job->steps is given
 * Errors   those of the simulation; TG_E_SPEC (durations in epochs that are not known),
 *          TG_E_UNSUPPORTED (nodes) */
TG_NODISCARD tg_status train_simulate(const train_sim *s, const train_job *job, size_t samples,
                                      int world, const tg_link *link, const train_events *events,
                                      train_end_info *end_p);

/* ---- evaluation ------------------------------------------------------------------------------ */

typedef struct train_eval_job {
    const char *model;
    const tg_weights *weights; /* must have the model's tensors and no others */
    size_t batch;              /* samples at a time */
    size_t context;            /* of texts, as in train_job */
    train_precision precision;
    size_t samples; /* images: the first so many of the test set; 0: all */
    /* Images: called for each batch in the order of the test set: logits (rows, classes), of
     * `total` rows in all. What it returns ends the evaluation unless TG_OK. NULL: not wanted */
    tg_status (*outputs)(void *arg, const float *logits, size_t rows, size_t classes, size_t total);
    void *arg;
    const volatile sig_atomic_t
        *stop; /* becomes non-zero: TG_E_STATE after the batch; NULL: never */
} train_eval_job;

typedef struct train_eval_info {
    double accuracy, loss; /* mean over the labels */
    size_t labels, params; /* labels: images, or tokens, that were tested */
    double seconds;
} train_eval_info;

/* Test weights as train_run tests its own, in one thread.
 * Errors TG_E_SPEC (model), TG_E_ARG (samples, outputs of a text), TG_E_MISMATCH (weights of
 * another model), TG_E_UNSUPPORTED (the CPU has no bf16), and what outputs returns */
TG_NODISCARD tg_status train_evaluate(const train_eval_job *job, const train_data *data,
                                      train_eval_info *info_p);

/* ---- libraries ------------------------------------------------------------------------------- */

/* A library that the trainer works with, in the version that was loaded; "none": built without. */
typedef struct train_library {
    const char *name;
    char version[32];
} train_library;
#define TRAIN_LIBRARIES 3
train_library train_library_version(size_t i);

#endif
