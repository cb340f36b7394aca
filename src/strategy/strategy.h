/* A strategy decides what is exchanged when, and how the result is applied. It is arithmetic on
 * plain arrays and a plan; it knows nothing of transports, threads or bytes. A strategy is one file
 * and one line in strategies.def.
 *
 * The session plays step t like this, in the same way on every rank:
 *     ready(b, t)        bucket b's gradient is complete; may return EXCHANGE actions
 *     [the session waits until every exchange with due <= t has its aggregate]
 *     result(b, s, agg)  apply the aggregate of step s; in the order the exchanges were returned.
 *                        The last one of a bucket comes with the turn of step(t), and the strategy
 *                        may make the bucket's part of that step with it
 *     step(t)            all gradients are in, all due results applied; may return EXCHANGEs
 *     [the session waits for those with due <= t, and delivers them: result]
 * After step(t) the parameters are those of the next forward pass.
 *
 * Drain       At the end of a run the session delivers what is in flight (result) and calls
 *             drained(), again as long as that returns EXCHANGEs. Evaluation never drains: it uses
 *             global().
 * Buffers     Read `agg` during result() only. Do not change a buffer of your own that was given to
 *             an EXCHANGE until its result(). Such a buffer is a change of parameters (or state
 *             that goes with them), not a gradient: no clip of the mean applies to it, and no
 *             learning rate unless sends_directions.
 * External    Own steps may be the caller's, whose optimizer the library does not know. The session
 *             then delivers what is due, calls open(t), lets the caller move its parameters w, and
 *             calls step(t). tg__strategy_update_own_at changes nothing, and tg__strategy_update_at
 *             puts the mean of gradients where the caller's optimizer finds it.
 * Not finite  If this rank's gradient of step t is not finite, ready(b, t) is called all the same,
 *             and step(t) gets finite = false. An exchange that any rank flagged is delivered with
 *             agg = NULL: apply nothing. */
#ifndef TG_STRATEGY_H
#define TG_STRATEGY_H

#include "base/keys.h"
#include "base/owned.h"
#include "state/state.h"
#include "strategy/optimizers.h"
#include "telegrad/optimizer.h"
#include "telegrad/registry.h"

typedef struct tg__action {
    uint32_t bucket;
    const float *buffer; /* (n of the bucket) what to exchange; NULL: the bucket's gradient of this
                          * step, which the session protects until it has been read */
    bool coded;          /* through the method's codec; false: dense f32, feedback bypassed */
    bool absent;  /* this rank contributes nothing: it counts as zero, and the method's memory
                   * does not change. Ranks may differ */
    int priority; /* smaller first; FIFO among equals */
    uint64_t due; /* the result is delivered before step() of this step */
    uint32_t tag; /* the strategy's own number; returned with the result */
    /* not 0: a push. The buffer is sent, uncoded, only to the rank `hop` ahead, and the result is
     * what the rank `hop` behind sent. The same on all ranks; requires `pushes` */
    int hop;
} tg__action;

typedef struct tg__actions { /* filled by the strategy; room: its in_flight per bucket and call */
    tg__action *item;
    size_t count, cap;
    tg__action refused; /* receives an action that finds no room */
    bool overfull;      /* an action found no room: the session ends with TG_E_STATE */
} tg__actions;

/* A tensor as strategies see it. All (n). */
typedef struct tg__wtensor {
    float *w;         /* the caller's parameters: what the next forward pass uses */
    const float *g;   /* this step's local gradient (session's copy or the caller's buffer) */
    size_t n, offset; /* offset of the tensor in its bucket */
    size_t ndim;
    uint32_t bucket;
    const tg_optimizer *optimizer; /* of this tensor; NULL: the strategy's */
    float *mean; /* external: where the caller's optimizer finds a mean of gradients */
} tg__wtensor;

/* A request for a vector that is kept between steps: one per trained tensor, zeroed; a bucket's
 * vectors are adjacent in memory. */
typedef struct tg__slot_request {
    const char *name; /* "global", "momentum" */
    tg__role role;
    tg__rescale rescale;
    size_t optimizers; /* 1 + index among the optimizer's slots; a tensor whose optimizer has fewer
                        * needs none. 0: a slot of the strategy */
    bool single;       /* one element per tensor */
} tg__slot_request;

/* An optimizer's memory: of the averages, or of this rank's gradients. */
typedef struct tg__memory {
    size_t slot; /* the first of its slots */
    tg__role role;
    bool counts;
    uint64_t *updates; /* (ntensors) updates so far; set by the owner as slots are, if counts */
} tg__memory;
enum { TG__MEMORIES = 2 };

