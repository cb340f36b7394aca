/* A method is a small program of rounds over a bucket.
 *
 *     begin(task)     compute and encode; return the exchange to run
 *     next(task)      that exchange has finished: return the following one, or NULL when the
 *                     aggregate is complete
 *     aggregate(task)
 *
 * Most methods use the default program, which is one round of codec + feedback + exchange. A line
 * in methods.def binds a name with its keys and paper to a program. */
#ifndef TG_METHOD_H
#define TG_METHOD_H

#include "exchange/pump.h"
#include "feedback/feedback.h"
#include "telegrad/registry.h"
#include "schedule/schedule.h"
#include "state/state.h"
#include "telegrad/spec.h"

/* What a method is created for: one bucket of one rank. */
typedef struct tg__method_setup {
    int rank, size;
    int servers; /* that the ranks reach */
    int seat; /* of a worker that is alone among servers: its random numbers are as of this rank */
    bool measures; /* one rank, to measure costs: no server answers, so star is allgather */
    uint64_t seed, steps_per_epoch;
    int64_t epoch_shift; /* tg__epochs */
    uint32_t bucket;
    const char *const *tensor; /* (count) names */
    const size_t *len; /* (count) elements; the bucket concatenates the tensors without gaps */
    const size_t *rows, *cols; /* (count) matrix views */
    const size_t *dims;        /* (count) dimensions; NULL: unknown */
    size_t count;
    size_t lanes;       /* exchanges of this bucket that may be in flight at once */
    size_t coded_lanes; /* the largest number of coded ones among them; 0: no limit */
    bool may_bypass;    /* the strategy may ask for dense uncompressed steps */
    bool pushes;        /* ... each to a single rank: task.hop */
    double momentum;    /* the optimizer's, which a method that owns momentum adopts; NAN: none */
    int nesterov;       /* the optimizer's: 1 or 0; -1: it has no such key */
    /* what exchange=auto stands for; NULL: the default exchange of the spec */
    const char *exchange;
    tg__state *state; /* holds the method's slots */
    tg__pool *pool;   /* cores for encode and decode; NULL: the calling one. Borrowed */
    const struct tg__nodes *nodes; /* two levels (two_level.h); NULL: one level. Borrowed */
    tg__role role;                 /* of slots that differ from rank to rank */
    bool served;                   /* aggregates are the parameters that servers keep */
    struct tg_queue *queue;        /* vectors are on its device; NULL: on the host. Borrowed */
} tg__method_setup;

/* One bucket in one step. */
typedef struct tg__task {
    uint64_t step;
    const float *g; /* (n) what to exchange; finite unless nonfinite. Not read after begin() */
    bool coded;     /* false: dense f32, feedback bypassed */
    bool nonfinite; /* send zeros, and leave the state unchanged */
    size_t lane;
    double eta;     /* learning rate that the aggregate will be applied with; 0: unknown */
    int hop;        /* not coded, with setup.pushes: distance to the receiving rank */
    bool no_update; /* the aggregate will be applied with a learning rate of 0 */
    bool flagged;   /* at the call of next: some rank has sent NONFINITE */
    /* At the call of next: the number of the exchange to launch. The program may raise it, staying
     * below `rounds`, so that all ranks of that exchange use the same number. */
    unsigned round;
    /* [out] by begin and next: the ranks of the exchange to launch; NULL: all */
    const tg__group *group;
    /* [out] by begin */
    double density;     /* density asked for */
    size_t kept;        /* elements that the frames carry (see tg__part) */
    size_t coded_bytes; /* frames of this rank's whole vector */
    bool fell_back;     /* coded, but some frame is dense */
    /* [out] if a value overflowed f32 although g is finite: its name, in words; else NULL. All
     * ranks drop the step. begin and next set it for values that only this rank sees: it sends
     * zeros, and the exchange to launch informs the others, as if g were not finite. The engine
     * sets it for sums, which all ranks see (x->overflow). */
    const char *overflow;
} tg__task;

typedef struct tg__method tg__method;
struct tg__rehearsal;

