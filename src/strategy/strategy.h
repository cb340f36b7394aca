/* A strategy says when what is exchanged and how the answer is applied. It is arithmetic on plain
 * arrays and a plan: it sees no transport, no thread, no bytes. One file and one line in
 * strategies.def each.
 *
 * One step t, as the session plays it (every rank the same):
 *     ready(b, t)        bucket b's gradient is complete; may return EXCHANGE actions
 *     [the session waits until every exchange with due <= t has its aggregate]
 *     result(b, s, agg)  in the order the exchanges were returned: apply the aggregate of step s
 *     step(t)            all gradients are in, all due results applied; may return EXCHANGEs
 *     [those with due <= t are waited for now, and delivered: result]
 *
 * At the end of the run the session drains: it delivers what is in flight (result) and calls
 * drained(), again as long as that returns EXCHANGEs. Evaluation never drains: it uses global().
 * After step(t) the parameters are those of the next forward pass.
 *
 * `agg` is the strategy's to read during result() only. A buffer of its own that it gave to an
 * EXCHANGE stays untouched until that exchange's result(). Such a buffer is a change of parameters
 * (or state that goes with them), not a gradient: no learning rate and no clipping of the mean
 * concerns it.
 *
 * If step t's gradient was not finite on this rank, ready(b, t) is called all the same and step(t)
 * gets finite = false; an exchange that any rank flagged is delivered with agg = NULL: apply
 * nothing. */
#ifndef TG_STRATEGY_H
#define TG_STRATEGY_H

#include "telegrad/base.h"
#include "state/state.h"
#include "strategy/optimizers.h"
#include "telegrad/optimizer.h"
#include "telegrad/registry.h"
#include "telegrad/spec.h"

typedef struct tg__action {
    uint32_t bucket;
    const float *buffer; /* (n of the bucket) what to exchange; NULL: the bucket's gradient of this
                          * step (which the session guards) */
    bool coded;          /* through the method's codec; false: dense f32, feedback bypassed */
    bool absent;         /* this rank has nothing to say: it counts as zero, and what the method
                            remembers stays as it is. Ranks may differ in it */
    int priority;        /* smaller first; FIFO among equals */
    uint64_t due;        /* step before whose `step()` the result is delivered */
    uint32_t tag;        /* the strategy's own, given back with the result */
    int hop; /* not 0: the buffer goes, uncoded, to the rank so many further alone, and the
                result is what came from as far behind. The same on all ranks; needs
                `pushes` */
} tg__action;

typedef struct tg__actions { /* filled by the strategy; room: its in_flight per bucket and call */
    tg__action *item;
    size_t count, cap;
} tg__actions;

/* A tensor as strategies see it. All (n). */
typedef struct tg__wtensor {
    float *w;         /* the caller's parameters: what the next forward pass uses */
    const float *g;   /* this step's local gradient (session's copy or the caller's buffer) */
    size_t n, offset; /* offset of the tensor in its bucket */
    size_t ndim;
    uint32_t bucket;
    const tg_optimizer *optimizer; /* of this tensor; NULL: the strategy's */
} tg__wtensor;

/* A vector that the strategy wants kept: one for each trained tensor, those of a bucket side by
 * side, zeroed. */
typedef struct tg__slot_request {
    const char *name; /* "global", "momentum" */
    tg__role role;
    tg__rescale rescale;
    size_t optimizers; /* 1 + number among the optimizer's own slots: tensors whose optimizer has
                          fewer need none. 0: the strategy's */
} tg__slot_request;

/* What an optimizer remembers: of the averages, or of this rank's gradients. */
typedef struct tg__memory {
    size_t slot; /* its first */
    tg__role role;
    bool counts;
    uint64_t
        *updates; /* (ntensors) that each tensor had; set by the owner as slots are, if counts */
} tg__memory;
enum { TG__MEMORIES = 2 };

/* An aggregate that came. */
typedef struct tg__result {
    uint64_t of_step;
    uint32_t bucket, tag;
    const float *agg; /* (n of the bucket); NULL: dropped */
    double lr;        /* of_step's */
} tg__result;