/* What step() is called with. */
typedef struct tg__turn {
    uint64_t t;
    bool finite;
    double lr;
} tg__turn;

/* An aggregate that has arrived. */
typedef struct tg__result {
    uint64_t of_step;
    uint32_t bucket, tag;
    const float *agg; /* (n of the bucket); NULL: dropped */
    double lr;        /* of_step's */
    /* The step() that follows. All its gradients are in, `clip` is set, and this bucket has no
     * other result before it. A strategy may make the bucket's part of that step together with the
     * result, so that its vectors pass through the caches once instead of twice. NULL: no step()
     * follows, or other results come before it. */
    const tg__turn *turn;
} tg__result;

typedef struct tg__strategy tg__strategy;
typedef struct tg__strategy_ops {
    tg_entry entry;
    const char *method;       /* default method, that of its paper; NULL: "dense" */
    const char *optimizer;    /* default optimizer, if it needs a particular one; NULL: any */
    const tg_rate_hint *rate; /* NULL: its learning rate follows that of ssgd */
    /* For tests: the settings with which all that it does happens within a few steps, "warmup=2".
     * NULL: its defaults */
    const char *tested;
    /* Read s->spec, check the combination, set s->impl, s->in_flight and s->sends_updates; request
     * slots and memories.
     * Errors  TG_E_SPEC, TG_E_UNSUPPORTED (with the reason) */
    tg_status (*init)(tg__strategy *s);
    /* The following five may be NULL: then they do what synchronous SGD does. Call them by
     * tg__strategy_begin etc. */
    /* The first call before the steps of a new run: parameters have their initial values. Not
     * called after a load. They have been copied to the global slot, if there is one. NULL: only
     * that. */
    void (*begin)(tg__strategy *s);
    /* NULL: exchange the gradient, coded, due in this step; nothing if s->sends_updates. */
    void (*ready)(tg__strategy *s, uint64_t t, uint32_t bucket, tg__actions *out);
    /* NULL: tg__strategy_apply. */
    void (*result)(tg__strategy *s, const tg__result *r);
    /* NULL: nothing. */
    void (*step)(tg__strategy *s, uint64_t t, bool finite, double lr, tg__actions *out);
    /* External: all results due in step t are in, and the caller moves w between this and step(t).
     * NULL: nothing. */
    void (*open)(tg__strategy *s, uint64_t t);
    /* Nothing is in flight after step t: set the caller's parameters to the global ones, unless an
     * EXCHANGE is returned. NULL: only that. */
    void (*drained)(tg__strategy *s, uint64_t t, tg__actions *out);
    /* External: true if the session reads or changes the caller's parameters of this bucket in step
     * t: before the caller moves them (open, and results that are due), or after it (in_step: step,
     * and results of what it exchanges). NULL: it may, in every step. */
    bool (*touches)(const tg__strategy *s, uint64_t t, uint32_t bucket, bool in_step);
    /* A rank's weight in step t, 1 on average over ranks; 0: it sits the step out, and its
     * gradients are not needed. NULL: equal weights. */
    double (*weight)(const tg__strategy *s, uint64_t t, int rank);
    /* After a load with another number of ranks, before step t. This rank's slots and parameters
     * are means over the ranks that it takes over, and what was pushed has been delivered. Returns,
     * in words, what has to start afresh; NULL: nothing. ops->regroup NULL: everything
     * continues. */
    const char *(*regroup)(tg__strategy *s, uint64_t t);
    bool steps;    /* step() changes the parameters */
    bool bypasses; /* may request uncoded exchanges */
    /* result() touches only its bucket's parameters, and step() touches none. Results may then be
     * delivered bucket by bucket, after step(), each before the parameters are read. */
    bool by_bucket;
    /* Servers keep the parameters: results are parameters, and each bucket stands by itself. */
    bool served;
} tg__strategy_ops;

