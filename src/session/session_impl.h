/* Shared by the files of the session. */
#ifndef TG_SESSION_IMPL_H
#define TG_SESSION_IMPL_H

#include <stdatomic.h>
#include <stdio.h>
#include <sys/types.h>

#include "engine/collect.h"
#include "engine/engine.h"
#include "exchange/nodes.h"
#include "session/rules.h"
#include "session/watch.h"
#include "strategy/strategy.h"
#include "telegrad/costs.h"

/* A tensor as registered. */
typedef struct tensor {
    char *name;
    size_t shape[8], ndim, n, rows, cols;
    tg_tensor_kind kind;
    float *param, *grad; /* external: the session's own gradient; NULL: none is exchanged */
    uint32_t bucket;     /* TRAINED: its bucket */
    size_t offset;       /* TRAINED: its offset in the bucket */
    size_t trained;      /* TRAINED: its index among the trained tensors */
    float *kept;         /* others: this rank's value, during an evaluation */
    bool ready;
} tensor;

/* One exchange of a bucket, from submission to delivery. */
typedef struct lane_op {
    tg__op op;
    bool waiting;  /* submitted (or loaded), not delivered */
    bool counted;  /* in s->since */
    bool undone;   /* its payload was already taken back (when saving) */
    bool absorbed; /* the memory has already absorbed what this rank dropped from its sums */
    bool loaded;   /* the aggregate came from a checkpoint: `inbox` */
    float *inbox;  /* (n) */
    bool owes;     /* at delivery, `owed` is added to the memory */
    float *owed;   /* (n) */
    uint64_t due, order;
    uint32_t bucket, tag;
    bool update; /* carries a buffer of the strategy, not a gradient */
    double lr;
    double norm_sq;                  /* of the vector handed in */
    struct lane_op *earlier, *later; /* while waiting: session.first_waiting */
} lane_op;

/* A bucket: trained tensors of one method that are exchanged together. */
typedef struct bucket {
    const uint32_t *member; /* (count) indices among the trained tensors, ascending */
    uint32_t count;
    size_t n, rule; /* rule: the entry that all of them share */
    size_t span;    /* the entry of config.buckets that it belongs to */
    /* the exchange that exchange=auto stands for; NULL: the method does not say auto */
    const char *exchange;
    double fold_decay; /* weight decay added to the local gradient (the method owns the momentum) */
    float *staging;    /* (n) copy of the gradients; NULL: they are adjacent already */
    const float *g;    /* (n) staging or the first tensor's gradient */
    tg__method *method;
    size_t missing; /* tensors not ready yet in this step */
    double grad_sq; /* sum of squares of the tensors that are ready */
    size_t group;   /* index of its method in the session's list */
    lane_op *lane;  /* (lanes) */
} bucket;

/* What a bucket's work costs on a simulated clock. */
typedef struct bucket_costs {
    tg__costs of[2]; /* dense exchanges, coded ones */
    int64_t apply_ns;
} bucket_costs;

/* Of a bucket for which none are set. */
static const bucket_costs tg__no_costs;

/* The buckets of one method, for step info and warnings. */
typedef struct method_group {
    double norm_sq, residual_sq; /* of this step */
    uint64_t fallen;             /* elements of the buckets whose coded form was dense */
    bool coded, due;             /* this step was coded; its residual must be examined */
    bool remembers, has_threshold;
    tg__watch watch;
} method_group;

typedef struct time_span {
    int64_t begin_ns, end_ns;
} time_span;

/* An element of a gradient that is not finite; tensor NULL: none. */
typedef struct bad_element {
    const char *tensor; /* its name */
    size_t element;
    float value;
    uint64_t step;
} bad_element;

