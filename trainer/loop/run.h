/* One rank's run, from set-up to end: shared by the files of the trainer. */
#ifndef TG_TRAIN_RUN_H
#define TG_TRAIN_RUN_H

#include "trainer/data/loader.h"
#include "trainer/model/model.h"
#include "trainer/loop/run_stats.h"
#include "trainer/loop/train.h"
#include "telegrad/clock.h"
#include "telegrad/spec.h"
#include <string.h>

typedef struct run {
    const train_job *job;
    const train_data *data;
    tg_transport *transport;
    const train_events *events;     /* NULL on ranks that tell nobody */
    const train_events *all_events; /* set on all ranks */
    tg_spec *method, *strategy;
    tg_optimizer *optimizer;
    tg_lr_schedule *lr;
    model *model;
    loader *train_loader, *test_loader; /* test_loader: NULL without evaluation */
    tg_session *session;
    uint32_t *id;      /* numbers of the model's tensors in the session */
    uint32_t parts;    /* parts of a step: job->accumulate */
    uint32_t *buckets; /* (nbuckets) tensors in each bucket; NULL: see job->bucket_bytes */
    size_t nbuckets;
    double *density; /* (nbuckets) with job->bucket_lags; NULL: those of the methods */
    char **rules;    /* (nrules) with job->bucket_lags, in place of the job's; NULL: the job's */
    size_t nrules;
    size_t context; /* tokens in a sample; 0: images */
    tg_spec *shard;
    float *state_aside; /* (model->nstate) state saved during evaluation */
    uint64_t steps, steps_per_epoch, first_step, step; /* step: number of steps done */
    uint64_t until;      /* the step after which it ends, or pauses (train_job.until) */
    int resumed;         /* ranks that saved the checkpoint it resumes; 0: it resumes none */
    int64_t epoch_shift; /* correction after a change of ranks, see tg_resumed */
    char anew[320];      /* what was started afresh, in words */
    /* The current epoch, kept in checkpoints: */
    double loss_sum; /* over the loss_count steps with a finite loss */
    uint64_t loss_count;
    uint64_t loss_steps; /* number of steps so far */
    /* Shared steps (run_share.h): the job's step; the epochs that have been told. */
    uint64_t turn, share_epochs;

    run_stats stats;
    int64_t start_ns, evaluation_ns; /* for this run */
    int64_t wait_ns;                 /* sum of tg_step_info.wait_ns over all steps */
    struct run_waits {
        int64_t *ns;      /* (3, ranks) tg_session_waited before the first step, at the last epoch's
                             report, and now */
        int64_t told_ns;  /* wait_ns at the last epoch's report */
        double *for_rank; /* (ranks) seconds */
        double *sums;     /* (RUN_SUMS + ranks) for run_sum_epoch: x, and the wait of each rank */
    } waits;
    int64_t hooks_ns;         /* time spent in the session's functions in this step */
    const char **layer_names; /* see run_layers.h; NULL without a trace */
    const char *layer_name;   /* layer whose span is open; NULL: none */
    int64_t layer_ns;         /* when that span began */
    unsigned skips;           /* consecutive skipped steps */
    double pace;              /* factor of this step's computing time, if simulated: run_times.h */
    double before_s;          /* training time of earlier runs, from their checkpoint */
    bool apart;               /* the exchange is `none`: no message carries a request to stop */
    bool lost;                /* a signal ended its wait for a server that is away */
    uint64_t sent_before;     /* run_sent at the end of the handshake */
    uint64_t trained_bytes;   /* run_sent from then to the end of the drain */
    train_end_info end;
} run;

static inline int64_t run_now(const run *r)
{
    return tg_now_ns(r->transport->clock);
}

/* The number of steps done, if all earlier epochs had had today's number of steps. */
static inline uint64_t run_position(const run *r)
{
    return r->step - (uint64_t)r->epoch_shift; /* computed modulo 2^64; never negative */
}

