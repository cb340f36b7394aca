/* One rank's run, from set-up to end: what the trainer's files share. */
#ifndef TG_TRAIN_RUN_H
#define TG_TRAIN_RUN_H

#include "trainer/data/loader.h"
#include "trainer/model/model.h"
#include "trainer/loop/run_stats.h"
#include "trainer/loop/train.h"
#include "telegrad/clock.h"
#include "telegrad/spec.h"

/* Of the bytes a run sends beyond its node, those that are not its training's: figures of training
 * leave them out.
 */
typedef struct run_traffic {
    uint64_t begun;     /* sent when the handshake was over */
    uint64_t sum;       /* what one run_sum sends */
    uint64_t epoch_sum; /* what one run_sum_epoch sends */
    uint64_t apart;     /* sent since then by sums and saves */
    uint64_t counted;   /* of those, at the end of the last step */
    uint64_t trained;   /* sent since then until the drain's end, without `apart` */
} run_traffic;

typedef struct run {
    const train_job *job;
    const train_data *data;
    tg_transport *transport;
    const train_events *events;     /* NULL on ranks other than 0 */
    const train_events *all_events; /* those of all ranks */
    tg_spec *method, *strategy;
    tg_optimizer *optimizer;
    tg_lr_schedule *lr;
    model *model;
    loader *train_loader, *test_loader; /* test_loader: NULL without evaluation */
    tg_session *session;
    uint32_t *id;      /* of the model's tensors in the session */
    uint32_t parts;    /* of a step: job->accumulate */
    uint32_t *buckets; /* (nbuckets) tensors of each; NULL: job->bucket_bytes decides */
    size_t nbuckets;
    size_t context; /* tokens in a sample; 0: images */
    tg_spec *shard;
    float *state_aside;                                /* (model->nstate) during evaluation */
    uint64_t steps, steps_per_epoch, first_step, step; /* step: done */
    int resumed;         /* ranks that saved the checkpoint it goes on from; 0: from none */
    int64_t epoch_shift; /* of other ranks' epochs: tg_resumed */
    char anew[320];      /* what of it began anew */
    /* Of the running epoch, kept in checkpoints: */
    double loss_sum; /* of the steps whose loss was finite: */
    uint64_t loss_count;
    uint64_t loss_steps; /* all steps */

    run_stats stats;
    int64_t start_ns, evaluation_ns; /* of this run */
    int64_t wait_ns;                 /* all steps' tg_step_info.wait_ns */
    struct run_waits {
        int64_t *ns;     /* (3, ranks) tg_session_waited: before the first step, when the last epoch
                            was told, now */
        int64_t told_ns; /* wait_ns when the last epoch was told */
        double *for_rank; /* (ranks) seconds */
        double *sums;     /* (RUN_SUMS + ranks) of run_sum_epoch: x, and what each rank waited */
    } waits;
    int64_t hooks_ns;         /* of this step: time in the session's functions */
    const char **layer_names; /* run_layers.h; NULL without a trace */
    const char *layer_name;   /* whose span is under way; NULL: none */
    int64_t layer_ns;         /* since then */
    unsigned skips;           /* in a row */
    double pace;              /* of this step's computing, by simulated time: run_times.h */
    double before_s;          /* training time of the runs before, as their checkpoint has it */
    bool apart;               /* the exchange is `none`: no message carries a wish to stop */
    run_traffic traffic;
    train_end_info end;
} run;

static inline int64_t run_now(const run *r)
{
    return tg_now_ns(r->transport->clock);
}

/* Steps that would have brought it to where it is in epochs if all had had today's length. */
static inline uint64_t run_position(const run *r)
{
    return r->step - (uint64_t)r->epoch_shift; /* modulo 2^64; not below 0 */
}

/* Bytes handed to the transport so far, without those to ranks of the own node. */
static inline uint64_t run_sent(const run *r)
{
    return tg_session_bytes_sent(r->session) - tg_session_bytes_near(r->session);
}

/* By simulated time: training time of the runs that this one goes on from. */
static inline double run_before(const run *r)
{
    return r->job->times ? r->before_s : 0;
}

/* Training time so far, without tests and writing files; by simulated time, of the runs before this
 * one as well. */
static inline double run_seconds(const run *r)
{
    return run_before(r) + (double)(run_now(r) - r->start_ns - r->evaluation_ns) / 1e9;
}

/* Tokens in a sample: what the job asks for, else the model's spec, else 35 (as PyTorch's
 * word_language_model); 0 for images. Errors TG_E_SPEC, TG_E_ARG (a context for images,
 * data that the model does not read) */