struct tg_session {
    tg_session_config config; /* strings copied */
    tg_transport *transport;
    tg__engine *engine;
    tg__pool *pool;          /* NULL: one core */
    tg__nodes *nodes;        /* NULL: one level */
    tg__group members;       /* with nodes: the ranks of this one's node */
    bool external;           /* the caller's optimizer takes own steps */
    bool prefers_updates;    /* the default strategy is updates, whichever is configured */
    tg_optimizer *optimizer; /* as configured; external: sgd:lr=1, in its place */
    tg_optimizer *plain;     /* without momentum, for methods that own it; NULL: none does */
    tg__rules rules;
    tg__strategy *strategy;
    uint64_t *samples; /* (size) samples of each rank; NULL: equal on all ranks */
    tg__state *state;
    tensor *tensor;
    size_t ntensors, cap;
    uint32_t *trained; /* (ntrained) ids */
    size_t ntrained;
    tg__wtensor *wtensor; /* (ntrained) */
    bucket *bucket;
    uint32_t *member;          /* (ntrained) members of all buckets, one bucket after another */
    size_t nbuckets, lanes, n; /* n: trained elements */
    bucket_costs *costs;       /* (nbuckets) NULL: none are set */
    method_group *group;       /* (nmethods) and what tg_step_info reports of them */
    tg_method_info *method_info;
    size_t nmethods;
    tg_method_info *method_told;        /* (nmethods) as reported by the last tg_session_step */
    const tg_method_info **method_list; /* pointers to them */
    tg_step_info since; /* its fields (*), for deliveries since the last tg_session_step */
    size_t delivered;   /* elements, likewise */
    time_span
        *under_way; /* (nspans of room nbuckets * (lanes + 1)) likewise: when exchanges were */
    size_t nspans;
    tg__actions actions;
    bool separable; /* a bucket's update needs no other bucket's: the same on all ranks */
    bool early;     /* all but the first bucket may be delivered after tg_session_step */

    bool begun, evaluating;
    bool opened;  /* external: tg_session_deliver was called in this step */
    size_t means; /* external: buckets whose mean of gradients was delivered in this step */
    lane_op *first_waiting, *last_waiting; /* undelivered exchanges, in the order submitted */
    uint64_t t, skipped, order;
    uint64_t dropped; /* 1 + the step counted last in `skipped`; 0: none */
    bool told_spoils; /* the log says that the server did not apply a gradient */
    bool told_late;   /* ... or that it did not wait for it */
    bool leaves_out;  /* servers have a deadline, so ranks may be at different steps */
    uint64_t told;    /* the step at which servers have said that this rank goes on */
    double lr;
    size_t next_ready; /* buckets are planned from last to first: the number left */
    size_t unready;    /* tensors whose gradient of this step is not complete */
    bool nonfinite;    /* this rank's gradient of this step */
    bad_element bad;   /* with TG_NONFINITE_FAIL: the first one of this rank */
    /* of the strategy's step, while what is due before it is delivered; else NULL */
    const tg__turn *turn;
    bool lost; /* this rank lost an own step, and has not reported it yet */
    /* This rank's time in the steps of the strategy's round; the time from which more counts; and
     * whether the deadline has passed, so that this rank sits out the rest of the round. */
    int64_t round_ns, counts_from_ns;
    bool late;
    atomic_int stop_requested; /* how often; from any thread, and from signal handlers */
    bool stop_now;             /* the envelopes of this step say so */
    bool stop_wished;          /* with leaves_out: a server has said that some rank wants to stop */
    int64_t apply_ns, wait_ns; /* since the last tg_session_step */
    uint64_t bytes_reported, near_reported;
    float *clipped;    /* (n of the largest bucket) a scaled aggregate; NULL: never clipped */
    float clip_factor; /* of the step being delivered */
    float **eval_kept; /* (ntrained) the caller's parameters during an evaluation */
    struct tg__length {
        uint64_t total_steps, steps_per_epoch;
    } length; /* the length that warm-ups were settled with: session_length.c */
    struct {
        int ranks; /* number of ranks that saved the checkpoint; 0: started without one */
        uint64_t step, steps_per_epoch;
        /* this rank's newest, which is beyond `step` if not all ranks have it */
        uint64_t newest;
        /* the folder of it, however it is named later */
        dev_t device;
        ino_t inode;
        struct tg__length length;
        /* (nimages) until loaded: what the old ranks saved in memory; NULL: none */
        const struct tg__image {
            const void *bytes; /* (len) aligned to 8 */
            size_t len;
        } * image;
        int nimages; /* 0: this rank's alone */
        /* until loaded: this rank's file, if the number of ranks is the same */
        tg__ckpt_reader *own;
        /* loaded with another number of ranks: what could not be taken over */
        char anew[256];
    } from;
    struct {
        struct tg__server_state {
            void *bytes; /* (len) from malloc */
            size_t len;
        } * of; /* (count) */
        int count;
    } states;            /* of servers, while they are saved or loaded: session_servers.c */
    int64_t epoch_shift; /* tg__epochs */
    int *writers; /* (ranks) who commits the folder that each rank saves to; NULL: not saved */
    uint8_t *ckpt_bytes;
    size_t ckpt_len;
    void *saved;            /* what tg_session_save_memory returned last */
    tg_spec *strategy_spec; /* of config.strategy */
    bool settled;           /* default warm-ups are fixed: session_length.c */
    char **metadata;        /* (nmetadata) of saved weights: session_ckpt.h */
    size_t nmetadata;
    tg__latch failure;
    tg__owned owned; /* memory, released with the session */
};

