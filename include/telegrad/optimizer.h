/* telegrad/optimizer.h - optimizers and learning-rate schedules by spec string. */
#ifndef TELEGRAD_OPTIMIZER_H
#define TELEGRAD_OPTIMIZER_H

#include "telegrad/base.h"
#include "telegrad/spec.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tg_optimizer tg_optimizer;

/* "sgd:lr=0.05,momentum=0.9,nesterov=no", "adam", "adamw:lr=0.0003,weight_decay=0.1,exempt=1d",
 * "lars:lr=0.1,trust=0.02"; `telegrad methods sgd adam adamw lars` lists keys and defaults.
 * nesterov=yes needs momentum > 0.
 * Errors TG_E_SPEC, TG_E_ARG, TG_E_NOMEM, TG_E_UNSUPPORTED (TG_CPU) */
TG_API TG_NODISCARD tg_status tg_optimizer_create(const char *spec, tg_optimizer **o_p);
TG_API void tg_optimizer_destroy(tg_optimizer *o); /* NULL is fine */

TG_API const tg_spec *tg_optimizer_spec(const tg_optimizer *o);
/* How many state vectors of n elements a tensor needs, and their names ("momentum"). */
TG_API size_t tg_optimizer_slots(const tg_optimizer *o);
/* NULL: there is no such slot. */
TG_API const char *tg_optimizer_slot_name(const tg_optimizer *o, size_t slot);

/* What a step of one tensor depends on beside the vectors. */
typedef struct tg_update {
    double lr;
    uint64_t number; /* 1, 2, ...: of this tensor's updates, this is that; Adam corrects by it */
    size_t ndim;     /* the tensor's dimensions: exempt=1d spares those below 2 */
} tg_update;

/* One update of w (n) by gradient g (n). Let d = g + wd*w, or, where weight decay is decoupled,
 * w = (1 - lr*wd)*w and d = g. Then
 *   sgd          u = m*u + d; w = w - lr*u      (Nesterov: w = w - lr*(d + m*u))
 *   adam, adamw  m = b1*m + (1 - b1)*d; v = b2*v + (1 - b2)*d*d;
 *                w = w - lr/(1 - b1^t) * m / (sqrt(v)/sqrt(1 - b2^t) + eps), t = number
 *   lars         u = m*u + lr * r * d; w = w - u, with r = trust*|w| / (|g| + wd*|w| + eps), and
 *                r = 1 where |w| or |g| is 0 (a tensor that begins as zeros would never move) and
 *                for tensors that `exempt` names
 * `clip` is of all tensors' gradients together, so it is the caller's to apply (a session does).
 * slot     tg_optimizer_slots() vectors (n), zero at first; no array overlaps another; NULL if
 *          there are none
 * Threads  any; o is not changed
 * Source   Sutskever et al. 2013; Kingma and Ba 2015; Loshchilov and Hutter 2019; You et al. 2017;
 *          all but lars in the form of PyTorch */
TG_API void tg_optimizer_step(const tg_optimizer *o, const tg_update *u, float *w, const float *g,
                              size_t n, float *const *slot);

typedef struct tg_lr_schedule tg_lr_schedule;

/* "constant", "step:every=2ep,factor=0.1" or "step:at=15ep+22ep", "cosine", each with warmup=...
 * (linear from lr/warmup_steps); "onecycle". `cosine` goes from lr to final*lr over the steps left
 * after the warm-up, `onecycle` up to lr and down (PyTorch's OneCycleLR, with constant momentum);
 * `step` counts from the first step of the run.
 * total_steps: of the whole run; 0 is fine for constant and step.
 * Errors TG_E_SPEC, TG_E_ARG (lr negative or not finite), TG_E_NOMEM */
TG_API TG_NODISCARD tg_status tg_lr_schedule_create(const char *spec, double lr,
                                                    uint64_t total_steps, uint64_t steps_per_epoch,
                                                    tg_lr_schedule **s_p);
TG_API void tg_lr_schedule_destroy(tg_lr_schedule *s); /* NULL is fine */
/* Rates for a minibatch that is `factor` times as large: lr times factor; a warm-up rises from lr,
 * reached at step 0, by a constant amount a step to factor*lr.
 * Errors TG_E_ARG (factor not above 0)
 * Source Goyal et al. 2017, arXiv:1706.02677, sec. 2.1, 2.2 */
TG_API TG_NODISCARD tg_status tg_lr_schedule_scale(tg_lr_schedule *s, double factor);
TG_API double tg_lr_at(const tg_lr_schedule *s, uint64_t step);  /* a pure function of the step */
TG_API const char *tg_lr_schedule_text(const tg_lr_schedule *s); /* normal form */

#ifdef __cplusplus
}
#endif
#endif
