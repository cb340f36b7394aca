/* A method is a small program of rounds over a bucket. begin() computes and encodes, and names the
 * exchange to run; next() is told that it finished and names the following one, or NULL when the
 * aggregate stands. The default program is the triple codec + feedback + exchange in one round; a
 * line in methods.def binds a name, its keys and paper to it. */
#ifndef TG_METHOD_H
#define TG_METHOD_H

#include "exchange/pump.h"
#include "feedback/feedback.h"
#include "telegrad/registry.h"
#include "schedule/schedule.h"
#include "state/state.h"
#include "telegrad/spec.h"

/* What a method is made for: one bucket of one rank. */
typedef struct tg__method_setup {
    int rank, size;
    uint64_t seed, steps_per_epoch;
    int64_t epoch_shift; /* tg__epochs */
    uint32_t bucket;
    const char *const *tensor; /* (count) names */
    const size_t *len; /* (count) elements; the bucket is their concatenation without gaps */
    const size_t *rows, *cols; /* (count) matrix views */
    const size_t *dims;        /* (count) dimensions; NULL: not known */
    size_t count;
    size_t lanes;       /* exchanges of this bucket that may be under way at once */
    size_t coded_lanes; /* coded ones of those; 0: all */
    bool may_bypass;    /* the strategy will ask for dense uncompressed steps */
    bool pushes;        /* ... each to one rank: task.hop */
    double momentum; /* the optimizer's, which a method that owns momentum takes over; NAN: none */
    int nesterov;    /* the optimizer's: 1, 0; -1: it names none */
    const char *exchange; /* what exchange=auto is; NULL: the one of specs that name none */
    tg__state *state;     /* where slots are made */
    tg__pool *pool;       /* cores for encode and decode; NULL: the calling one. Borrowed */
    const struct tg__nodes *nodes; /* two levels: see two_level.h; NULL: one. Borrowed */
    tg__role role;                 /* of slots that differ from rank to rank */
} tg__method_setup;

/* One bucket, one step. */
typedef struct tg__task {
    uint64_t step;
    const float
        *g; /* (n) what to exchange; finite unless nonfinite; read only until begin() returned */
    bool coded;     /* false: dense f32, feedback bypassed */
    bool nonfinite; /* send zeros, leave the state alone */
    size_t lane;
    double eta;     /* learning rate that the aggregate will be applied with; 0: unknown */
    int hop;        /* not coded, setup.pushes: to the rank that many further */
    bool no_update; /* it will be applied with a learning rate of 0 */
    bool flagged;   /* when next is called: NONFINITE has come in from some rank by then */
    /* When next is called: the number of the exchange to launch now. The program may raise it,
     * below `rounds`, so that it is the same on all ranks of that exchange. */
    unsigned round;
    /* [out] by begin and next: whom the exchange to launch is between; NULL: all ranks */
    const tg__group *group;
    /* [out] by begin */
    double density;     /* what was asked for */
    size_t kept;        /* elements that the frames say something about (see tg__part) */
    size_t coded_bytes; /* frames of this rank's whole vector */
    bool fell_back;     /* coded, but some frame of it is dense */
    /* [out] what left the range of f32 though g is finite, in words; NULL: nothing. The step is
     * dropped on all ranks: of what this rank alone can see, begin and next say it, and the
     * exchange to launch now tells the others, as if g were not finite (of which this rank then
     * sends zeros); of a sum that all ranks see, the engine says it (x->overflow). */
    const char *overflow;
} tg__task;

/* task->overflow of a rank that could not encode: its memory is 0 now. */
#define TG__FORGOT "this rank's gradient with what it remembers (which starts anew at 0)"

typedef struct tg__method tg__method;
struct tg__rehearsal;
typedef struct tg__program_ops {
    unsigned rounds;    /* most exchanges that one task runs */
    unsigned max_lanes; /* most coded tasks of a bucket under way at once; 0: any. 1 where the
                           memory needs the result, or changes in a later round */
    bool defers;        /* the memory is updated by the first `next`, not by begin */
    tg_status (*init)(tg__method *m);
    void (*fini)(tg__method *m);
    /* First round: *x_p is the exchange to launch, its parts encoded. */
    tg_status (*begin)(tg__method *m, tg__task *task, tg__exchange **x_p);
    /* The last launched exchange finished. *x_p NULL: the aggregate is in the lane; else launch
     * that one. */
    tg_status (*next)(tg__method *m, tg__task *task, tg__exchange **x_p);
    /* The aggregate (n), valid until the next begin() in that lane. */
    const float *(*aggregate)(tg__method *m, const tg__task *task);
    /* Some rank's gradient was not finite: take the own decoded payload back into the feedback's
     * pending vector (nothing to do for a task that was nonfinite itself or not coded). */
    tg_status (*undo)(tg__method *m, const tg__task *task);
    /* After a dropped step. What this rank remembers starts anew at 0 if `anyway`, or if some of it
     * is beyond TG__STATE_MOST or NaN: whether it did. Called when no begin() of this method runs.
     * NULL: the feedback's vectors. */
    bool (*heal)(tg__method *m, bool anyway);
    /* The aggregate counts: what this rank dropped from sums (an exchange with leftover) goes into
     * the feedback's pending vector. Called once for each task that is not undone, when no begin()
     * of this method runs. NULL: nothing is dropped. */
    void (*absorb)(tg__method *m, const tg__task *task);
    /* The rounds of a coded step after every warm-up, where they follow from the tensors' sizes and
     * need not grow with them alike; setup->exchange is that of the spec. No method is made. NULL:
     * they are about as many bytes an element in any number of tensors or part of one. */
    void (*foresee)(const tg_spec *spec, const tg__method_setup *setup, struct tg__rehearsal *r);
    /* The learning rate in whose units the pending vector is; NULL, or a result of NULL: none. */
    double *(*units)(const tg__method *m);
    /* Norm of what was not sent yet, in programs that keep it themselves; NULL: the feedback's. */
    double (*residual_norm)(const tg__method *m);
} tg__program_ops;