/* Record a final failure, if status is one; returns status. */
tg_status tg__session_failed(tg_session *s, tg_status status);
/* Return the final failure, if there is one. */
tg_status tg__session_check(tg_session *s);
/* Check that the session has begun and not failed; and that no evaluation is open.
 * Errors  TG_E_STATE (names the call), the final failure */
TG_NODISCARD tg_status tg__session_begun(tg_session *s, const char *call);
TG_NODISCARD tg_status tg__session_usable(tg_session *s, const char *call);
#define TG__EXTERNAL "external" /* config.optimizer */
/* The optimizer as the caller configured it: what all ranks must share. (session_external.c) */
const char *tg__session_optimizer(const tg_session *s);
/* True if gradients are taken in step s->t. */
bool tg__session_reads_gradients(const tg_session *s);
/* External: memory for gradients, if any are exchanged. (session_external.c) */
TG_NODISCARD tg_status tg__session_make_gradients(tg_session *s);
/* Take in the gradients of this step, and deliver what is due in it. (session_step.c) */
TG_NODISCARD tg_status tg__session_take_in(tg_session *s);
/* Check that all gradients are ready. (session_step.c)
 * Errors  TG_E_STATE (names the tensor) */
TG_NODISCARD tg_status tg__session_check_ready(const tg_session *s);
/* External: check that tg_session_deliver was called in this step. (session_external.c)
 * Errors  TG_E_STATE */
TG_NODISCARD tg_status tg__session_check_open(const tg_session *s);
/* Check that no step is half done: nothing is ready, and no evaluation is open.
 * Errors  TG_E_STATE (names the call) */
/* Whether a worker of servers has lost one for good: it still has the parameters that it got. */
bool tg__session_lost(tg_session *s);
TG_NODISCARD tg_status tg__session_between_steps(tg_session *s, const char *call);
/* Check that the session may begin, and let `start` begin it, with dir. (session_setup.c)
 * Errors  TG_E_STATE (it has begun, or has no tensor to train), those of start */
TG_NODISCARD tg_status tg__session_start(tg_session *s, const char *call, const char *dir,
                                         tg_status (*start)(tg_session *s, const char *dir));

/* List the trained tensors and group them into buckets. (session_buckets.c)
 * Errors  TG_E_SPEC, TG_E_ARG, TG_E_NOMEM */
TG_NODISCARD tg_status tg__session_layout(tg_session *s);
/* Check that the strategy supports the method of the rule. (session_takes.c)
 * Errors  TG_E_UNSUPPORTED (with the reason) */
TG_NODISCARD tg_status tg__session_takes(const tg_session *s, const tg__rule *rule);
/* Create buckets, strategy and slots; and, once every bucket has its exchange, the methods.
 * (session_buckets.c) */
TG_NODISCARD tg_status tg__session_build(tg_session *s);
TG_NODISCARD tg_status tg__session_build_methods(tg_session *s);
/* released  false: the transport still writes to message buffers. Methods, which own them, stay. */
void tg__session_unbuild(tg_session *s, bool released);
/* Create the strategy from this spec, for rank `rank` of `size`. w, g, n and offset of the
 * session's wtensor are set, for all trained tensors. (session_buckets.c) */
TG_NODISCARD tg_status tg__session_make_strategy(tg_session *s, const char *spec, int rank,
                                                 int size);
/* True if a bucket's update needs no other bucket's. (session_buckets.c) */
bool tg__session_is_separable(const tg_session *s);
/* The momentum in the optimizer's spec; NAN: it sets none. */
double tg__session_momentum(const tg_session *s);
int tg__session_nesterov(const tg_session *s); /* 1, 0; -1: the spec has no such key */
/* Complete the method's setup for the tensors of b, as bucket `index`, and call `use` with it. The
 * setup's arrays are valid during that call only. (session_buckets.c)
 * setup  the members that do not follow from b */
