/* telegrad/optimizer.h - optimizers and learning-rate schedules by spec string. */
#ifndef TELEGRAD_OPTIMIZER_H
#define TELEGRAD_OPTIMIZER_H

#include "telegrad/base.h"
#include "telegrad/spec.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tg_optimizer tg_optimizer;

/* Create an optimizer.
 * spec    "sgd:lr=0.05,momentum=0.9,nesterov=no", "adam", "lars:lr=0.1,trust=0.02",
 *         "adamw:lr=0.0003,weight_decay=0.1,exempt=1d"; nesterov=yes requires momentum > 0.
 *         `telegrad optimizers NAME` lists keys and defaults
 * Errors  TG_E_SPEC, TG_E_ARG, TG_E_NOMEM, TG_E_UNSUPPORTED (TG_CPU) */
TG_API TG_NODISCARD tg_status tg_optimizer_create(const char *spec, tg_optimizer **o_p);
TG_API void tg_optimizer_destroy(tg_optimizer *o); /* NULL is fine */

/* Its spec. Lives as long as the optimizer. */
TG_API const tg_spec *tg_optimizer_spec(const tg_optimizer *o);
/* Number of state vectors that a tensor of n elements needs, each of n elements. */
TG_API size_t tg_optimizer_slots(const tg_optimizer *o);
/* Name of a state vector, e.g. "momentum"; NULL if there is no such slot. */
TG_API const char *tg_optimizer_slot_name(const tg_optimizer *o, size_t slot);

/* What the update of a tensor depends on, apart from the vectors. */
typedef struct tg_update {
    size_t struct_size; /* sizeof(tg_update) */
    double lr;
    /* 1 for this tensor's first update, then 2, ...: for the bias correction of adam and adamw,
     * which refuse 0; the others do not read it. */
    uint64_t number;
    size_t ndim; /* dimensions of the tensor; exempt=1d exempts tensors with fewer than 2 */
} tg_update;

/* Update the parameters w of one tensor by its gradient g.
 * With d = g + wd*w (or, if weight decay is decoupled, w = (1 - lr*wd)*w and d = g):
 *   sgd          u = m*u + d; w = w - lr*u      (Nesterov: w = w - lr*(d + m*u))
 *   adam, adamw  m = b1*m + (1 - b1)*d; v = b2*v + (1 - b2)*d*d;
 *                w = w - lr/(1 - b1^t) * m / (sqrt(v)/sqrt(1 - b2^t) + eps), t = number
 *   lars         u = m*u + lr * r * d; w = w - u, with r = trust*|w| / (|g| + wd*|w| + eps);
 *                r = 1 if |w| or |g| is 0 (otherwise a tensor of zeros would never change), and for
 *                tensors that `exempt` covers
 * `clip` needs the norm over all tensors, so the caller applies it (a session does).
 * w, g     (n) must not overlap
 * slot     (tg_optimizer_slots) vectors (n), zero before the first update; they must not overlap
 *          each other, w or g. NULL if there are none
 * Errors   TG_E_ARG
 * Threads  any; o does not change
 * Source   Sutskever et al. 2013; Kingma and Ba 2015; Loshchilov and Hutter 2019; You et al. 2017;
 *          all but lars in the form of PyTorch */
TG_API TG_NODISCARD tg_status tg_optimizer_step(const tg_optimizer *o, const tg_update *u, float *w,
                                                const float *g, size_t n, float *const *slot);

typedef struct tg_lr_schedule tg_lr_schedule;

/* Create a learning-rate schedule.
 * spec             constant   lr
 *                  step       e.g. "step:every=2ep,factor=0.1", "step:at=15ep+22ep"; counted from
 *                             the first step of the run
 *                  cosine     from lr to final*lr over the steps after the warm-up
 *                  onecycle   up to lr and down again (PyTorch's OneCycleLR, constant momentum)
 *                  All but onecycle take warmup=...: linear from lr/warmup_steps
 * lr               the base rate, >= 0
 * total_steps      of the whole run; may be 0 for constant and step
 * steps_per_epoch  for durations in epochs
 * Errors           TG_E_SPEC, TG_E_ARG (lr negative or not finite), TG_E_NOMEM */
TG_API TG_NODISCARD tg_status tg_lr_schedule_create(const char *spec, double lr,
                                                    uint64_t total_steps, uint64_t steps_per_epoch,
                                                    tg_lr_schedule **s_p);
TG_API void tg_lr_schedule_destroy(tg_lr_schedule *s); /* NULL is fine */
/* Scale the rates for a minibatch that is `factor` times as large: lr becomes factor*lr, and a
 * warm-up rises linearly from lr at step 0 to factor*lr.
 * factor  > 0, at most 1e30
 * Errors  TG_E_ARG
 * Source  Goyal et al. 2017, arXiv:1706.02677, sec. 2.1, 2.2 */
TG_API TG_NODISCARD tg_status tg_lr_schedule_scale(tg_lr_schedule *s, double factor);
/* The rate of a step (0, 1, ...): a pure function. */
TG_API double tg_lr_schedule_at(const tg_lr_schedule *s, uint64_t step);
/* The normal form. Lives as long as the schedule. */
TG_API const char *tg_lr_schedule_text(const tg_lr_schedule *s);

#ifdef __cplusplus
}
#endif
#endif
