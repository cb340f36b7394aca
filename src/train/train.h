/* The trainer: a client of the public headers, as any user's program would be. One call trains one
 * rank. */
#ifndef TG_TRAIN_H
#define TG_TRAIN_H

#include <signal.h>
#include "telegrad/telegrad.h"

/* ---- data ------------------------------------------------------------------------------------ */

/* A classification data set in memory, immutable once open, shared by the ranks of a process. */
typedef struct train_data train_data;

/* spec     "mnist", "fashion-mnist" (IDX files, plain or .gz, by their canonical names) or "glyphs"
 * (generated: "glyphs:train=60000,test=10000,seed=1"); NAME:DIR says where the files are. Without
 * DIR: $TELEGRAD_DATA/NAME, then ./data/NAME. holdout  0: test on the test files. N: train without
 * the last N training samples and test on those (to choose rates without looking at the test set).
 * Errors   TG_E_SPEC, TG_E_IO (names the files and folders looked for), TG_E_CORRUPT (names file,
 * field, value) */
TG_NODISCARD tg_status train_data_open(const char *spec, size_t holdout, train_data **d_p);
void train_data_close(train_data *d);
const char *train_data_name(const train_data *d);   /* "mnist" */
const char *train_data_origin(const train_data *d); /* folder, or "generated" */
uint64_t train_data_hash(const train_data *d);      /* of all bytes used */
size_t train_data_train(const train_data *d);       /* samples */
size_t train_data_test(const train_data *d);
/* Whether NAME's files are found without DIR (for choosing a default); sets *dir (a static or env
 * string) if so. */
bool train_data_find(const char *name, const char **dir_p);

/* ---- one run -----------------------------------------------------------------------------------
 */