typedef tg_status tg__setup_use(void *arg, const char *text, const tg__method_setup *setup);
TG_NODISCARD tg_status tg__session_with_setup(const tg_session *s, const bucket *b, uint32_t index,
                                              tg__method_setup setup, tg__setup_use *use,
                                              void *arg);
/* The same, but create the method. */
TG_NODISCARD tg_status tg__session_method(const tg_session *s, const bucket *b, uint32_t index,
                                          tg__method_setup setup, tg__method **m_p);
/* Print the rules as lines "rule=PATTERN=METHOD", for texts that all ranks must share.
 * (session_setup.c) */
void tg__session_print_rules(const tg_session *s, FILE *f);
/* the same for buckets: "bucket_bytes=..." */
void tg__session_print_buckets(const tg_session *s, FILE *f);
/* Handshake: compare everything that must be equal on all ranks, and create the methods.
 * (session_setup.c)
 * start  "begin" or "load"; compared as well
 * dir    find the newest checkpoint there; NULL: none */
/* The text that all ranks must share, one line per setting; free it. NULL: out of memory */
char *tg__session_describe(const tg_session *s, const char *start);
TG_NODISCARD tg_status tg__session_handshake(tg_session *s, const char *start, const char *dir);
/* Default warm-ups (session_length.c).
 *     parse       parse config.strategy
 *     settle      fix those of strategy and rules by the length of the run, or by the length stored
 *                 in the checkpoint that this rank has found
 *     put_length  save that length
 *     get_length  read it into s->from */
TG_NODISCARD tg_status tg__session_parse_strategy(tg_session *s);
TG_NODISCARD tg_status tg__session_settle(tg_session *s);
TG_NODISCARD tg_status tg__session_put_length(const tg_session *s, tg__ckpt_writer *w);
TG_NODISCARD tg_status tg__session_get_length(tg_session *s, tg__ckpt_reader *r);
/* What exchange=auto stands for in each bucket (session_auto.c): choose the exchanges, the same on
 * all ranks, or take them from the checkpoint that all ranks have found; and save them. */
TG_NODISCARD tg_status tg__session_choose_exchanges(tg_session *s);
TG_NODISCARD tg_status tg__session_put_exchanges(const tg_session *s, tg__ckpt_writer *w);
/* Find the checkpoint to load (session_load.c).
 *     look         find the newest one in dir and set s->from and epoch_shift, before anything is
 *                  created that depends on them. It is not yet compared with the job
 *     found_alike  go back to the newest one that all ranks have, and check that all have found
 *                  the same, and that it belongs to this job. own: the result of look on this rank
 * Errors  those of tg_session_load */
TG_NODISCARD tg_status tg__session_look(tg_session *s, const char *dir);
TG_NODISCARD tg_status tg__session_found_alike(tg_session *s, const char *dir,
                                               const tg__latch *own);
/* Delivery (session_deliver.c): wait for exchanges, pass their aggregates to the strategy, and
 * count them in s->since.
 *     deliver         every exchange due at or before step `due`, in the order submitted
 *     deliver_step    what tg_session_step must wait for: everything due in this step; with
 *                     `early`, and if no rank flagged the step, only the bucket that closes it
 *     deliver_bucket  the remaining exchange of an earlier step, for one bucket
 *     deliver_early   the same for all buckets, before parameters are read */
TG_NODISCARD tg_status tg__session_deliver(tg_session *s, uint64_t due);
TG_NODISCARD tg_status tg__session_deliver_step(tg_session *s);
TG_NODISCARD tg_status tg__session_deliver_bucket(tg_session *s, const bucket *b);
TG_NODISCARD tg_status tg__session_deliver_early(tg_session *s);
/* True if o is a push (an action with a hop): only the receiving rank knows its flags. */
bool tg__session_was_pushed(const tg_session *s, const lane_op *o);
/* Let the method absorb what this rank dropped from the sums of o, unless it has done so. o has
 * arrived, and its step is applied. (session_deliver.c) */
TG_NODISCARD tg_status tg__session_absorb(tg_session *s, lane_op *o);
/* Clipping by global norm (session_clip.c).
 *     make     allocate memory
 *     measure  compute the factor of a step whose exchanges have all arrived, and note it in
 *              s->since
 *     clip     return an aggregate (n) times that factor; valid until the next call */
