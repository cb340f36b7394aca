/* What a rank's own optimizer makes of its gradients at a learning rate of 1: what is exchanged
 * where averages are of updates, not of gradients.
 *
 *     d = what the rank's optimizer, with its own memory, would add to 0 at a rate of 1, from
 *         g + wd*w                         (decoupled decay: from g)
 *     w = (1 - lr*wd)*w + lr * mean of d   (coupled decay: w + lr * mean of d)
 *
 * d does not depend on the learning rate, so what a method's memory keeps of it is in the same
 * units as what it keeps of gradients. Momentum is linear, so with SGD, dense exchanges and no clip
 * this is synchronous SGD. Adam is not linear: its second moment here comes from the rank's own
 * gradients, which are complete and on time; coded means are neither.
 *
 * Decay is that of w where g was computed. A step that is dropped because of another rank has
 * entered the rank's memory; so has, where exchanges begin in ready(), a finite bucket of a step
 * that is dropped because of another bucket.
 *
 * Source: Chen et al. 2020 (Quantized Adam with error feedback), arXiv:2004.14180, alg. 2, whose
 * error feedback is here the method's; momentum before the selection: Lin et al. 2018,
 * arXiv:1712.01887, sec. 3.1 */
#ifndef TG_STRATEGY_DIRECTIONS_H
#define TG_STRATEGY_DIRECTIONS_H

#include "strategy/strategy.h"

typedef struct tg__directions {
    float *all;     /* d of all buckets, one after the other */
    size_t *start;  /* (nbuckets) where each begins in `all` */
    float *decayed; /* (tg__stretch_most) g + wd*w */
} tg__directions;

/* Let the strategy exchange directions: memory 0 becomes that of the rank's optimizer.
 * instead  what to use if the optimizer's steps are not proportional to its rate
 * Errors   TG_E_SPEC: they are not; TG_E_NOMEM */
TG_NODISCARD tg_status tg__directions_init(tg__strategy *s, tg__directions *d, const char *instead);
/* Make d of a stretch of tensor i, of the gradients of this step and the caller's parameters.
 * finite  false: d is 0, and the optimizer's memory stays as it is */
void tg__directions_make(tg__strategy *s, const tg__directions *d, size_t i, tg__stretch e,
                         bool finite);
/* Make d of all tensors of a bucket. */
void tg__directions_make_bucket(tg__strategy *s, const tg__directions *d, uint32_t bucket,
                                bool finite);
/* (n of the bucket) the buffer to exchange: the last d. */
const float *tg__directions_of_bucket(const tg__directions *d, uint32_t bucket);
/* (n) the last d of tensor i. */
const float *tg__directions_of(const tg__strategy *s, const tg__directions *d, size_t i);
/* Move the bucket's global parameters by the result, a mean of d. If it was dropped, only a memory
 * that it has spoilt is reset. */
void tg__directions_result(tg__strategy *s, const tg__result *r);
/* Move a stretch of tensor i by d, or by a mean of them.
 * w, d  point to its first element */
void tg__directions_apply(const tg__strategy *s, size_t i, tg__stretch e, double lr, float *w,
                          const float *d);

#endif