typedef struct train_job {
    const char *model; /* "lenet5", "mlp:hidden=256" */
    const char *method, *strategy, *optimizer, *lr_schedule;
    const char *const *rules; /* (nrules) "PATTERN=METHOD" by tensor name: see session.h */
    size_t nrules;
    size_t batch;    /* samples per rank and step */
    uint64_t epochs; /* ignored if steps > 0 */
    uint64_t steps;  /* total steps; 0: epochs decides */
    uint64_t seed;
    uint64_t log_every;
    const char *save_dir; /* NULL: never */
    uint64_t save_every;  /* steps; 0: only at the end (or interrupt) */
    const char *resume_dir;
    const char *init;      /* file of weights to start from, which rank 0 reads; NULL: drawn */
    const char *data_spec; /* how the data was asked for, and `holdout`: said in saved weights, so
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
} train_job;

typedef struct train_start_info {
    const char *method, *strategy, *optimizer, *lr_schedule; /* normal forms */
    int world;
    size_t params, tensors;
    uint64_t steps, steps_per_epoch, first_step; /* first_step > 0 after a resume */
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

typedef struct train_epoch_info {
    uint64_t epoch, step;
    /* Mean over the epoch's steps and all ranks, without losses that are not finite; NAN if none
     * is. */
    double train_loss;
    double test_accuracy, test_loss; /* of the global parameters, over the whole test set */
    double seconds;                  /* training time so far, evaluation excluded */
    uint64_t bytes_sent;
} train_epoch_info;

typedef struct train_end_info {
    int world;
    uint64_t steps, epochs;                   /* done, all runs together */
    double test_accuracy, test_loss;          /* NAN if not evaluated */
    double train_loss;                        /* of the last epoch, or part of one */
    double seconds;                           /* training, evaluation excluded, of this run */
    double step_ms_median, compute_ms_median; /* as in train_step_info */
    uint64_t bytes_sent;                      /* everything this rank handed to the transport */
    /* Mean over the steps of the second half of this run (after warm-ups), CD-SGD's dense ones
     * included, evaluation and saves not. */
    double bytes_per_step;
    /* 4n over the median coded gradient of the second half, envelope and frame included; dense
     * steps of CD-SGD not counted. */
    double ratio;
    /* Bytes of the best dense exchange, times the steps of this run, over those this rank sent for
     * training: all but handshake, evaluation and saves, what is in flight at the end included.
     * (Under a strategy that delays, a save's kilobyte a peer counts too.) NAN if nothing was sent
     * (one rank, or exchange=none). */
    double ratio_wire;
    double step_coded_ms_median; /* steps whose awaited exchange was coded; NAN if none */
    double exchange_ms_median;
    /* Of the coded steps of the second half, as ratio: fraction of the elements that was kept, and
     * medians of what an element cost to encode (feedback included) and to decode and combine. NAN
     * if none. */
    double kept, encode_ns_element, decode_ns_element;
    uint64_t skipped_nonfinite;
    uint64_t params_hash;
    bool interrupted;
} train_end_info;

/* A tensor's gradient of one step, of this rank's batch alone. */
typedef struct train_gradient {
    const char *name;
    const size_t *shape; /* (ndim) */
    size_t ndim, n;
    const float *grad; /* (n) */
} train_gradient;

/* Called on rank 0 only, from its thread. Any may be NULL. */
typedef struct train_events {
    void *arg;
    tg_status (*start)(void *arg, const train_start_info *info);
    tg_status (*step)(
        void *arg, const train_step_info *info); /* every step; the callee thins out by log_every */
    tg_status (*epoch)(void *arg, const train_epoch_info *info);
    /* The gradient of step 1, 2, ... before it is exchanged: see gradient_every */
    tg_status (*gradient)(void *arg, uint64_t step, const train_gradient *tensor, size_t count);
} train_events;

/* Train rank transport->rank. All ranks call it with equal jobs. end_p is set on every rank
 * (accuracy, hash alike). Ranks that were told different things (steps, evaluation, saving) fail
 * before the first step. A callback that fails ends the run on all ranks. Threads: one rank per
 * thread; oneDNN runs on the calling thread alone. Errors: those of the session; TG_E_MISMATCH:
 * names the setting, ranks and values; TG_E_SPEC for the job's strings; TG_E_NONFINITE if the loss
 * is lost for good */
TG_NODISCARD tg_status train_run(const train_job *job, const train_data *data,
                                 tg_transport *transport, const train_events *events,
                                 train_end_info *end_p);

/* What the job would exchange: tg_session_plan of its tensors, without data, ranks or training.
 * Errors: those of the job's strings, of tg_session_plan, and what each returns */
TG_NODISCARD tg_status train_plan(const train_job *job,
                                  tg_status (*each)(void *arg, const tg_plan_tensor *tensor),
                                  void *arg);

/* ---- evaluation ------------------------------------------------------------------------------ */

typedef struct train_eval_job {
    const char *model;
    const tg_weights *weights; /* must have the model's tensors and no others */
    size_t batch;              /* samples at a time */
    size_t samples;            /* the first so many of the test set; 0: all */
    /* Called for each batch in the order of the test set: logits (rows, classes), of `total` rows
     * in all. What it returns ends the evaluation unless TG_OK. NULL: not wanted */
    tg_status (*outputs)(void *arg, const float *logits, size_t rows, size_t classes, size_t total);
    void *arg;
} train_eval_job;

typedef struct train_eval_info {
    double accuracy, loss; /* mean over the labels */
    size_t samples, params;
    double seconds;
} train_eval_info;

/* Test weights as train_run tests its own, in one thread.
 * Errors TG_E_SPEC (model), TG_E_ARG (samples), TG_E_MISMATCH (weights of another model), and what
 * outputs returns */
TG_NODISCARD tg_status train_evaluate(const train_eval_job *job, const train_data *data,
                                      train_eval_info *info_p);

/* The models, for `telegrad models` and messages. */
const tg_entry *const *train_models(size_t *count_p);

#endif