/* What a method keeps for each lane (tg__lanes_make). */
typedef struct tg__lane {
    tg__exchange *coded;   /* for the program */
    tg__exchange *dense;   /* of dense steps; NULL: there are none */
    tg__exchange *running; /* launched last */
    float *aggregate;      /* (n) */
    bool full;             /* it is that of a dense step; the program resets this */
    /* the task is coded, and not one of the first dense_steps; it sends zeros */
    bool was_coded, was_nonfinite;
} tg__lane;
typedef struct tg__program_ops {
    unsigned rounds; /* exchanges of one task, at most */
    /* coded tasks of a bucket in flight at once, at most; 0: any number. 1 if the memory needs the
     * result, or changes in a later round */
    unsigned max_lanes;
    bool defers;       /* the first `next` updates the memory, not begin */
    size_t impl_bytes; /* of m->impl, zeroed before init */
    tg_status (*init)(tg__method *m);
    void (*fini)(tg__method *m); /* release what m->owned does not; NULL: nothing */
    /* For tg__lane_begin and tg__lane_next. encode: the first round of a coded task; sets
     * l->running. advance: l->running has finished; sets the next one to launch, NULL if the
     * aggregate is complete. If the function is NULL, that exchange's result is the aggregate. */
    tg_status (*encode)(tg__method *m, tg__task *task, tg__lane *l);
    tg_status (*advance)(tg__method *m, tg__task *task, tg__lane *l);
    /* The first round: encode; *x_p is the exchange to launch. */
    tg_status (*begin)(tg__method *m, tg__task *task, tg__exchange **x_p);
    /* The exchange launched last has finished. *x_p is the next one to launch; NULL: the aggregate
     * is in the lane. */
    tg_status (*next)(tg__method *m, tg__task *task, tg__exchange **x_p);
    /* The aggregate (n); valid until the next begin() in that lane. */
    const float *(*aggregate)(tg__method *m, const tg__task *task);
    /* The step was dropped: return this rank's decoded payload to the feedback's pending vector.
     * Does nothing for a task that was nonfinite itself, or not coded. */
    tg_status (*undo)(tg__method *m, const tg__task *task);
    /* After a dropped step: reset this rank's memory to 0 if `anyway`, or if a value of it exceeds
     * TG__STATE_MOST or is NaN. Returns true if it was reset. Called when no begin() of this method
     * runs. NULL: only the feedback's vectors are checked. */
    bool (*heal)(tg__method *m, bool anyway);
    /* The aggregate is applied: add what this rank dropped from sums (an exchange with leftover),
     * and what came too late for a server's update, to the feedback's pending vector. Called once
     * for each task that is not undone, when no begin() of this method runs. NULL: nothing is
     * dropped. */
    void (*absorb)(tg__method *m, const tg__task *task);
    /* Predict the rounds of a coded step after all warm-ups, from the sizes of the tensors, without
     * creating a method; setup->exchange is that of the spec. For programs whose bytes do not grow
     * in proportion to elements. NULL: bytes per element are about the same in any part. */
    void (*foresee)(const tg_spec *spec, const tg__method_setup *setup, struct tg__rehearsal *r);
    /* The learning rate that the pending vector is scaled by; NULL, or a result of NULL: none. */
    double *(*units)(const tg__method *m);
    /* Norm of what is not yet sent, for programs that keep it themselves; NULL: the feedback's. */
    double (*residual_norm)(const tg__method *m);
    /* With an exchange whose servers code means: their residuals are to be multiplied by factor, 0:
     * begin at 0, before the next coded step. NULL: the program has no such exchange. */
    void (*scale_served)(tg__method *m, double factor);
    /* With setup.served, before the first step: the parameters (n) that servers have told. NULL:
     * the program does not go by them. */
    void (*have)(tg__method *m, const float *values);
    /* What of that a checkpoint must have; NULL, or a result of NULL: nothing. */
    struct tg__tells *(*tells)(tg__method *m);
    /* For programs whose gradients and aggregates are on a device; NULL: they are on the host. See
     * on_device.h. */
    tg_status (*show)(tg__method *m);
    size_t (*bad)(const tg__method *m);
} tg__program_ops;

/* With an exchange whose servers code means: what the next step tells them. Alike on all ranks. */
typedef struct tg__tells {
    double eta;       /* the learning rate that their residuals are scaled by; 0: none yet */
    double factor;    /* by which they are to multiply their residuals */
    uint32_t dropped; /* their last answer was not applied */
    uint32_t unused;
} tg__tells;

/* Each is described in the file of its name; shared_support_program.c has two. */
extern const tg__program_ops tg__default_program, tg__shared_scale_program,
    tg__shared_support_program, tg__leader_support_program, tg__csc_program, tg__powersgd_program,
    tg__fetchsgd_program;

enum { /* properties of a method, shown by `telegrad methods` and used by the session */
       TG__OWNS_MOMENTUM = 1, /* velocity feedback */
       TG__DENSE = 2,         /* plain f32: coded and uncoded steps are the same */
       TG__SPARSIFIES = 4,    /* has a density */
       /* its results may be applied only when those of all buckets have arrived */
       TG__NEEDS_ALL = 8
};

