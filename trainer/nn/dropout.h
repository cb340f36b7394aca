/* Dropout: elements are kept with probability 1 - p and divided by it; others become 0. The mask is
 * a function of the key: each element uses 16 bits of a random block, so p is rounded to a multiple
 * of 2^-16 (the division uses the rounded value).
 * Source  Srivastava et al. 2014, JMLR 15 */
#ifndef TG_NN_DROPOUT_H
#define TG_NN_DROPOUT_H

#include "telegrad/base.h"
#include "telegrad/random.h"

/* keep (n): which elements are kept. Element i uses bits 16 (i % 8) ... of block i / 8 of the
 * stream. */
void nn_dropout_draw(const tg_rng_key *key, double p, size_t n, uint8_t *keep);
/* y = x where kept, scaled, else 0. The backward pass is the same function of the gradient. y may
 * be x. */
void nn_dropout_apply(double p, size_t n, const uint8_t *keep, const float *x, float *y);

#endif