struct tg__strategy {
    const tg__strategy_ops *ops;
    const tg_spec *spec;
    const tg_optimizer *optimizer; /* of tensors without their own; it has the most slots of all */
    uint64_t steps_per_epoch;
    int64_t epoch_shift; /* tg__epochs */
    uint64_t seed;
    int rank, size;
    /* (size) training samples of each rank, set by the owner before begin or the first step after a
     * load; NULL: equal numbers. */
    const uint64_t *samples;
    /* Own steps are the caller's. s->optimizer then is plain SGD with lr=1. */
    bool external;
    /* The default strategy is updates, whichever is used: one that can average gradients and
     * updates averages updates. Set by the owner. */
    bool prefers_updates;
    bool resets; /* external, set by open(): the caller's optimizer forgets its memory first */
    /* Steps before this one exchange gradients; UINT64_MAX, or 0 with sends_updates, unless init
     * sets it. */
    uint64_t gradients_until;
    size_t nbuckets;
    tg__wtensor *tensor; /* (ntensors) the trained ones */
    size_t ntensors;
    size_t in_flight; /* exchanges of a bucket in flight at once, at most; 1 unless init sets it */
    size_t coded_in_flight; /* the largest number of coded ones among them; 0: no limit */
    bool sends_updates;     /* its own buffers go through the method's codec */
    /* with sends_updates: its buffers stand in for gradients: they are multiplied by the learning
     * rate when they are applied, and a step with a gradient that is not finite is dropped */
    bool sends_directions;
    bool some_absent;  /* ranks may be absent from exchanges */
    bool weighted;     /* ranks are weighted by samples; a rank without any is absent */
    bool decays_apart; /* weight decay is not part of what is exchanged */
    bool pushes;       /* uncoded exchanges of its buffers go to a single rank: hop */
    /* Rounds of round_steps steps with a deadline; 0: none. A rank that has spent more than
     * deadline_ns on a round when a step begins sits out the rest of the round. The owner watches
     * the clock, and passes finite = false for a step that is sat out. */
    uint64_t round_steps;
    int64_t deadline_ns;
    bool needs_mean; /* exchange=none is refused: ranks must not diverge */
    uint32_t tags;   /* results have tags below this; 1 unless init sets it */
    /* Saved in checkpoints; 0 at first. drained: 1 + the step after which it last sent the
     * remainder. anew: the number of steps taken before it last started afresh. */
    uint64_t drained, anew;
    /* Slots, with pointer arrays (ntensors) that init's requests leave zeroed. Before begin, or the
     * first step after a load, the owner sets slot[r][i] to a vector (n of tensor i), zeroed or as
     * loaded. */
    size_t nslots;
    size_t global; /* the slot of the global parameters; TG__NO_SLOT: they are the caller's */
    tg__slot_request *request;
    float ***slot;
    size_t request_cap, slot_cap;
    tg__memory memory[TG__MEMORIES];
    size_t nmemories;
    /* Factor of this rank's gradients in local updates of this step, from clipping by their global
     * norm. Set by the owner before results with a turn, and before step(). */
    float clip;
    /* This rank's gradients of the bucket are finite. Set by the owner before ready(). */
    bool finite;
    float *clipped;  /* (tg__stretch_most) if the optimizer clips */
    size_t *first;   /* (nbuckets) the tensor with which the bucket begins */
    uint64_t *made;  /* (nbuckets) 1 + the last step whose part result() has made */
    void *impl;      /* allocated by init, in `owned` */
    tg__owned owned; /* memory, released with the strategy */
};
#define TG__NO_SLOT SIZE_MAX

const tg_entry *const *tg__strategy_entries(size_t *count_p);
/* See tg_registry_rate_hint. */
const tg_rate_hint *tg__strategy_rate(const char *spec);
/* True if servers keep the parameters. */
bool tg__strategy_is_served(const char *spec);
const tg_entry *const *tg__optimizer_entries(size_t *count_p);
const tg_entry *const *tg__lr_schedule_entries(size_t *count_p);
/* Parse the spec and call init.
 * setup    optimizer to size, external, tensor, ntensors and nbuckets are set. Optimizer and
 *          tensors are borrowed; n, offset and bucket of the tensors must be set, w and g from
 *          begin on. Of s, the caller sets slot[r][i], memory[].updates, samples and clip only
 * Errors   TG_E_SPEC, TG_E_NOMEM, TG_E_UNSUPPORTED, TG_E_ARG (a tensor of no bucket, a bucket of no
 *          tensor)
 * Threads  one at a time; a strategy starts none */
TG_NODISCARD tg_status tg__strategy_create(const char *spec, const tg__strategy *setup,
                                           tg__strategy **s_p);
void tg__strategy_destroy(tg__strategy *s); /* NULL is fine */

/* Call the strategy's function, or do what it says of NULL. */
void tg__strategy_begin(tg__strategy *s);
void tg__strategy_ready(tg__strategy *s, uint64_t t, uint32_t bucket, tg__actions *out);
void tg__strategy_result(tg__strategy *s, const tg__result *r);
void tg__strategy_step(tg__strategy *s, uint64_t t, bool finite, double lr, tg__actions *out);
void tg__strategy_open(tg__strategy *s, uint64_t t);
void tg__strategy_drained(tg__strategy *s, uint64_t t, tg__actions *out);
bool tg__strategy_touches(const tg__strategy *s, uint64_t t, uint32_t bucket, bool in_step);
/* The global parameters of tensor i, which evaluation, checkpoints and hashes use. */
float *tg__strategy_global(const tg__strategy *s, size_t i);