TG_NODISCARD tg_status run_context(const char *model_spec, size_t context, train_unit unit,
                                   size_t *context_p);

/* Everything up to the first step: model, session, handshake, checkpoint. */
TG_NODISCARD tg_status run_setup(run *r);
/* How training batches are drawn, from the step that r is at. */
loader_config run_loader_config(const run *r);
/* Add all tensors of m to the session; id (m->ntensors) their numbers in it. */
TG_NODISCARD tg_status run_register(tg_session *s, const model *m, uint32_t *id);
/* Free everything, whatever of it was made, but the session. */
void run_free(run *r);

/* With job->bucket_auto and more than one rank: choose r->buckets, or take over what the checkpoint
 * has that the run resumes. All ranks call it together; between model and session. (run_fusion.c)
 */
TG_NODISCARD tg_status run_choose_buckets(run *r);

/* What weights that this run saves say of themselves: "model=..", "data=..", "holdout=..",
 * "batch=..", of texts "context=..", as `telegrad eval` is told them, "precision=..",
 * "data_hash=..", and of buckets that were chosen "buckets=3,1,2". (run_weights.c) */
#define RUN_METADATA 8
typedef struct run_metadata {
    const char *list[RUN_METADATA]; /* (count) */
    size_t count;
    char *text[RUN_METADATA]; /* what it points to */
} run_metadata;
/* d is to be freed whatever comes of it. Errors TG_E_SPEC, TG_E_NOMEM */
TG_NODISCARD tg_status run_describe(const run *r, run_metadata *d);
void run_metadata_free(run_metadata *d);
/* Fill m from w. Errors TG_E_MISMATCH: then m is unchanged */
TG_NODISCARD tg_status run_read_weights(model *m, const tg_weights *w);
/* Fill r->model from job->init, if there is one and this is rank 0, whose tensors go to all. */
TG_NODISCARD tg_status run_init_weights(run *r);

/* Of a test: sums over labels. */
typedef struct run_tested {
    double loss, correct, labels;
} run_tested;
/* Test the next `batches` batches, added up. job: NULL, or says how many samples, and who wants the
 * outputs. (evaluate.c) */
TG_NODISCARD tg_status run_test(model *m, loader *test, uint64_t batches, const train_eval_job *job,
                                run_tested *sums);

/* What ranks agree on apart from the session (run_agree.c). All ranks call these together.
 *
 * Whether all were told the same of what the handshake does not compare. Errors TG_E_MISMATCH
 * (names the setting, two ranks and their values), TG_E_PEER */
TG_NODISCARD tg_status run_agree(run *r);
/* x[i] = sum over ranks: between steps. Errors TG_E_PEER */
#define RUN_SUMS 5
TG_NODISCARD tg_status run_sum(run *r, double x[RUN_SUMS]);

/* Who waits for whom (run_waits.c): the session's on_wait; from here on it counts; tell of all of
 * it, which all ranks call. */
void run_on_wait(void *arg, const tg_wait *wait);
TG_NODISCARD tg_status run_waits_begin(run *r);
TG_NODISCARD tg_status run_waits_tell(run *r);
/* run_sum at an epoch's end, whose messages carry the waits since the last call as well; and how
 * many numbers they carry in all. */
TG_NODISCARD tg_status run_sum_epoch(run *r, double x[RUN_SUMS], train_waits *waits_p);
size_t run_waits_sums(const run *r);
void run_waits_free(run *r);
/* After a step. Where no message carries a wish to stop, sets *stop_p after every 16th step, on all
 * ranks alike; elsewhere does nothing. Errors TG_E_PEER */
TG_NODISCARD tg_status run_agree_on_stop(run *r, bool *stop_p);

/* After the run: end.stopped_by. All ranks call it. Errors TG_E_NOMEM, TG_E_PEER */
TG_NODISCARD tg_status run_agree_on_signal(run *r);

/* A checkpoint in job->save_dir, with what run_setup needs to go on. */
TG_NODISCARD tg_status run_save(run *r);

/* Tell rank 0's callback of the gradient that stands in the model, if this step's is wanted.
 * (run_gradient.c) */
TG_NODISCARD tg_status run_report_gradient(const run *r);

/* The model's state is zero again: at the start of an epoch. */
void run_clear_state(run *r);

/* One training step: batch, forward, backward, exchange; records and reports it. */
TG_NODISCARD tg_status run_step_once(run *r, tg_step_info *info);

#endif