enum { /* properties of a method, shown by `telegrad methods` and used by the session */
       TG__OWNS_MOMENTUM = 1, /* velocity feedback */
       TG__DENSE = 2,         /* plain f32: coded or not is the same */
       TG__SPARSIFIES = 4,    /* has a density */
       TG__NEEDS_ALL = 8      /* its results may only be applied when those of all buckets are in */
};

typedef struct tg__method_def {
    tg_entry entry;
    tg_method_card card;
    const tg_rate_hint *rate; /* NULL: it learns as dense gradients do */
    const tg__program_ops *program;
    const char *codec; /* default program: codec and feedback by name */
    const char *feedback;
    const tg__combine *combine; /* default program: NULL is the mean */
    uint32_t properties;
} tg__method_def;

struct tg__method {
    const tg__method_def *def;
    tg_spec *spec;          /* with the exchange that there is in the place of auto */
    tg__method_setup setup; /* arrays copied */
    size_t n;
    tg__feedback *feedback; /* NULL if the program has none */
    void *impl;
};

const tg__method_def *const *tg__methods(size_t *count_p);
const tg_entry *const *tg__method_entries(size_t *count_p);
/* What tg_registry_rate_hint says of a method. */
const tg_rate_hint *tg__method_rate(const char *spec);
/* Parse only, to look at a method before tensors are known. A default that depends on another key
 * (twoway=yes: exchange=direct) is in the spec then. */
TG_NODISCARD tg_status tg__method_parse(const char *text, tg_spec **spec_p,
                                        const tg__method_def **def_p);
/* Whether the spec says exchange=auto; the name of the exchange that it would have without. */
bool tg__method_is_auto(const tg_spec *spec);
const char *tg__method_default_exchange(const tg_spec *spec);
/* Whether method and optimizer agree on the momentum (NAN: the optimizer names none) and its kind,
 * if the method owns it. Errors TG_E_SPEC */
TG_NODISCARD tg_status tg__method_check_momentum(const tg__method_def *def, const tg_spec *spec,
                                                 double momentum, int nesterov);
/* Errors TG_E_SPEC (also: dgc:momentum differs from the optimizer's), TG_E_NOMEM, TG_E_UNSUPPORTED
 */
TG_NODISCARD tg_status tg__method_create(const char *text, const tg__method_setup *setup,
                                         tg__method **m_p);
void tg__method_destroy(tg__method *m);

/* Epochs as the setup has them. */
tg__epochs tg__method_epochs(const tg__method_setup *setup);
/* The exchange that the method's spec names; of a spec with exchange=auto, the setup's. */
const tg__exchange_ops *tg__method_exchange(const tg__method *m);

/* Whether something is kept that was not sent yet; its norm, 0 if nothing is kept. */
bool tg__method_remembers(const tg__method *m);
double tg__method_residual_norm(const tg__method *m);
/* What a rank remembers of an element, at the most, when a step was dropped: so little that norms
 * of it, summed over TG__WORLD_MAX ranks, stay finite, or one step that left the range of f32 would
 * make the next ones do so too. */
#define TG__STATE_MOST 0x1p100f
/* ops->heal; its part for n floats of state: whether some are beyond TG__STATE_MOST, or NaN. */
bool tg__method_heal(tg__method *m, bool anyway);
bool tg__feedback_heal(const tg__method *m, bool anyway); /* of the feedback's vectors alone */
bool tg__state_strays(const float *state, size_t n, tg__pool *pool);
/* What undo (`dropped`) or absorb would add to the pending vector for this task, in the units of
 * its rate: owed (n). Nothing changes. And add that later, once. For checkpoints between the two.
 * Errors those of undo */
TG_NODISCARD tg_status tg__method_owed(tg__method *m, const tg__task *task, bool dropped,
                                       float *owed);
void tg__method_repay(tg__method *m, double eta, const float *owed);

/* Count the parts of x into the task: bytes, kept elements, whether a frame of this codec had to be
 * dense (NULL: that is how it is meant). */
void tg__task_count(tg__task *task, const tg__exchange *x, const tg_codec *codec);
/* Fill the parts of x with frames of zeros. */
void tg__put_zeros(tg__exchange *x);
/* Encode values (x->n) into the parts of x, whose codec depends on nothing (f32); NULL: zeros.
 * Counted. Errors those of encoding */
TG_NODISCARD tg_status tg__put_values(tg__exchange *x, const float *values, tg__task *task);

/* A pass that does compensate + encode + sent at once, for a pair (feedback, codec); registered in
 * fused.c with the stepwise path as its reference. Same bits in frames and state. Errors
 * TG_E_NONFINITE (the compensated vector: frames and state are spoilt), those of encoding */
typedef tg_status (*tg__fused_fn)(tg__feedback *f, tg_codec *c, const tg_encode_context *ctx,
                                  const float *g, size_t n, tg__part *parts, size_t nparts);
tg__fused_fn tg__fused_find(const tg__feedback *f, const tg_codec *c); /* NULL: go stepwise */

#endif