/* ---- for the strategies' own files ---- */

/* The step at which a duration that starts with the run is over.
 * Errors  TG_E_SPEC */
TG_NODISCARD tg_status tg__strategy_until(const tg__strategy *s, const char *key, uint64_t *step_p);
/* Request another slot: slot[*at_p]. After a load with another number of ranks, a slot of role RANK
 * is the mean over the ranks that this one takes over; a REPLICATED one is unchanged.
 * Errors  TG_E_NOMEM */
TG_NODISCARD tg_status tg__strategy_add_slot(tg__strategy *s, const char *name, tg__role role,
                                             size_t *at_p);
/* Request s->global, a REPLICATED slot.
 * Errors  TG_E_NOMEM */
TG_NODISCARD tg_status tg__strategy_add_global(tg__strategy *s);
/* Set the caller's parameters of tensor i to the global ones. */
void tg__strategy_take_global(tg__strategy *s, size_t i);
/* Update the bucket's parameters by the result, with memory 0; nothing if it was dropped. */
void tg__strategy_apply(tg__strategy *s, const tg__result *r);
/* Request the optimizer's slots, as the next entry of s->memory.
 * role    REPLICATED: a memory of averages; RANK: of this rank's gradients
 * Errors  TG_E_NOMEM */
TG_NODISCARD tg_status tg__strategy_add_optimizer(tg__strategy *s, tg__role role);
/* The optimizer of tensor i: without momentum if its method owns that. */
const tg_optimizer *tg__strategy_optimizer(const tg__strategy *s, size_t i);
/* Elements at .. at + n - 1 of a tensor. */
typedef struct tg__stretch {
    size_t at, n;
} tg__stretch;
/* A strategy with several vectors passes over memory only once if it does all of its work on a few
 * elements, which stay in the cache, before it goes on to the next ones:
 *     for (tg__stretch e = tg__stretch_first(s, i); e.n > 0; e = tg__stretch_next(s, i, e))
 * The result has the same bits as whole vectors. If the tensor's optimizer needs the whole tensor
 * at once, there is a single stretch. None is longer than tg__stretch_most(s). */
tg__stretch tg__stretch_first(const tg__strategy *s, size_t i);
tg__stretch tg__stretch_next(const tg__strategy *s, size_t i, tg__stretch e);
size_t tg__stretch_most(const tg__strategy *s);
/* Let the optimizer update a stretch of tensor i by g, with memory m. Update a tensor's stretches
 * in order. update_own: by this rank's clipped gradient.
 * w, g  point to its first element. w is updated: the tensor's parameters, or the strategy's copy
 *       of them */
void tg__strategy_update_at(tg__strategy *s, size_t m, size_t i, tg__stretch e, double lr, float *w,
                            const float *g);
void tg__strategy_update_own_at(tg__strategy *s, size_t m, size_t i, tg__stretch e, double lr,
                                float *w);

/* True if result() should make its bucket's part of step(); this is recorded. */
bool tg__strategy_makes(tg__strategy *s, const tg__result *r);
/* True if the part of tensor i's bucket in step(t) has been made already. */
bool tg__strategy_made(const tg__strategy *s, uint64_t t, size_t i);

/* Reset memory m of tensor i if it is not finite, or so large that it would spoil every later
 * update. */
void tg__strategy_heal(tg__strategy *s, size_t m, size_t i);
/* dst = the result of an update of w, a stretch of tensor i, with memory 0; nothing else changes.
 * dst, w and g point to the first element. dst must not be w. */
void tg__strategy_preview(const tg__strategy *s, size_t i, tg__stretch e, double lr, float *dst,
                          const float *w, const float *g);
/* Return an EXCHANGE of the bucket's gradient of this step. The first bucket has priority, because
 * the next forward pass reads it first. The result is the action, whose other members may be set;
 * never NULL. Without room it is out->refused, and tg__actions_check fails. */
tg__action *tg__actions_add(tg__actions *out, uint32_t bucket, bool coded, uint64_t due);
/* Return a coded EXCHANGE of a bucket's part of a slot. Otherwise as above. */
tg__action *tg__actions_add_slot(const tg__strategy *s, tg__actions *out, uint32_t bucket,
                                 size_t slot, uint64_t due, uint32_t tag);
/* Return one for each bucket. */
void tg__actions_add_slots(const tg__strategy *s, tg__actions *out, size_t slot, uint64_t due,
                           uint32_t tag);
/* Check that all actions found room.
 * Errors  TG_E_STATE: the strategy returned more than its in_flight allows */
TG_NODISCARD tg_status tg__actions_check(const tg__strategy *s, const tg__actions *out);

#endif