typedef struct tg__strategy tg__strategy;
typedef struct tg__strategy_ops {
    tg_entry entry;
    const char *method;       /* the one its paper has; NULL: "dense" */
    const char *optimizer;    /* the one it needs where none is named; NULL: any */
    const tg_rate_hint *rate; /* NULL: it learns as ssgd does */
    /* read s->spec, check the combination, set s->impl, s->in_flight, s->sends_updates; ask for
     * slots and memories.
     * Errors TG_E_SPEC, TG_E_UNSUPPORTED with the reason */
    tg_status (*init)(tg__strategy *s);
    void (*fini)(tg__strategy *s);
    /* Parameters are set (initial ones): first call before steps. Not called after a load. */
    void (*begin)(tg__strategy *s);
    void (*ready)(tg__strategy *s, uint64_t t, uint32_t bucket, tg__actions *out);
    void (*result)(tg__strategy *s, const tg__result *r);
    void (*step)(tg__strategy *s, uint64_t t, bool finite, double lr, tg__actions *out);
    /* Nothing is in flight after step t: the caller's parameters become the global ones, unless an
     * EXCHANGE is returned. */
    void (*drained)(tg__strategy *s, uint64_t t, tg__actions *out);
    /* The global parameters of tensor i, which evaluation, checkpoints and hashes use. */
    const float *(*global)(const tg__strategy *s, size_t i);
    /* What this rank counts in step t, 1 on average over ranks; 0: it sits the step out, its
     * gradients are not asked for. NULL: all count alike. */
    double (*weight)(const tg__strategy *s, uint64_t t);
    /* After a load with another number of ranks, before step t: this rank's slots and parameters
     * are means of those that it takes over, and what was pushed has been delivered. Returns what
     * is started anew all the same ("..."), or NULL. NULL: all goes on as it is. */
    const char *(*regroup)(tg__strategy *s, uint64_t t);
    bool steps;    /* step() goes over the parameters */
    bool bypasses; /* may ask for exchanges that are not coded */
    /* A result concerns its bucket's parameters alone, and step() does not look at any: then
     * results may be delivered bucket by bucket, after step(), each before the parameters are read.
     */
    bool by_bucket;
} tg__strategy_ops;

struct tg__strategy {
    const tg__strategy_ops *ops;
    const tg_spec *spec;
    const tg_optimizer *optimizer; /* of tensors that name none; with the most slots of all */
    uint64_t steps_per_epoch;
    int64_t epoch_shift; /* tg__epochs */
    uint64_t seed;
    int rank, size;
    const uint64_t *samples; /* (size) of each rank's data, set by the owner before begin, or the
                                first step after a load; NULL: as many on all */
    size_t nbuckets;
    tg__wtensor *tensor; /* (ntensors), trained ones */
    size_t ntensors;
    size_t
        in_flight; /* most exchanges of one bucket that can be under way: 1 unless init says more */
    size_t coded_in_flight; /* most of them that are coded; 0: all may be */
    bool sends_updates;     /* buffers of its own go through the method's codec */
    bool some_absent;       /* ranks may be absent from exchanges */
    bool weighted;          /* by samples: one without any is absent */
    bool decays_apart;      /* weight decay is no part of what is exchanged */
    bool pushes;            /* uncoded exchanges of its buffers go to one rank: hop */
    /* Rounds of so many steps (0: no deadline): a rank that has been at one for longer than
     * deadline_ns when a step begins sits out the rest of it. The owner looks at the clock, and
     * says finite = false of a step that is sat out. */
    uint64_t round_steps;
    int64_t deadline_ns;
    bool needs_mean; /* exchange=none, each rank its own, makes no sense */
    uint32_t tags;   /* that results may have: below this; 1 unless init says more */
    /* The strategy's own, in checkpoints; 0 at the beginning. drained: 1 + the step after which it
     * last sent what was left. anew: steps that were taken before it last began anew. */
    uint64_t drained, anew;
    /* Slots: requests made by init, with zeroed pointer arrays (ntensors); before begin (or the
     * first step after a load) the owner sets slot[r][i] = vector (n of tensor i), zeroed or as
     * loaded. */
    size_t nslots;
    tg__slot_request *request;
    float ***slot;
    tg__memory memory[TG__MEMORIES];
    size_t nmemories;
    /* What this rank's gradients are multiplied with before a local update, of this step: clipping
     * by their global norm. Set by the owner before step(). */
    float clip;
    float *clipped; /* (n of the largest tensor) if the optimizer clips */
    void *impl;
};