typedef struct tg__method_def {
    tg_entry entry; /* first member: see tg__method_of */
    tg_method_card card;
    const tg_rate_hint *rate; /* NULL: its learning rate follows that of dense gradients */
    const tg__program_ops *program;
    const char *codec; /* default program: codec and feedback by name */
    const char *feedback;
    const tg__combine *combine; /* default program: NULL is the mean */
    uint32_t properties;
} tg__method_def;

static inline const tg__combine *tg__method_combine(const tg__method_def *def)
{
    return def->combine == NULL ? &tg__combine_mean : def->combine;
}

/* Whether its combine compares the norms of ranks with these settings. */
bool tg__method_cuts(const tg__method_def *def, const tg_spec *spec);

struct tg__method {
    const tg__method_def *def;
    tg_spec *spec;          /* with the chosen exchange in place of auto */
    tg__method_setup setup; /* arrays copied */
    size_t n;
    tg_segment *segments;   /* (setup.count) the tensors */
    tg__feedback *feedback; /* NULL if the program has none */
    float *scratch;         /* (n) for the feedback, if it needs it */
    size_t *begin;          /* (setup.count) offsets of the tensors, for clipping; NULL: off */
    tg_codec *f32;          /* from here on set by tg__lanes_make */
    tg__lane *lane;         /* (setup.lanes) */
    uint64_t dense_steps;   /* the first steps, which are dense; set by the program */
    void *impl;
    tg__owned owned; /* memory, codecs and exchanges, released with the method */
};

const tg_entry *const *tg__method_entries(size_t *count_p);
/* The method that an entry of theirs begins. */
static inline const tg__method_def *tg__method_of(const tg_entry *entry)
{
    return (const tg__method_def *)entry;
}
/* See tg_registry_rate_hint. */
const tg_rate_hint *tg__method_rate(const char *spec);
/* Parse a spec without creating the method, for use before tensors are known. Defaults that depend
 * on another key (twoway=yes: exchange=direct) are resolved. */
TG_NODISCARD tg_status tg__method_parse(const char *text, tg_spec **spec_p,
                                        const tg__method_def **def_p);
/* True if the spec has exchange=auto; and the name of the exchange that it has without that. */
bool tg__method_is_auto(const tg_spec *spec);
const char *tg__method_default_exchange(const tg_spec *spec);
/* True if the spec's exchange sums nothing, so that ranks drift apart. */
bool tg__method_is_apart(const tg_spec *spec);
/* True if servers code the means that the spec's exchange asks for. */
bool tg__method_is_two_way(const tg_spec *spec);
/* If the method owns momentum, check that it agrees with the optimizer on value and kind.
 * momentum  the optimizer's; NAN: none
 * Errors    TG_E_SPEC */
TG_NODISCARD tg_status tg__method_check_momentum(const tg__method_def *def, const tg_spec *spec,
                                                 double momentum, int nesterov);
/* Create a method.
 * Errors  TG_E_SPEC (also: dgc:momentum differs from the optimizer's), TG_E_NOMEM,
 *         TG_E_UNSUPPORTED */
TG_NODISCARD tg_status tg__method_create(const char *text, const tg__method_setup *setup,
                                         tg__method **m_p);
void tg__method_destroy(tg__method *m);

/* The setup's epochs. */
tg__epochs tg__method_epochs(const tg__method_setup *setup);
/* The exchange of the method's spec; with exchange=auto, that of the setup. */
const tg__exchange_ops *tg__method_exchange(const tg__method *m);

/* True if the method keeps what is not yet sent; and the norm of that, 0 if it keeps nothing. */
bool tg__method_remembers(const tg__method *m);
double tg__method_residual_norm(const tg__method *m);
/* The largest memory of an element that a dropped step may leave. It is small enough that norms of
 * it, summed over TG_RANKS_MAX ranks, stay finite. Otherwise a step that overflowed f32 would make
 * the following ones overflow as well. */
#define TG__STATE_MOST 0x1p100f
/* ops->heal. tg__state_strays is its check of n floats: true if one exceeds TG__STATE_MOST or is
 * NaN. */
bool tg__method_heal(tg__method *m, bool anyway);
bool tg__feedback_heal(const tg__method *m, bool anyway); /* of the feedback's vectors only */
bool tg__state_strays(const float *state, size_t n, tg__pool *pool);
/* For checkpoints between a step and its undo or absorb. tg__method_owed computes, without changing
 * anything, what undo (if dropped) or absorb would add to the pending vector for this task;
 * tg__method_repay adds it later, once.
 * owed    (n) in units of the task's rate
 * Errors  those of undo */
