/* Modified Gram-Schmidt on a few long columns, and columns to begin with. */
#ifndef TG_ORTHONORMALIZE_H
#define TG_ORTHONORMALIZE_H

#include "telegrad/base.h"
#include "telegrad/random.h"

/* Each column of a (count columns of n, one after the other) is made orthogonal to those before it
 * and of length 1, one after the other. A column whose norm falls below TG__DEPENDENT of what it
 * was (or is 0, or not finite, or below the normal numbers of f32) becomes 0: the bound is relative
 * because gradients may be small. Where most of a column is taken off, rounding leaves some of it
 * behind, so that it is taken off once more. Norms and products are summed in f64, columns stay
 * f32.
 * Source: Vogels et al. 2019, arXiv:1905.13727, app. B (there an absolute epsilon) */
#define TG__DEPENDENT 1e-6
void tg__orthonormalize(float *a, size_t n, size_t count);

/* Columns that are 0 are drawn: element i of column k is number k * n + i of the key's stream,
 * uniform in [-1, 1). */
void tg__draw_zero_columns(float *a, size_t n, size_t count, const tg_rng_key *key);

#endif