/* Bytes that training has sent to other nodes so far: sums, evaluation and saves are excluded. */
static inline uint64_t run_sent(const run *r)
{
    return tg_session_bytes_sent(r->session) - tg_session_bytes_near(r->session) -
           tg_session_bytes_control(r->session);
}

/* In simulated time: training time of the runs that this one resumes; otherwise 0. */
static inline double run_before(const run *r)
{
    return r->job->times ? r->before_s : 0;
}

/* Whether it is a worker of servers, where workers come and go. */
static inline bool run_is_seated(const run *r)
{
    return TG_HAS(tg_transport, r->transport, seats) && r->transport->seats > 0;
}

/* Training time so far, without tests and file output; in simulated time including that of the runs
 * that this one resumes. */
static inline double run_seconds(const run *r)
{
    return run_before(r) + (double)(run_now(r) - r->start_ns - r->evaluation_ns) / 1e9;
}

/* Create the loader of training data at the step of now; one that is there is destroyed. */
TG_NODISCARD tg_status run_load_from_here(run *r);

/* Tokens in a sample: from the job, else from the model's spec, else 35 (as in PyTorch's
 * word_language_model); 0 for images. Errors TG_E_SPEC, TG_E_ARG (a context given for images,
 * data that the model does not read) */
TG_NODISCARD tg_status run_context(const char *model_spec, size_t context, train_unit unit,
                                   size_t *context_p);

/* What every session of the job is set to, also that of a plan or of a simulation. Specs are those
 * of the job as written, not in normal form. There a default would look like a setting, and a
 * momentum that nobody gave would contradict the method's. */
tg_session_config run_session_config(const train_job *job, uint64_t steps_per_epoch,
                                     uint64_t steps);

/* Whether the job's servers keep the parameters. The strategy has no keys. */
static inline bool run_servers_keep(const train_job *job)
{
    return job->strategy && strcmp(job->strategy, "server") == 0;
}

/* The transport of a job of one rank, which sends nothing, for sessions that only plan.
 * served  it has a server, which does not run, for methods that need one
 * t       [out] (2) the first is the rank's; the other the server's, or NULL. Owned by the caller;
 *         after an error, both are NULL */
TG_NODISCARD tg_status run_lone_rank(bool served, tg_transport *t[2]);

/* The method of the job's first rule that matches the tensor's name; NULL: none does. */
const char *run_rule_of(const train_job *job, const char *tensor);

/* Do everything up to the first step: model, session, handshake, checkpoint. */
TG_NODISCARD tg_status run_setup(run *r);
/* How training batches are drawn, from the current step of r on. */
loader_config run_loader_config(const run *r);
/* Add all tensors of m to the session; id (m->ntensors) receives their numbers. */
TG_NODISCARD tg_status run_register(tg_session *s, const model *m, uint32_t *id);
/* Free everything that was made, except the session. */
void run_free(run *r);

/* With job->bucket_auto and more than one rank: choose r->buckets, or take them from the checkpoint
 * that the run resumes. All ranks call it together, after the model and before the session exists.
 * (run_fusion.c) */
TG_NODISCARD tg_status run_choose_buckets(run *r);

/* The metadata of saved weights: "model=..", "data=..", "holdout=..", "batch=.." and, for texts,
 * "context=..", named as the options of `telegrad eval`; also "precision=..", "data_hash=..", and
 * for chosen buckets "buckets=3,1,2" and "densities=0.01,0.3,1". (run_weights.c) */