TG_NODISCARD tg_status tg__method_owed(tg__method *m, const tg__task *task, bool dropped,
                                       float *owed);
void tg__method_repay(tg__method *m, double eta, const float *owed);

/* ---- for programs ---------------------------------------------------------------------------- */

/* tg_alloc, until the method is destroyed. */
TG_NODISCARD tg_status tg__method_alloc(tg__method *m, size_t count, size_t size, void *ptr_p);
/* Create a codec that the method owns, with the setup's pool. derive: the codec `name` with the
 * keys of the method's spec that it has as well. */
TG_NODISCARD tg_status tg__method_codec(tg__method *m, const char *spec, tg_codec **codec_p);
TG_NODISCARD tg_status tg__method_derive(tg__method *m, const char *name, tg_codec **codec_p);
/* Create an exchange of n elements among the setup's ranks that the method owns, with the setup's
 * pool. combine NULL: the mean. */
TG_NODISCARD tg_status tg__method_join(tg__method *m, const tg__exchange_ops *ops, size_t n,
                                       tg_codec *codec, const tg__combine *combine,
                                       tg__exchange **x_p);
/* The same for an exchange that was created among other ranks. It belongs to the method from the
 * call on. */
TG_NODISCARD tg_status tg__method_own(tg__method *m, tg__exchange *x);
/* For methods that own the momentum: that of the setup's optimizer, or that of the spec.
 * Errors  TG_E_SPEC (tg__method_check_momentum) */
TG_NODISCARD tg_status tg__method_momentum(const tg__method *m, double *momentum_p,
                                           bool *nesterov_p);
/* The exchange of dense steps: direct, unless the method's leaves ranks apart or has servers. */
const tg__exchange_ops *tg__dense_exchange(const tg__method *m);

/* Make f32 and the lanes. dense: the exchange of their dense steps; NULL: none */
TG_NODISCARD tg_status tg__lanes_make(tg__method *m, const tg__exchange_ops *dense);
/* Members of tg__program_ops, in terms of encode and advance. A dense task sends what the
 * feedback's bypass computes, or without a feedback the gradient. */
TG_NODISCARD tg_status tg__lane_begin(tg__method *m, tg__task *task, tg__exchange **x_p);
TG_NODISCARD tg_status tg__lane_next(tg__method *m, tg__task *task, tg__exchange **x_p);
const float *tg__lane_aggregate(tg__method *m, const tg__task *task);
#define TG__IN_LANES .begin = tg__lane_begin, .next = tg__lane_next, .aggregate = tg__lane_aggregate

/* The gradient as it enters the feedback: clipped, if it clips. */
const float *tg__method_clip(tg__method *m, const float *g);
/* This rank could not encode: reset its memory to 0, and inform all ranks; it sends zeros. */
void tg__forget(tg__method *m, tg__task *task);
/* The random stream of a step on this rank. */
tg_rng_key tg__method_key(const tg__method *m, uint64_t step, tg_purpose purpose);

/* Set the outputs of begin to their defaults: all elements (density 1), nothing sent yet. */
void tg__task_begin(tg__task *task);
/* Count the parts of x into the task: bytes, kept elements, fell_back.
 * codec  a dense frame counts as fallen back from it; NULL: dense frames are intended */
void tg__task_count(tg__task *task, const tg__exchange *x, const tg_codec *codec);
/* Fill the parts of x with frames of zeros. */
void tg__put_zeros(tg__exchange *x);
/* Encode values into the parts of x, and count them. The codec of x must need no context (f32).
 * values  (x->n); NULL: zeros
 * Errors  those of encoding */
TG_NODISCARD tg_status tg__put_values(tg__exchange *x, const float *values, tg__task *task);

/* A fused pass: compensate + encode + sent at once (fused.c). The stepwise path is its reference:
 * frames and state have the same bits.
 * Errors  TG_E_NONFINITE (the compensated vector; frames and state are spoilt), those of
 *         encoding */
typedef tg_status (*tg__fused_fn)(tg__feedback *f, tg_codec *c, const tg_encode_context *ctx,
                                  const float *g, size_t n, tg__part *parts, size_t nparts);
tg__fused_fn tg__fused_find(const tg__feedback *f,
                            const tg_codec *c); /* NULL: none, use the stepwise path */

#endif