TG_NODISCARD tg_status tg__session_clip_make(tg_session *s);
void tg__session_clip_measure(tg_session *s, uint64_t of_step);
const float *tg__session_clip(tg_session *s, const float *aggregate, size_t n);
/* The same for this rank's gradient, for strategies that apply it themselves. clip_own: before the
 * turn's results arrive; clip_own_told: report its norm, after that of the mean. */
void tg__session_clip_own(tg_session *s, double norm);
void tg__session_clip_own_told(tg_session *s, double norm);
/* True if o, which has arrived, will be dropped at its delivery. (session_deliver.c) */
bool tg__session_drops(const tg_session *s, const lane_op *o);
/* The aggregate (n of its bucket) of an exchange that has arrived. */
const float *tg__session_aggregate(const tg_session *s, const lane_op *o);
/* Submit what the strategy requested when all gradients were ready. */
TG_NODISCARD tg_status tg__session_submit(tg_session *s);
/* o, whose `order` is set, waits for delivery from now on. (session_deliver.c) */
void tg__session_expect(tg_session *s, lane_op *o);
/* Wait until every exchange that waits for delivery has arrived. (session_deliver.c) */
TG_NODISCARD tg_status tg__session_await_all(tg_session *s);
/* Figures and warnings of a step, by method (session_report.c).
 *     make  call it when the buckets have their methods
 *     op    call it for each exchange delivered
 *     end   call it at the end of a step: fills the fields (*) of info, and starts a new count */
TG_NODISCARD tg_status tg__session_report_make(tg_session *s);
void tg__session_report_op(tg_session *s, const lane_op *o);
TG_NODISCARD tg_status tg__session_report_end(tg_session *s, tg_step_info *info);
/* The strategy's deadline (session_round.c).
 *     step      call it at the end of a step
 *     goes_on   exclude the time since the last step, which was spent outside of steps
 *     put, get  save and load it */
void tg__session_round_step(tg_session *s);
void tg__session_round_goes_on(tg_session *s);
TG_NODISCARD tg_status tg__session_put_round(const tg_session *s, tg__ckpt_writer *w);
TG_NODISCARD tg_status tg__session_get_round(tg_session *s, tg__ckpt_reader *r);
/* This rank's weight in step t: tg__strategy_ops.weight. (session_step.c) */
double tg__session_weight(const tg_session *s, uint64_t t);
/* tg_session_measure and tg_session_set_costs, for a session that has buckets and a strategy.
 * `what` names the caller's array. (session_costs.c) */
TG_NODISCARD tg_status tg__session_tell_costs(const char *what, const tg_session *s, size_t room,
                                              tg_bucket_cost *cost, size_t *count_p);
TG_NODISCARD tg_status tg__session_take_costs(const char *what, tg_session *s,
                                              const tg_bucket_cost *cost);
static inline const bucket_costs *tg__session_costs(const tg_session *s, size_t b)
{
    return s->costs == NULL ? &tg__no_costs : &s->costs[b];
}
/* Copy the caller's config, from which `what` is made, to *own. Errors: TG_E_ARG
 * (session_setup.c) */
TG_NODISCARD tg_status tg__session_take_config(const char *what, const tg_session_config *from,
                                               tg_session_config *own);
/* Check that no two tensors share memory. (session_tensors.c)
 * Errors  TG_E_ARG */
TG_NODISCARD tg_status tg__session_check_memory(const tg_session *s);
/* True if this rank's caller has asked to stop. (session_step.c) */
bool tg__session_wants_stop(const void *session);
/* True if it does not want to wait for others any more either. (session_step.c) */
bool tg__session_ends_waits(const void *session);
/* Send rank 0's data (n) to all ranks. (session_setup.c) */
TG_NODISCARD tg_status tg__session_broadcast(tg_session *s, float *data, size_t n);

/* ---- session_served.c ---- */

/* Check that servers can keep the parameters of the rule's tensors. */
TG_NODISCARD tg_status tg__session_takes_served(const tg_session *s, const tg__rule *rule);
/* Before the first step: the parameters become those that the servers have, which are the first
 * that some rank has offered. */
TG_NODISCARD tg_status tg__session_share_parameters(tg_session *s);
/* Check that a checkpoint can have what servers keep: not where workers come and go. */
TG_NODISCARD tg_status tg__session_can_save(const tg_session *s, const char *call);

#endif