#define RUN_METADATA 9
typedef struct run_metadata {
    const char *list[RUN_METADATA]; /* (count) */
    size_t count;
    char *text[RUN_METADATA]; /* the memory of the list */
} run_metadata;
/* The caller frees d, also after a failure. Errors TG_E_SPEC, TG_E_NOMEM */
TG_NODISCARD tg_status run_describe(const run *r, run_metadata *d);
void run_metadata_free(run_metadata *d);
/* Fill m from w. Errors TG_E_MISMATCH, which leaves m unchanged */
TG_NODISCARD tg_status run_read_weights(model *m, const tg_weights *w);
/* On rank 0, fill r->model from job->init if that is given; rank 0's tensors go to all ranks. */
TG_NODISCARD tg_status run_init_weights(run *r);

/* Results of a test, summed over labels. */
typedef struct run_tested {
    double loss, correct, labels;
} run_tested;
/* Add up the results of the next `batches` batches. job: sets the number of samples and receives
 * the outputs; NULL: neither. (evaluate.c) */
TG_NODISCARD tg_status run_test(model *m, loader *test, uint64_t batches, const train_eval_job *job,
                                run_tested *sums);
/* The means, in nats. If the loss is not finite, it is INFINITY, and the accuracy NAN: some outputs
 * are not finite, and count as wrong. (evaluate.c) */
void run_tested_means(const run_tested *sums, double *accuracy_p, double *loss_p);

/* Agreement between ranks outside of the session (run_agree.c). All ranks call these together.
 *
 * Check that all ranks have the same settings, of those that the handshake does not compare. Errors
 * TG_E_MISMATCH (names the setting, two ranks and their values), TG_E_PEER */
TG_NODISCARD tg_status run_agree(run *r);

/* Who waits for whom (run_waits.c). run_on_wait is the session's on_wait; run_waits_begin starts
 * the count; run_waits_tell reports the totals and is called by all ranks. */
void run_on_wait(void *arg, const tg_wait *wait);
TG_NODISCARD tg_status run_waits_begin(run *r);
TG_NODISCARD tg_status run_waits_tell(run *r);
/* tg_session_sum at the end of an epoch; its messages also carry the waits since the last call.
 * Errors TG_E_PEER */
#define RUN_SUMS 5
TG_NODISCARD tg_status run_sum_epoch(run *r, double x[RUN_SUMS], train_waits *waits_p);
void run_waits_free(run *r);
/* 0: a request to stop holds for the step that it came in, on all ranks. Otherwise no message
 * carries it to others (exchange=none, job->uneven): ranks ask each other after so many steps. */
uint64_t run_stops_every(const run *r);
/* Called after a step. Then sets *stop_p on all ranks alike; between such steps it does nothing.
 * Errors TG_E_PEER */
TG_NODISCARD tg_status run_agree_on_stop(run *r, bool *stop_p);

/* Whether this rank still tells its callbacks of steps: none has failed. */
static inline bool run_tells(const run *r)
{
    return r->events && !r->end.untold[0];
}
/* Called with what a callback returned. After TG_E_IO it asks all ranks to stop and returns TG_OK;
 * where they could not agree on that, and in all other cases, it returns `status`. */
TG_NODISCARD tg_status run_told(run *r, tg_status status);

/* Called after the run by all ranks: sets end.stopped_by and end.stopped_at.
 * Errors  TG_E_NOMEM, TG_E_PEER */
TG_NODISCARD tg_status run_agree_on_signal(run *r);

/* Save a checkpoint to job->save_dir, with what run_setup needs to resume. */
TG_NODISCARD tg_status run_save(run *r);
/* Add the weights of the finished run to the checkpoint that was saved after its last step. */
TG_NODISCARD tg_status run_save_final(run *r);
TG_NODISCARD tg_status run_save_weights(run *r);

/* Pass the gradient in the model to rank 0's callback, if that of this step is wanted.
 * (run_gradient.c) */
TG_NODISCARD tg_status run_report_gradient(run *r);

/* Set the model's state to zero, at the start of an epoch. */
void run_clear_state(run *r);

/* Take one training step: batch, forward, backward, exchange; record and report it. */
TG_NODISCARD tg_status run_step_once(run *r, tg_step_info *info);

#endif