const tg__strategy_ops *const *tg__strategies(size_t *count_p);
const tg_entry *const *tg__strategy_entries(size_t *count_p);
/* What tg_registry_strategy_method says. */
const char *tg__strategy_method(const char *spec);
/* What tg_registry_strategy_optimizer says. */
const char *tg__strategy_optimizer_spec(const char *spec);
/* What tg_registry_rate_hint says of a strategy. */
const tg_rate_hint *tg__strategy_rate(const char *spec);
const tg_entry *const *tg__optimizer_entries(size_t *count_p);
const tg_entry *const *tg__lr_schedule_entries(size_t *count_p);
typedef struct tg__strategy_setup {
    const tg_optimizer *optimizer;
    uint64_t steps_per_epoch, seed;
    int64_t epoch_shift;
    int rank, size;
    tg__wtensor *tensor; /* (ntensors) */
    size_t ntensors, nbuckets;
} tg__strategy_setup;
/* Parse and init. optimizer and tensor table are the caller's and must outlive it; n and bucket of
 * the tensors are known by now, w and g only from begin on. Nothing else in s is the caller's to
 * set but slot[r][i], memory[].updates, samples and clip.
 * Errors  TG_E_SPEC, TG_E_NOMEM, TG_E_UNSUPPORTED
 * Threads one at a time; a strategy starts none */
TG_NODISCARD tg_status tg__strategy_create(const char *spec, const tg__strategy_setup *setup,
                                           tg__strategy **s_p);
void tg__strategy_destroy(tg__strategy *s); /* NULL is fine */

/* ---- for the strategies' own files ---- */

/* The step at which a key's duration from the beginning is over. Errors TG_E_SPEC */
TG_NODISCARD tg_status tg__strategy_until(const tg__strategy *s, const char *key, uint64_t *step_p);
/* Ask for one more slot: slot[*at_p]. With another number of ranks a rank's own becomes the mean of
 * those that it takes over, what all have alike stays. Errors TG_E_NOMEM */
TG_NODISCARD tg_status tg__strategy_add_slot(tg__strategy *s, const char *name, tg__role role,
                                             size_t *at_p);
/* Ask for the optimizer's slots: memory[s->nmemories] from then on. role: REPLICATED of averages,
 * RANK of this rank's gradients. Errors TG_E_NOMEM */
TG_NODISCARD tg_status tg__strategy_add_optimizer(tg__strategy *s, tg__role role);
/* The optimizer of tensor i: without momentum where its method owns that. */
const tg_optimizer *tg__strategy_optimizer(const tg__strategy *s, size_t i);
/* The optimizer's update of tensor i by g, memory m: w (the tensor's parameters, or the strategy's
 * copy of them) becomes the next. */
void tg__strategy_update(tg__strategy *s, size_t m, size_t i, double lr, float *w, const float *g);
/* The same by this rank's gradient, clipped. */
void tg__strategy_update_own(tg__strategy *s, size_t m, size_t i, double lr, float *w);
/* Where memory m of tensor i is not finite it is forgotten: it would spoil every update to come. */
void tg__strategy_heal(tg__strategy *s, size_t m, size_t i);
/* dst = what an update by memory 0 would make of w; nothing else changes. dst must not be w. */
void tg__strategy_preview(const tg__strategy *s, size_t i, double lr, float *dst, const float *w,
                          const float *g);
/* Return an EXCHANGE of the bucket's gradient of this step. The first bucket, which the next
 * forward pass reads first, goes first. */
void tg__actions_add(tg__actions *out, uint32_t bucket, bool coded, uint64_t due);
/* Return an EXCHANGE of a bucket's part of a slot, coded. */
void tg__actions_add_slot(const tg__strategy *s, tg__actions *out, uint32_t bucket, size_t slot,
                          uint64_t due, uint32_t tag);

#endif
