/* telegrad/optimizer.h - optimizers and learning-rate schedules by spec string. */
#ifndef TELEGRAD_OPTIMIZER_H
#define TELEGRAD_OPTIMIZER_H

#include "telegrad/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tg_optimizer tg_optimizer;

/* "sgd:lr=0.05,momentum=0.9,weight_decay=0.0001,nesterov=no". Weight decay is coupled (added to the
 * gradient); nesterov=yes needs momentum > 0.
 * Errors TG_E_SPEC, TG_E_ARG, TG_E_NOMEM, TG_E_UNSUPPORTED (TG_CPU) */
TG_API TG_NODISCARD tg_status tg_optimizer_create(const char *spec, tg_optimizer **o_p);
TG_API void tg_optimizer_destroy(tg_optimizer *o);

TG_API const tg_spec *tg_optimizer_spec(const tg_optimizer *o);
/* How many state vectors of n elements a tensor needs, and their names ("momentum"). */
TG_API size_t tg_optimizer_slots(const tg_optimizer *o);
TG_API const char *tg_optimizer_slot_name(const tg_optimizer *o, size_t slot);

/* One update of w (n) by gradient g (n): u = m*u + (g + wd*w); w = w - lr*u
 * (Nesterov: w = w - lr*((g + wd*w) + m*u)).
 * slot     tg_optimizer_slots() vectors (n), zero at first; no array overlaps another
 * Threads  any; o is not changed
 * Source   Sutskever et al. 2013, in the form of PyTorch's SGD */
TG_API void tg_optimizer_step(const tg_optimizer *o, double lr, float *w, const float *g, size_t n,
                              float *const *slot);

typedef struct tg_lr_schedule tg_lr_schedule;

/* "constant", "step:every=2ep,factor=0.1", "cosine", each with warmup=... (linear from
 * lr/warmup_steps). `cosine` goes from lr to final*lr over the steps left after the warm-up;
 * `step` counts from the first step of the run.
 * total_steps: of the whole run; 0 is fine for all but cosine.
 * Errors TG_E_SPEC, TG_E_ARG (lr negative or not finite), TG_E_NOMEM */
TG_API TG_NODISCARD tg_status tg_lr_schedule_create(const char *spec, double lr,
                                                    uint64_t total_steps, uint64_t steps_per_epoch,
                                                    tg_lr_schedule **s_p);
TG_API void tg_lr_schedule_destroy(tg_lr_schedule *s);
TG_API double tg_lr_at(const tg_lr_schedule *s, uint64_t step);  /* a pure function of the step */
TG_API const char *tg_lr_schedule_text(const tg_lr_schedule *s); /* normal form */

#ifdef __cplusplus
}
#endif
#endif
